// What is selected: labels, perhaps of several clusters, or clusters. The toolbar below says what can be done with them.

import { $, count, h } from "./dom.js";
import { homeOf, review, targetOf } from "./model.js";

export const labels = new Set();
export const clusters = new Set();

const listeners = [];
export const onSelect = (listener) => listeners.push(listener);

/** Add, take away or turn over; selecting labels lets go of clusters and the other way round. */
export function select(set, item, selected = !set.has(item)) {
  if (selected) (set === labels ? clusters : labels).clear();
  if (selected) set.add(item);
  else set.delete(item);
  changed();
}

export function selectAll(set, items) {
  (set === labels ? clusters : labels).clear();
  items.forEach((item) => set.add(item));
  changed();
}

export function clearSelection() {
  labels.clear();
  clusters.clear();
  changed();
}

/** Let go of clusters that are no more. */
export function forgetGone() {
  for (const number of clusters) if (!review.groups.has(number)) clusters.delete(number);
  changed();
}

function changed() {
  listeners.forEach((listener) => listener());
}

/** Labels by the number of their cluster. */
export function byHome(names) {
  const homes = new Map();
  for (const label of names) {
    const { number } = homeOf(label);
    homes.set(number, [...(homes.get(number) ?? []), label]);
  }
  return homes;
}

/** Draw the toolbar. `commands` are functions by name. */
export function drawSelection(commands) {
  const bar = $("selection");
  const some = labels.size + clusters.size;
  bar.hidden = !some;
  if (!some) return;
  const tool = (text, key, name) => h("button", { type: "button", onclick: () => commands[name](), "aria-keyshortcuts": key },
    text, " ", h("kbd", {}, key));
  const tools = labels.size
    ? [tool("Move to…", "m", "mergeOrMove"), tool("New cluster…", "s", "split"), tool("Irrelevant", "i", "irrelevant"),
      tool("Kind…", "t", "kind"), [...labels].some((label) => targetOf(label) !== null) && tool("As proposed", "p", "accept"),
      labels.size === 1 && tool("Landmarks", "l", "landmarks")]
    : [clusters.size > 1 && tool("Merge", "m", "mergeOrMove"), tool("Approve", "a", "approve"),
      tool("Other kind", "t", "kind"), tool("Group…", "g", "above")];
  const said = labels.size ? count(labels.size, "label") : count(clusters.size, "cluster");
  bar.replaceChildren(h("strong", {}, `${said} selected`), ...tools.filter(Boolean),
    h("button", { type: "button", class: "plain", onclick: () => commands.clear() }, "Clear ", h("kbd", {}, "Esc")));
}
