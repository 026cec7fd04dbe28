// What is to be looked at, in rows of labels of one cluster with one question: the sample of certain labels, then those
// proposed elsewhere, then other doubts, those of a kind alone last; of each, the row of which most labels are probably wrong comes first.

import { $, count, h, say } from "./dom.js";
import { facts, homeOf, isUnseenSample, reasonOf, review, targetOf } from "./model.js";
import { linked } from "./cards.js";

const LONGEST_ROW = 9, OTHERS_SHOWN = 8; // digits take labels out of a row
const answered = new Set(); // labels whose answer is under way
let excepted = new Set(); // labels taken out of the row shown: they make the next one
let again = new Set();
let commands;

/** What accepting the proposal for a label would do. */
function proposalFor(label) {
  const home = homeOf(label);
  if (isUnseenSample(label, home)) return "stay";
  return reasonOf(label, home).startsWith("no landmark") ? "out" : targetOf(label) ?? "stay";
}

function rankOf(label, group) {
  if (isUnseenSample(label, group)) return 0;
  return proposalFor(label) !== "stay" ? 1 : reasonOf(label, group) !== "kind" ? 2 : 3;
}

const doubt = (labels) => labels.reduce((sum, label) => sum + review.labels[label].wrong, 0); // how many are wrong, probably

const toLookAt = (group) =>
  new Set([...group.sampled.filter((label) => isUnseenSample(label, group)), ...facts(group).doubtful]);

/** The rows of labels to look at. */
function rows() {
  const found = new Map();
  for (const group of review.groups.values()) for (const label of toLookAt(group)) {
    if (answered.has(label)) continue;
    const rank = again.has(label) ? -1 : rankOf(label, group);
    const key = [rank, group.number, proposalFor(label)].join();
    if (!found.has(key)) found.set(key, { rank, labels: [] });
    found.get(key).labels.push(label);
  }
  return [...found.values()].sort((a, b) => a.rank - b.rank || doubt(b.labels) - doubt(a.labels)).map(({ labels }) => labels);
}

const shown = () => rows()[0]?.slice(0, LONGEST_ROW) ?? [];

/** Show the next row at once, while `act` carries out the answer about the labels left in this one. */
export async function answer(act) {
  const labels = shown().filter((label) => !excepted.has(label));
  if (!labels.length) return say(shown().length ? "Every label is taken out of the row" : "Nothing is left to look at");
  labels.forEach((label) => answered.add(label));
  [again, excepted] = [excepted, new Set()];
  draw();
  await act(labels);
  labels.forEach((label) => answered.delete(label));
  draw();
}

/** Take a label out of the row, or put it back. */
export function except(index) {
  const label = shown()[index];
  if (label === undefined) return;
  if (!excepted.delete(label)) excepted.add(label);
  draw();
}

/** What accepting the proposal for labels of a row says and does. */
export function proposal(labels) {
  const [it, belongs] = labels.length === 1 ? ["it", "it belongs"] : ["them", "they belong"];
  const to = proposalFor(labels[0]);
  if (to === "out") return { text: `leave ${it} out`, action: leaveOut(labels) };
  if (to === "stay") return { text: `${belongs} to ${homeOf(labels[0]).name}`, action: stay(labels) };
  return { text: `move ${it} to ${review.groups.get(to).name}`, action: { do: "accept", moves: [{ labels, to }] } };
}

export const stay = (labels) => ({ do: "check", labels });
export const leaveOut = (labels) => ({ do: "mark", labels, irrelevant: true });

export function start(given) {
  commands = given;
  draw();
}

export function draw() {
  const left = rows();
  $("queue").hidden = false;
  $("queue").replaceChildren(...(left.length ? row(shown(), left) : finished()));
}

function finished() {
  return [h("p", { class: "quiet" }, ["Nothing is left to look at", review.sample].filter(Boolean).join("; "))];
}

function row(labels, left) {
  const home = homeOf(labels[0]);
  const others = facts(home).relevant.filter((other) => !labels.includes(other));
  const { text, action } = proposal(labels);
  const one = labels.length === 1;
  const button = (name, key, words, main = false) => h("button", {
    type: "button", class: main ? "main" : "", data: { queue: name }, "aria-keyshortcuts": key, onclick: () => commands[name](),
  }, words, " ", h("kbd", {}, key));
  const total = `${count(left.flat().length, "label")} to look at in ${count(left.length, "row")}`;
  return [
    h("p", { class: "quiet" }, [total, review.sample].filter(Boolean).join("; ")),
    h("p", {}, "in ", h("strong", {}, home.name), ` (${[home.kind, ...home.above].join(" › ")})`,
      others.length ? ` with ${others.slice(0, OTHERS_SHOWN).join(", ")}${others.length > OTHERS_SHOWN ? ` and ${others.length - OTHERS_SHOWN} more` : ""}` : " alone"),
    h("ul", { class: "row" }, labels.map((label, index) => item(label, home, one ? null : index))),
    h("p", { class: "buttons" }, button("yes", "y", `Yes, ${text}`, true),
      action.do === "check" ? null : button("stays", "h", `No, ${one ? "it stays" : "they stay"} in ${home.name}`),
      button("elsewhere", "e", `${one ? "It belongs" : "They belong"} elsewhere…`), action.irrelevant ? null : button("leaveOut", "o", `Leave ${one ? "it" : "them"} out`)),
  ];
}

/** A label of a row: a digit takes it out, if there are others. */
function item(label, home, index) {
  const { landmarks, hypernyms, examples } = review.labels[label];
  const out = excepted.has(label);
  const digit = index === null ? null : h("button", {
    type: "button", "aria-pressed": String(out), "aria-keyshortcuts": index + 1, "aria-label": `Take ${label} out of the row`, onclick: () => except(index),
  }, h("kbd", {}, index + 1));
  return h("li", { class: out ? "out" : "" }, digit, h("strong", { class: "asked" }, label), " ", h("small", {}, count(landmarks, "landmark")), " ",
    h("span", { class: "chain" }, hypernyms.map((name) => `→ ${name}`).join(" ")), " ",
    h("span", { class: "doubtful" }, isUnseenSample(label, home) ? "a sample: is it right?" : `in doubt: ${reasonOf(label, home)}`), " ",
    h("span", { class: "quiet" }, examples.slice(0, index === null ? 4 : 1).flatMap((example, at) => [at ? " · " : "", linked(example)])));
}
