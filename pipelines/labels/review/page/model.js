// What the page knows of the review, and what follows from it. The server decides; this is its latest word.

export const review = {
  annotator: "", log: "", seq: 0, undo: null, redo: null,
  labels: {}, doubts: [], sample: "",
  groups: new Map(),
};

const homes = new Map(); // label → the number of its cluster

/** Take the clusters that changed; null is one that is gone. Returns their numbers. */
export function take(news) {
  const changed = [];
  for (const [number, group] of Object.entries(news.groups)) {
    changed.push(Number(number));
    if (group) {
      review.groups.set(Number(number), Object.freeze(group));
      group.labels.forEach((label) => homes.set(label, Number(number)));
    } else review.groups.delete(Number(number));
  }
  Object.assign(review, { seq: news.seq, undo: news.undo, redo: news.redo, sample: news.sample });
  return changed;
}

const derived = new WeakMap();

/** Facts of a cluster: its labels from the commonest to the rarest, counts, doubts. Computed once a version. */
export function facts(group) {
  if (!derived.has(group)) derived.set(group, derive(group));
  return derived.get(group);
}

function derive(group) {
  const irrelevant = new Set(group.irrelevant);
  const either = new Set(group.either);
  const rank = (label) => review.labels[label].landmarks;
  const ordered = [...group.labels].sort((a, b) =>
    irrelevant.has(a) - irrelevant.has(b) || rank(b) - rank(a) || (a < b ? -1 : 1));
  const relevant = ordered.filter((label) => !irrelevant.has(label));
  const doubtful = relevant.filter((label) => reasonOf(label, group));
  const doubt = group.approved ? "" : review.doubts[group.number] ?? "";
  const examples = inTurn(relevant.map((label) => review.labels[label].examples));
  return {
    ordered, irrelevant, either, relevant, doubtful, doubt,
    landmarks: relevant.reduce((sum, label) => sum + rank(label), 0),
    examples: [...examples.filter((example) => example.image), ...examples.filter((example) => !example.image)],
    text: [group.name, ...group.above, group.comment, ...ordered, ...doubtful.map((label) => reasonOf(label, group))].join("\n").toLowerCase(),
    places: examples.map((example) => example.name).join("\n").toLowerCase(),
  };
}

const LOST = "like those that were wrong";

/** Why a label is in doubt; empty where a person moved it, left it out, found it right or approved its cluster. */
export function reasonOf(label, group) {
  if (group.approved || ["irrelevant", "checked", "moved"].some((mark) => group[mark].includes(label))) return "";
  const reasons = review.labels[label].doubt.split(", ").filter((reason) => reason !== "kind" || !group.either.includes(label));
  return [...reasons, group.doubted.includes(label) ? LOST : ""].filter(Boolean).join(", ");
}

/** Whether a label was drawn to be checked, and nobody has looked at it. */
export const isUnseenSample = (label, group) =>
  group.sampled.includes(label) && !["irrelevant", "checked", "moved"].some((mark) => group[mark].includes(label));

/** The cluster proposed for a label instead of its own; null without one. */
export function targetOf(label) {
  const { target } = review.labels[label];
  return target !== null && review.groups.has(target) && target !== homes.get(label) ? target : null;
}

/** The first of every list, then the second of every list, and so on. */
function inTurn(lists) {
  const longest = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, at) => lists.flatMap((list) => list.slice(at, at + 1))).flat();
}

export const groupNamed = (name) => [...review.groups.values()].find((group) => group.name === name);
export const homeOf = (label) => review.groups.get(homes.get(label));
const inDoubt = (group) => Boolean(facts(group).doubt || facts(group).doubtful.length);

export const filters = { text: "", open: false, doubt: false, natural: false, "human-made": false, irrelevant: false };

/** Whether a cluster is to be shown; the two kinds together mean either. */
export function matches(group) {
  const kinds = filters.natural !== filters["human-made"];
  return !(filters.open && group.approved)
    && !(filters.doubt && !inDoubt(group))
    && !(filters.irrelevant && !group.irrelevant.length)
    && !(kinds && !filters[group.kind])
    && (!filters.text || facts(group).text.includes(filters.text) || facts(group).places.includes(filters.text));
}

export const isHit = (label) => Boolean(filters.text)
  && [label, reasonOf(label, homeOf(label))].some((text) => text.toLowerCase().includes(filters.text));

const byName = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
const path = (group) => [group.kind, ...group.above].join(" › ");
const orders = {
  landmarks: (a, b) => facts(b).landmarks - facts(a).landmarks || byName(a, b),
  labels: (a, b) => b.labels.length - a.labels.length || byName(a, b),
  doubt: (a, b) => doubtWeight(b) - doubtWeight(a) || orders.landmarks(a, b),
  name: byName,
  above: (a, b) => (path(a) < path(b) ? -1 : path(a) > path(b) ? 1 : orders.landmarks(a, b)),
};
const doubtWeight = (group) => (facts(group).doubt ? 1000 : 0) + facts(group).doubtful.length;

/** Numbers of all clusters in an order. */
export const sorted = (order) => [...review.groups.values()].sort(orders[order]).map((group) => group.number);

export function progress() {
  const groups = [...review.groups.values()].filter((group) => group.irrelevant.length < group.labels.length);
  return { approved: groups.filter((group) => group.approved).length, clusters: groups.length };
}
