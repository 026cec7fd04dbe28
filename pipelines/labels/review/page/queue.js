// What is to be looked at, one label at a time: first the sample of certain labels, then those in doubt.

import { $, count, h } from "./dom.js";
import { facts, homeOf, isUnseenSample, reasonOf, review, targetOf } from "./model.js";
import { linked } from "./cards.js";

const OTHERS_SHOWN = 8;
const answered = new Set(); // labels whose answer is under way
let commands;

/** The labels to look at: the sample, then those in doubt, cluster by cluster. */
export function waiting() {
  const groups = [...review.groups.values()];
  const sample = groups.flatMap((group) => facts(group).relevant.filter((label) => isUnseenSample(label, group)));
  const doubtful = groups.flatMap((group) => facts(group).doubtful);
  return [...new Set([...sample, ...doubtful])].filter((label) => !answered.has(label));
}

/** Show the next label at once, while `act` carries out the answer about this one. */
export async function answer(label, act) {
  answered.add(label);
  draw();
  await act();
  answered.delete(label);
  draw();
}

/** The label that the queue shows, if there is one. */
export const current = () => waiting()[0];

/** What accepting the label's proposal would do. */
export function proposalFor(label) {
  const home = homeOf(label);
  if (reasonOf(label, home).startsWith("no landmark")) return { text: "leave it out", action: { do: "mark", labels: [label], irrelevant: true } };
  const to = targetOf(label);
  if (to === null) return { text: `it belongs to ${home.name}`, action: stay(label) };
  return { text: `move it to ${review.groups.get(to).name}`, action: { do: "accept", moves: [{ labels: [label], to }] } };
}

export const stay = (label) => ({ do: "check", labels: [label] });

export function start(given) {
  commands = given;
  draw();
}

export function draw() {
  const labels = waiting();
  const [label] = labels;
  $("queue").hidden = false;
  $("queue").replaceChildren(...(label === undefined ? finished() : item(label, labels.length)));
}

function finished() {
  return [h("p", { class: "quiet" }, ["Nothing is left to look at", review.sample].filter(Boolean).join("; "))];
}

function item(label, left) {
  const home = homeOf(label);
  const { landmarks, hypernyms, examples } = review.labels[label];
  const others = facts(home).relevant.filter((other) => other !== label);
  const sampled = isUnseenSample(label, home);
  const { text, action } = proposalFor(label);
  const staying = action.do !== "check";
  const button = (name, key, words, main = false) => h("button", {
    type: "button", class: main ? "main" : "", data: { queue: name }, "aria-keyshortcuts": key, onclick: () => commands[name](),
  }, words, " ", h("kbd", {}, key));
  return [
    h("p", { class: "quiet" }, [`${count(left, "label")} to look at`, review.sample].filter(Boolean).join("; ")),
    h("h2", { id: "queue-label" }, label, " ", h("small", {}, count(landmarks, "landmark"))),
    hypernyms.length ? h("p", { class: "chain" }, hypernyms.map((name) => `→ ${name}`).join(" ")) : null,
    h("p", {}, "in ", h("strong", {}, home.name), ` (${[home.kind, ...home.above].join(" › ")})`,
      others.length ? ` with ${others.slice(0, OTHERS_SHOWN).join(", ")}${others.length > OTHERS_SHOWN ? ` and ${others.length - OTHERS_SHOWN} more` : ""}` : " alone"),
    h("p", { class: "doubtful" }, sampled ? "a sample: is it right?" : `in doubt: ${reasonOf(label, home)}`),
    examples.length ? h("p", { class: "quiet" }, examples.slice(0, 4).flatMap((example, at) => [at ? " · " : "", linked(example)])) : null,
    h("p", { class: "buttons" }, button("yes", "y", `Yes, ${text}`, true), staying ? button("stays", "h", `No, it stays in ${home.name}`) : null,
      button("elsewhere", "e", "It belongs elsewhere…"), action.irrelevant ? null : button("leaveOut", "o", "Leave it out")),
  ].filter(Boolean);
}
