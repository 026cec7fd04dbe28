// A card a cluster. Its head is always there; the rest is made when the card comes near the window.

import { count, h } from "./dom.js";
import { facts, filters, isHit, reasonOf, review } from "./model.js";
import { addressed } from "./requests.js";
import * as selection from "./selection.js";

const LABELS_SHOWN = 12;
const IMAGES_SHOWN = 5;
export const expanded = new Set();

/** The empty card of a cluster. */
export const emptyCard = (number) => h("li", { class: "place", data: { number } },
  h("article", { class: "card", id: `cluster-${number}`, tabIndex: -1, data: { number }, "aria-labelledby": `name-${number} facts-${number}` }));

/** Fill or refill a card; `commands` are functions by name. */
export function fill(card, group, commands, { whole }) {
  const known = facts(group);
  card.className = `card ${group.kind}`;
  card.classList.toggle("approved", group.approved);
  card.classList.toggle("gone", !known.relevant.length);
  card.classList.toggle("selected", selection.clusters.has(group.number));
  card.dataset.whole = whole ? "yes" : "";
  const parts = [head(group, commands), line(group, known)];
  if (whole) parts.push(comment(group, commands), labelList(group, known), examples(known), tools(group, commands));
  card.replaceChildren(...parts.filter(Boolean));
}

function head(group, commands) {
  const { number, name, approved } = group;
  const control = (properties, ...children) => h("button", { type: "button", tabIndex: -1, ...properties }, ...children);
  return h("header", { class: "head", draggable: true, title: "Drag onto another card to merge" },
    h("input", {
      type: "checkbox", tabIndex: -1, class: "pick", data: { control: "pick" }, "aria-label": `Select ${name}`,
      checked: selection.clusters.has(number), onchange: () => selection.select(selection.clusters, number),
    }),
    h("h2", {}, control({
      class: "name", id: `name-${number}`, data: { control: "name" }, title: "Rename (r)", "aria-description": "Rename",
      onclick: () => commands.rename(number),
    }, name)),
    control({
      class: "approve", data: { control: "approve" }, "aria-pressed": String(approved), "aria-keyshortcuts": "a",
      onclick: () => commands.approve(number),
    }, approved ? "Approved" : "Approve"));
}

function line(group, known) {
  const doubt = known.doubt ? `in doubt: ${known.doubt}` : known.doubtful.length ? `${known.doubtful.length} in doubt` : "";
  const left = group.irrelevant.length;
  return h("p", { class: "facts", id: `facts-${group.number}` },
    h("span", { class: "kind" }, group.kind), " ",
    group.above.length ? h("span", { class: "above" }, `${group.above.join(" › ")} `) : null,
    h("span", {}, `${count(known.landmarks, "landmark")} · ${count(known.relevant.length, "label")}`),
    left ? h("span", {}, ` · ${left} irrelevant`) : null,
    doubt ? h("span", { class: "doubtful" }, ` ${doubt}`) : null);
}

const comment = (group, commands) => group.comment && h("p", { class: "comment" }, h("button", {
  type: "button", tabIndex: -1, data: { control: "comment-text" }, "aria-description": "Change the comment",
  onclick: () => commands.comment(group.number),
}, group.comment));

function labelList(group, known) {
  const all = expanded.has(group.number) || known.ordered.length <= LABELS_SHOWN + 2;
  const shown = known.ordered.filter((label, at) => (filters.doubt && known.doubtful.length
    ? known.doubtful.includes(label) : all || at < LABELS_SHOWN || isHit(label)) || selection.labels.has(label));
  const hidden = known.ordered.length - shown.length;
  return h("div", {},
    h("ul", {
      class: "labels", role: "listbox", "aria-multiselectable": "true", "aria-orientation": "horizontal",
      "aria-label": `Labels of ${group.name}`,
    }, shown.map((label) => option(label, known, group))),
    h("button", {
      type: "button", tabIndex: -1, class: "more", data: { control: "more" }, hidden: all && !expanded.has(group.number),
      "aria-expanded": String(all),
    }, hidden ? `Show ${count(hidden, "more label")}` : "Show fewer"));
}

function option(label, known, group) {
  const { landmarks, hypernyms } = review.labels[label];
  const doubt = reasonOf(label, group);
  const irrelevant = known.irrelevant.has(label);
  const doubtful = Boolean(doubt);
  const chain = hypernyms.map((name) => `→ ${name}`).join(" ");
  const notes = [chain, irrelevant && "irrelevant", known.either.has(label) && "of either kind", doubtful && `in doubt: ${doubt}`];
  const spoken = [label, count(landmarks, "landmark"), ...notes.filter(Boolean)].join(", ");
  return h("li", {
    role: "option", tabIndex: -1, draggable: true, data: { label }, "aria-label": spoken,
    "aria-selected": String(selection.labels.has(label)), title: doubtful ? `in doubt: ${doubt}` : "",
    class: [irrelevant && "irrelevant", doubtful && "doubt", isHit(label) && "hit"].filter(Boolean).join(" "),
  }, h("span", { class: "text" }, label), h("span", { class: "count" }, String(landmarks)),
  chain && h("span", { class: "chain" }, chain), doubtful && h("span", { class: "reason" }, doubt), known.either.has(label) && h("span", { class: "chain" }, "either kind"));
}

function examples(known) {
  const images = known.examples.filter((example) => example.image).slice(0, IMAGES_SHOWN);
  const named = [...new Map(known.examples.map((example) => [example.name, example])).values()].slice(0, 4);
  if (!named.length) return null;
  return h("div", { class: "examples" },
    images.length ? h("div", { class: "images" }, images.map((example) => h("img", {
      src: addressed(`/images?landmark=${encodeURIComponent(example.landmark)}`), alt: example.name, title: example.name, loading: "lazy", width: 72, height: 72,
      draggable: false,
    }))) : null,
    h("p", { class: "quiet" }, named.flatMap((example, place) => [place ? " · " : "", linked(example, -1)])));
}

/** The name of a landmark, as a link to its page where there is one. */
export const linked = ({ name, link }, tabIndex = 0) => (link ? h("a", { href: link, target: "_blank", rel: "noreferrer", tabIndex }, name) : name);

function tools(group, commands) {
  const { number } = group;
  const tool = (text, key, name, hint) => h("button", {
    type: "button", tabIndex: -1, data: { control: name }, "aria-keyshortcuts": key, title: `${hint} (${key})`,
    onclick: () => commands[name](number),
  }, text);
  return h("div", { class: "tools", role: "group", "aria-label": `Actions on ${group.name}` },
    tool("Merge", "m", "mergeWith", "Merge with another cluster"),
    tool(group.kind === "natural" ? "Human-made" : "Natural", "t", "kind", "Make it the other kind"),
    tool("Group", "g", "above", "Set the groups above"),
    tool("Note", "c", "comment", "Comment"),
    tool(group.irrelevant.length < group.labels.length ? "Irrelevant" : "Relevant", "i", "irrelevantCluster",
      "Leave all its labels out, or take them back"));
}
