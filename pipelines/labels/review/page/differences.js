// Where two annotators differ, side by side, and a third's decision. Without an adjudication there is nothing here.

import { $, count, h } from "./dom.js";
import { facts, groupNamed, homeOf, review } from "./model.js";
import { act } from "./api.js";
import { focusLabel } from "./board.js";
import { pick } from "./dialogs.js";

const ROWS_AT_ONCE = 150;
let shown = ROWS_AT_ONCE;
let onlyOpen = false;

export function start() {
  if (!review.adjudication) return;
  $("views").hidden = false;
  $("to-differences").addEventListener("click", () => show("differences"));
  $("to-clusters").addEventListener("click", () => show("board"));
  show("differences");
}

function show(view) {
  for (const [button, panel] of [["to-differences", "differences"], ["to-clusters", "board"]]) {
    $(panel).hidden = panel !== view;
    $(button).setAttribute("aria-pressed", String(panel === view));
  }
  $("tools").hidden = view !== "board";
  update();
}

const isSettled = ({ label }) => facts(homeOf(label)).settled.has(label);
const pairIsSettled = ({ first }) => !review.groups.has(first.cluster) || review.groups.get(first.cluster).approved;

/** How many differences there are, and how many are open. */
export function tally() {
  const { labels, clusters } = review.adjudication;
  const open = labels.filter((row) => !isSettled(row)).length + clusters.filter((pair) => !pairIsSettled(pair)).length;
  return { all: labels.length + clusters.length, open };
}

export function update() {
  if (!review.adjudication) return;
  const { open } = tally();
  $("to-differences").textContent = open ? `Differences (${open} open)` : "Differences (all settled)";
  if ($("differences").hidden) return;
  const focus = document.activeElement?.closest("#differences") ? document.activeElement.dataset : null;
  draw();
  if (focus?.row) find(focus)?.focus();
}

const find = ({ row, choice }) => [...$("differences").querySelectorAll("button[data-row]")]
  .find((button) => button.dataset.row === row && button.dataset.choice === choice);

function draw() {
  const { labels, clusters } = review.adjudication;
  const rows = onlyOpen ? labels.filter((row) => !isSettled(row)) : labels;
  $("differences").replaceChildren(
    summary(),
    h("label", { class: "switch" }, h("input", { type: "checkbox", checked: onlyOpen, data: { row: "open" }, onchange: ({ target }) => {
      onlyOpen = target.checked;
      update();
    } }), " Only what is not settled"),
    clusters.length ? h("section", {}, h("h2", {}, "Clusters named or placed differently"),
      table(["Cluster", ...annotators(), "Decision"], clusters.filter((pair) => !onlyOpen || !pairIsSettled(pair)).map(clusterRow))) : "",
    labels.length ? h("section", {}, h("h2", {}, "Labels placed differently"),
      table(["Label", ...annotators(), "Decision"], rows.slice(0, shown).map(labelRow)),
      rows.length > shown ? h("button", { type: "button", data: { row: "more" }, onclick: () => { shown += ROWS_AT_ONCE; update(); } },
        `Show ${Math.min(ROWS_AT_ONCE, rows.length - shown)} more of ${rows.length}`) : "") : "",
    labels.length + clusters.length ? "" : h("p", {}, "The two agree on everything."));
}

function summary() {
  const { agreement } = review.adjudication;
  const number = (value) => (value === null ? "–" : value.toFixed(3));
  const entries = [
    ["κ of kinds", number(agreement.kind_kappa)], ["κ of clusters", number(agreement.place_kappa)],
    ["κ of relevance", number(agreement.relevance_kappa)], ["ARI", number(agreement.ari)], ["NMI", number(agreement.nmi)],
    ["Clusters", agreement.clusters.join(" and ")], ["Matched", String(agreement.matched)],
  ];
  return h("section", { class: "summary", "aria-label": "Agreement" }, h("h2", {}, annotators().join(" and ")),
    h("dl", {}, entries.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)))));
}

const table = (heads, rows) => h("div", { class: "scroll" }, h("table", {},
  h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows)));

const annotators = () => review.adjudication.annotators;
const describe = (side) => (side ? [h("span", { class: `dot ${side.kind}` }), " ", side.name, side.above.length ? ` (${side.above.join(" › ")})` : ""] : ["irrelevant"]);

function choice(row, name, pressed, children, onclick) {
  return h("button", { type: "button", class: "choice", "aria-pressed": String(pressed), data: { row, choice: name }, onclick }, children);
}

function labelRow(row) {
  const { label, first, second } = row;
  const settled = isSettled(row);
  const home = homeOf(label);
  const left = home.irrelevant.includes(label);
  const is = (side) => settled && (side ? !left && home.number === whereIs(side) : left);
  return h("tr", { class: settled ? "settled" : "" },
    h("th", { scope: "row" }, h("span", {}, label), h("small", { class: "quiet" }, ` ${count(review.labels[label].landmarks, "landmark")}`),
      h("small", { class: "quiet block" }, review.labels[label].examples.slice(0, 3).map((example) => example.name).join(" · "))),
    h("td", { data: { by: annotators()[0] } }, choice(label, "first", is(first), describe(first), () => settle(row, "first"))),
    h("td", { data: { by: annotators()[1] } }, choice(label, "second", is(second), describe(second), () => settle(row, "second"))),
    h("td", {}, choice(label, "own", settled && !is(first) && !is(second), ["Other…"], () => settleOtherwise(row)),
      h("button", { type: "button", class: "plain", data: { row: label, choice: "see" }, onclick: () => { show("board"); focusLabel(home.number, label); } }, "Show"),
      h("span", { class: "quiet" }, settled ? ` settled: ${left ? "irrelevant" : home.name}` : " open")));
}

/** The cluster that a side stands for, as far as it is there. */
function whereIs(side) {
  if (side.cluster !== null && review.groups.has(side.cluster)) return side.cluster;
  return groupNamed(side.name)?.number;
}

function settle({ label, first, second }, which) {
  const side = which === "first" ? first : second;
  if (!side) return act({ do: "settle", labels: [label], choice: which, to: homeOf(label).number, irrelevant: true });
  const to = whereIs(side);
  const target = to === undefined ? { name: side.name, kind: side.kind } : { to };
  return act({ do: "settle", labels: [label], choice: which, ...target });
}

async function settleOtherwise({ label }) {
  const answer = await pick(`Where does ${label} belong?`, { mayMake: true, does: "Settle" });
  if (!answer) return;
  const target = answer.to === undefined ? { name: answer.name, kind: homeOf(label).kind } : { to: answer.to };
  await act({ do: "settle", labels: [label], choice: "own", ...target });
}

function clusterRow(pair) {
  const { first, second } = pair;
  const settled = pairIsSettled(pair);
  const group = review.groups.get(first.cluster);
  const row = `cluster ${first.cluster}`;
  const is = (side) => settled && group?.name === side.name && group.kind === side.kind && group.above.join() === side.above.join();
  const full = (side) => [...describe(side), h("small", { class: "quiet" }, ` ${side.kind}`)];
  return h("tr", { class: settled ? "settled" : "" },
    h("th", { scope: "row" }, group?.name ?? first.name),
    h("td", { data: { by: annotators()[0] } }, choice(row, "first", is(first), full(first), () => take(group, first))),
    h("td", { data: { by: annotators()[1] } }, choice(row, "second", is(second), full(second), () => take(group, second))),
    h("td", {}, h("span", { class: "quiet" }, settled ? "settled" : "open")));
}

/** Give a cluster what one annotator gave it, step by step, and approve it. */
async function take(group, side) {
  if (!group) return;
  const { number: cluster } = group;
  const steps = [
    group.name !== side.name && { do: "rename", cluster, name: side.name },
    group.kind !== side.kind && { do: "kind", clusters: [cluster], kind: side.kind },
    group.above.join() !== side.above.join() && { do: "above", clusters: [cluster], above: side.above },
    !group.approved && { do: "approve", clusters: [cluster], approved: true },
  ];
  for (const action of steps.filter(Boolean)) if (!(await act(action))) return;
}
