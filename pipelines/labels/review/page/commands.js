// What keys, buttons and dragging do. Each command works on what is selected, or else on the card or label in focus.

import { $, count, h, say } from "./dom.js";
import { facts, groupNamed, homeOf, review, targetOf } from "./model.js";
import { act } from "./api.js";
import { ask } from "./requests.js";
import * as selection from "./selection.js";
import { activeCard, focusCard, hits, nextOpen, putFocusBack, whereFocusIs } from "./board.js";
import * as queue from "./queue.js";
import { confirm, drafts, fresh, known, pick, showHelp, showLandmarks, write } from "./dialogs.js";

const SEPARATOR = ">";
const group = (number) => review.groups.get(number);

/** The card in focus, or else the one to which the tab key leads. */
const here = () => whereFocusIs().number ?? activeCard();

/** The clusters to work on: the given one, those selected, or the one in focus. */
function clustersMeant(number) {
  if (number !== undefined) return [number];
  if (selection.clusters.size) return [...selection.clusters];
  return here() === null ? [] : [here()];
}

/** The labels to work on: those selected, or the one in focus. */
function labelsMeant() {
  if (selection.labels.size) return [...selection.labels];
  const { label } = whereFocusIs();
  return label === undefined ? [] : [label];
}

async function done(action) {
  const was = await act(action);
  if (was) selection.clearSelection();
  return was;
}

export const commands = {
  rename(number = here()) {
    if (number !== null) renameInPlace(number);
  },

  /** Labels move; selected clusters merge; one cluster asks with which. */
  mergeOrMove() {
    const labels = labelsMeant();
    if (labels.length) return this.move(labels);
    const clusters = clustersMeant();
    return clusters.length > 1 ? this.merge(clusters) : clusters.length ? this.mergeWith(clusters[0]) : null;
  },

  /** The cluster of most landmarks keeps its name, kind and groups; of equal ones the first. */
  async merge(clusters) {
    const [into] = [...clusters].sort((a, b) => facts(group(b)).landmarks - facts(group(a)).landmarks);
    if (await done({ do: "merge", clusters, into })) focusCard(into);
  },

  async mergeWith(number) {
    const answer = await pick(`Merge ${group(number).name} with`, { except: [number], does: "Merge" });
    if (answer) await this.merge([answer.to, number]);
  },

  /** A class above may be suggested as the cluster, perhaps a new one. */
  async move(labels, suggestion) {
    const homes = selection.byHome(labels);
    const suggested = suggestion && groupNamed(suggestion);
    const answer = await pick(`Move ${labels.length === 1 ? labels[0] : `${labels.length} labels`} to`, {
      except: homes.size === 1 ? [...homes.keys()] : [], mayMake: true, does: "Move",
      others: suggestion && !homes.has(suggested?.number) ? [suggested ? known(suggested) : fresh(suggestion)] : [],
    });
    if (!answer) return;
    const { kind } = group([...homes.keys()][0]);
    await done({ do: "move", labels, ...(answer.to === undefined ? { name: answer.name, kind } : { to: answer.to }) });
  },

  moveTo: (labels, to) => done({ do: "move", labels, to }),

  /** Selected labels become a cluster. */
  async split() {
    const labels = labelsMeant();
    if (!labels.length) return say("Select the labels to split off");
    const homes = selection.byHome(labels);
    const [commonest] = [...labels].sort((a, b) => review.labels[b].landmarks - review.labels[a].landmarks);
    const isFree = homes.size === 1 && !groupNamed(commonest);
    const name = isFree ? commonest : await write("New cluster", { label: "Its name", does: "Make", optional: false });
    if (name && homes.size === 1) return done({ do: "split", cluster: [...homes.keys()][0], labels, name, method: "selection" });
    return name && done({ do: "move", labels, name, kind: group([...homes.keys()][0]).kind });
  },

  irrelevant() {
    const labels = labelsMeant();
    if (!labels.length && selection.clusters.size > 1) return this.irrelevantClusters([...selection.clusters]);
    if (!labels.length) return here() === null ? null : this.irrelevantCluster(here());
    const marked = (label) => homeOf(label).irrelevant.includes(label);
    return done({ do: "mark", labels, irrelevant: !labels.every(marked) });
  },

  async irrelevantCluster(number) {
    const { name, labels } = group(number);
    const { relevant, landmarks } = facts(group(number));
    const lost = `${count(relevant.length, "label")} of ${count(landmarks, "landmark")} would leave the hierarchy.`;
    if (relevant.length > 1 && !(await confirm(`Leave out all of ${name}?`, lost, "Leave out"))) return null;
    return done({ do: "mark", labels, irrelevant: relevant.length > 0 });
  },

  async irrelevantClusters(numbers) {
    const groups = numbers.map(group);
    const left = groups.flatMap((each) => facts(each).relevant);
    const lost = `${count(left.length, "label")} would leave the hierarchy.`;
    if (left.length && !(await confirm(`Leave out all of ${groups.length} clusters?`, lost, "Leave out"))) return null;
    return done({ do: "mark", labels: left.length ? left : groups.flatMap((each) => each.labels), irrelevant: left.length > 0 });
  },

  /** The labels of the queue's row go where it is proposed, stay, are left out or go elsewhere. */
  yes: () => queue.answer((labels) => act(queue.proposal(labels).action)),
  stays: () => queue.answer((labels) => act(queue.stay(labels))),
  leaveOut: () => queue.answer((labels) => act(queue.leaveOut(labels))),
  elsewhere: () => queue.answer((labels) => commands.move(labels, review.labels[labels[0]].hypernyms[0])),
  except: queue.except,

  /** All labels that the search finds are selected. */
  selectHits() {
    const found = hits();
    if (found.length) selection.selectAll(selection.labels, found);
    else say("Search for something first");
  },

  /** What carries the label in focus, or the one that is selected. */
  async landmarks() {
    const label = whereFocusIs().label ?? [...selection.labels][0];
    if (label === undefined) return;
    const found = await ask("landmarks", { label });
    if (found) showLandmarks(label, found);
  },

  approve(number) {
    const clusters = clustersMeant(number);
    if (!clusters.length) return null;
    return done({ do: "approve", clusters, approved: !clusters.every((each) => group(each).approved) });
  },

  /** Labels go where it is proposed; without any, those in doubt of the cards. */
  accept() {
    const labels = labelsMeant();
    const meant = labels.length ? labels : clustersMeant().flatMap((number) => facts(group(number)).doubtful);
    const targets = [...new Set(meant.map(targetOf))].filter((to) => to !== null);
    const moves = targets.map((to) => ({ to, labels: meant.filter((label) => targetOf(label) === to) }));
    return moves.length ? done({ do: "accept", moves }) : say("No other cluster is proposed for these");
  },

  kind(number) {
    const labels = number === undefined ? labelsMeant() : [];
    if (labels.length) return this.kindOfLabels(labels);
    const clusters = clustersMeant(number);
    if (!clusters.length) return null;
    return done({ do: "kind", clusters, kind: group(clusters[0]).kind === "natural" ? "human-made" : "natural" });
  },

  /** Labels of the other kind go to a cluster of that kind; those that may be either stay. */
  async kindOfLabels(labels) {
    const { kind } = homeOf(labels[0]);
    const other = kind === "natural" ? "human-made" : "natural";
    const either = !labels.every((label) => homeOf(label).either.includes(label));
    const answer = await pick(`${labels.length === 1 ? labels[0] : `${labels.length} labels`}, ${other}: move to`, {
      except: [...review.groups.values()].filter((each) => each.kind === kind).map((each) => each.number), mayMake: true, does: "Choose",
      others: [{ answer: { either }, parts: [h("span", { class: "text" }, either ? "Either kind: stay here" : `Only ${kind}: stay here`)] }],
    });
    if (!answer) return;
    if ("either" in answer) await done({ do: "either", labels, either });
    else await done({ do: "move", labels, ...(answer.to === undefined ? { name: answer.name, kind: other } : { to: answer.to }) });
  },

  async above(number) {
    const clusters = clustersMeant(number);
    if (!clusters.length) return;
    const known = [...new Set([...review.groups.values()].map(({ above }) => above.join(` ${SEPARATOR} `)).filter(Boolean))];
    const text = await write(clusters.length === 1 ? `Group above ${group(clusters[0]).name}` : `Group above ${clusters.length} clusters`, {
      value: group(clusters[0]).above.join(` ${SEPARATOR} `), known: known.sort(),
      label: `Between the kind and the cluster, coarse to fine, several separated by ${SEPARATOR}; empty for none`,
    });
    if (text !== null) await done({ do: "above", clusters, above: text.split(SEPARATOR).map((name) => name.trim()).filter(Boolean) });
  },

  async comment(number = here()) {
    if (number === null) return;
    const { name, comment } = group(number);
    const text = await write(`Comment on ${name}`, { value: comment, label: "What others should know", draft: number });
    if (text !== null && (text === comment || (await act({ do: "comment", cluster: number, text })))) drafts.delete(number);
  },

  undo: () => (review.undo ? act({ do: "undo" }) : say("Nothing to undo")),
  redo: () => (review.redo ? act({ do: "redo" }) : say("Nothing to redo")),
  next: () => nextOpen(whereFocusIs().number ?? null),
  help: () => showHelp(),
  clear: () => selection.clearSelection(),
  search: () => $("text").focus(),
};

/** The name becomes a field; Enter saves, Escape or leaving it does not. */
function renameInPlace(number) {
  const button = $(`name-${number}`);
  const { name } = group(number);
  const input = h("input", { type: "text", class: "rename", value: name, maxLength: 200, "aria-label": `New name of ${name}`, spellcheck: false });
  const head = button.closest(".head");
  const spot = whereFocusIs();
  head.draggable = false; // so that the mouse selects text
  let over = false;
  const finish = async (save) => {
    if (over) return;
    over = true;
    const text = input.value.trim();
    input.replaceWith(button);
    head.draggable = true;
    putFocusBack(spot);
    if (!save || !text || text === name) return;
    const other = groupNamed(text);
    if (other) say(`Not done: another cluster is named ${text}. Merge them, or choose another name.`, { trouble: true });
    else await act({ do: "rename", cluster: number, name: text });
  };
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    finish(event.key === "Enter");
  });
  input.addEventListener("blur", () => finish(false));
  button.replaceWith(input);
  input.focus();
  input.select();
}
