// Questions: pick a cluster from a list that is filtered as one types, or write a line. Each answers a promise, null if
// it is called off, and gives the keyboard back.

import { $, count, h } from "./dom.js";
import { linked } from "./cards.js";
import { facts, groupNamed, review } from "./model.js";
import { putFocusBack, whereFocusIs } from "./board.js";

const MOST_SHOWN = 60;
let finish = null; // ends the dialog that is open
const recent = []; // numbers of clusters that were picked, the latest first

function open(title, contents, answer, { wide = false } = {}) {
  const dialog = $("dialog");
  dialog.classList.toggle("wide", wide);
  const spot = whereFocusIs();
  return new Promise((resolve) => {
    const form = h("form", { method: "dialog", onsubmit: (event) => {
      event.preventDefault();
      const value = answer();
      if (value !== undefined) close(value);
    } }, h("h2", { id: "dialog-title" }, title), ...contents);
    dialog.replaceChildren(form);
    dialog.setAttribute("aria-labelledby", "dialog-title");
    finish = (value) => {
      finish = null;
      dialog.close();
      dialog.replaceChildren();
      putFocusBack(spot);
      resolve(value);
    };
    dialog.oncancel = (event) => { event.preventDefault(); close(null); };
    dialog.onclose = () => { if (!dialog.open) close(null); }; // comes later, when another dialog may be open
    dialog.showModal();
  });
}

function close(value) {
  finish?.(value);
}

const buttons = (does, key = "Enter") => h("p", { class: "buttons" },
  h("button", { type: "button", onclick: () => close(null) }, "Cancel ", h("kbd", {}, "Esc")),
  h("button", { type: "submit", class: "main" }, does, " ", h("kbd", {}, key)));

/** Whether to go on: true, or null if it is called off. */
export function confirm(title, text, does) {
  const promise = open(title, [h("p", {}, text), buttons(does)], () => true);
  $("dialog").querySelector(".main").focus();
  return promise;
}

/** The landmarks of a label, its chain of hypernyms, and what it is in doubt about. */
export function showLandmarks(label, { landmarks, of }) {
  const { hypernyms, doubt } = review.labels[label];
  const shown = landmarks.length < of ? `The first ${count(landmarks.length, "landmark")} of ${of.toLocaleString("en")}` : count(of, "landmark");
  open(label, [
    hypernyms.length ? h("p", {}, [label, ...hypernyms].join(" → ")) : "",
    doubt ? h("p", {}, h("span", { class: "doubtful" }, `in doubt: ${doubt}`)) : "",
    h("p", { class: "quiet" }, shown),
    h("ul", { class: "landmarks" }, landmarks.map((landmark) => h("li", {}, linked(landmark)))),
    h("p", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Close")),
  ], () => null, { wide: true });
}

/** Pick a cluster: {to: number}, or {name} for a new one where that is allowed, or another answer of `others`. */
export function pick(title, { except = [], mayMake = false, does = "Choose", others = [] } = {}) {
  const input = h("input", {
    type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "choices", "aria-autocomplete": "list",
    "aria-label": mayMake ? "Cluster, or the name of a new one" : "Cluster", autocomplete: "off", spellcheck: false,
    placeholder: mayMake ? "Type to filter, or to name a new cluster" : "Type to filter",
  });
  const list = h("ul", { id: "choices", role: "listbox", class: "choices", "aria-label": "Clusters" });
  const found = h("p", { class: "quiet", role: "status" });
  let choices = [];
  let chosen = 0;

  const show = () => {
    choices = [...(input.value.trim() ? [] : others), ...choicesFor(input.value.trim(), except, mayMake)];
    chosen = 0;
    list.replaceChildren(...choices.slice(0, MOST_SHOWN).map((choice, at) => h("li", {
      role: "option", id: `choice-${at}`, onclick: () => { remember(choice); close(choice.answer); },
    }, choice.parts)));
    found.textContent = choices.length > MOST_SHOWN ? `${MOST_SHOWN} of ${count(choices.length, "cluster")}` : count(choices.length, "choice");
    mark();
  };
  const mark = () => {
    [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
    const current = list.children[chosen];
    if (current) input.setAttribute("aria-activedescendant", current.id);
    else input.removeAttribute("aria-activedescendant");
    current?.scrollIntoView({ block: "nearest" });
  };
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const shown = list.children.length;
    if (shown) chosen = (chosen + step + shown) % shown;
    mark();
  });
  show();
  const promise = open(title, [input, list, found, buttons(does)], () => {
    if (!choices[chosen]) return undefined;
    remember(choices[chosen]);
    return choices[chosen].answer;
  });
  input.focus();
  return promise;
}

function remember({ answer }) {
  if (answer.to === undefined) return;
  recent.splice(0, recent.length, answer.to, ...recent.filter((number) => number !== answer.to).slice(0, 7));
}

function choicesFor(text, except, mayMake) {
  const wanted = text.toLowerCase();
  const place = (group) => [
    wanted && group.name.toLowerCase() !== wanted, wanted && !group.name.toLowerCase().startsWith(wanted),
    recent.includes(group.number) ? recent.indexOf(group.number) : recent.length,
  ].map(Number);
  const groups = [...review.groups.values()]
    .filter((group) => !except.includes(group.number) && facts(group).text.includes(wanted))
    .map((group) => ({ group, place: place(group) }))
    .sort((a, b) => compare(a.place, b.place) || (a.group.name < b.group.name ? -1 : 1));
  return [...groups.map(({ group }) => known(group, wanted)), ...(mayMake && text && !groupNamed(text) ? [fresh(text)] : [])];
}

export const known = (group, wanted = "") => ({ answer: { to: group.number }, parts: described(group, wanted) });
export const fresh = (name) => ({ answer: { name }, parts: [h("span", { class: "text" }, `New cluster “${name}”`)] });

const compare = (a, b) => a.map((value, at) => value - b[at]).find(Boolean) ?? 0;

function described(group, wanted) {
  const { landmarks, relevant } = facts(group);
  const hit = wanted && !group.name.toLowerCase().includes(wanted) && relevant.find((label) => label.toLowerCase().includes(wanted));
  return [
    h("span", { class: `dot ${group.kind}` }), h("span", { class: "text" }, group.name),
    h("span", { class: "quiet" }, [group.kind, ...group.above].join(" › "), ` · ${count(relevant.length, "label")}, ${count(landmarks, "landmark")}`,
      hit ? ` · has “${hit}”` : ""),
  ];
}

export const drafts = new Map(); // texts that were begun and not saved, by what they are of

/** Write a line: the text, trimmed. `known` are suggestions. With a `draft`'s key several lines, kept there until they are saved. */
export function write(title, { value = "", label, does = "Save", known = [], draft = null, optional = true } = {}) {
  const long = draft !== null;
  const begun = long && drafts.has(draft) && drafts.get(draft) !== value;
  const input = long
    ? h("textarea", { rows: 4, maxLength: 2000, "aria-label": label, value: begun ? drafts.get(draft) : value })
    : h("input", { type: "text", maxLength: 400, "aria-label": label, value, autocomplete: "off", spellcheck: false });
  if (known.length) input.setAttribute("list", "known");
  const list = known.length ? h("datalist", { id: "known" }, known.map((text) => h("option", { value: text }))) : "";
  if (long) input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) input.form.requestSubmit();
  });
  if (long) input.addEventListener("input", () => drafts.set(draft, input.value));
  const back = begun && h("button", { type: "button", class: "plain", onclick: () => { drafts.delete(draft); input.value = value; } }, "Back to what is saved");
  const line = h("p", { class: "quiet" }, begun ? "Begun before, not saved yet " : label, back);
  const promise = open(title, [line, input, list, buttons(does, long ? "Ctrl + Enter" : "Enter")], () => {
    const text = input.value.trim();
    return text || optional ? text : undefined;
  });
  input.focus();
  input.select();
  return promise;
}

const KEYS = [
  ["To look at", [["y", "yes, as proposed"], ["h", "no, they stay here"], ["e", "they belong elsewhere"], ["o", "leave them out"], ["1–9", "take a label out of the row: it comes next"]]],
  ["Moving", [["← → ↑ ↓", "to the next card, or label"], ["Enter", "into a card's labels"], ["Esc", "back, or let go of the selection"],
    ["Home End", "first and last"], ["n", "next cluster that is not approved"], ["/", "search"], ["Tab", "to the buttons of a card"]]],
  ["Selecting", [["Space", "select the card or label"], ["Shift + arrows", "select labels on the way"], ["Ctrl + A", "all labels of the card"], ["A", "all that the search finds"]]],
  ["Clusters", [["r", "rename"], ["m", "merge those selected, or with another"],
    ["a", "approve, or withdraw approval"], ["t", "natural or human-made"], ["g", "groups above"], ["c", "comment"], ["i", "all labels of those selected irrelevant"]]],
  ["Labels", [["m", "move to a cluster"], ["s", "split off as a new cluster"], ["i", "irrelevant, or relevant again"], ["t", "the other kind, or either"], ["p", "to the clusters proposed for them"],
    ["l", "list its landmarks"]]],
  ["Always", [["Ctrl + Z", "undo"], ["Ctrl + Shift + Z", "redo"], ["?", "this help"]]],
];

export const showHelp = () => open("Keyboard", [
  h("div", { class: "keys" }, KEYS.map(([title, rows]) => h("section", {}, h("h3", {}, title),
    h("dl", {}, rows.map(([key, text]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, text))))))),
  h("p", { class: "quiet" }, "With a mouse: drag labels onto a card to move them, a card's head onto another card to merge (the larger keeps its name); click a name to rename."),
  h("p", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Close")),
], () => null, { wide: true });
