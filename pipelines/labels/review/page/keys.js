// The keyboard. Letters are commands wherever the focus is, but never while one types: on the label or card in focus or
// those selected, else on the card to which the tab key leads; y, h, o and e answer the queue, digits take labels out of its row.

import * as selection from "./selection.js";
import { closest, focusCard, neighbor } from "./board.js";
import { commands } from "./commands.js";

const LETTERS = { r: "rename", m: "mergeOrMove", s: "split", i: "irrelevant", a: "approve", t: "kind", p: "accept", g: "above", c: "comment", l: "landmarks", n: "next", y: "yes", h: "stays", o: "leaveOut", e: "elsewhere", A: "selectHits" };
const ARROWS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", Home: "first", End: "last", j: "right", k: "left" };

export function listen() {
  document.addEventListener("keydown", onAnyKey);
  document.getElementById("clusters").addEventListener("keydown", onKey);
}

const isTyping = (element) => element.matches("textarea, select, input:not([type=checkbox])");

function onAnyKey(event) {
  if (document.getElementById("dialog").open || event.defaultPrevented) return;
  const control = event.ctrlKey || event.metaKey;
  if (isTyping(event.target)) {
    if (event.key === "Escape" && event.target.id === "text") document.getElementById("skip").click();
    return;
  }
  const key = event.key.toLowerCase();
  if (control && key === "z") run(event, event.shiftKey ? "redo" : "undo");
  else if (control && key === "y") run(event, "redo");
  else if (control || event.altKey) return;
  else if (key === "/") run(event, "search");
  else if (key === "?") run(event, "help");
  else if (key === "escape") run(event, "clear");
  else if (/^[1-9]$/.test(event.key)) run(event, "except", Number(event.key) - 1);
  else if (LETTERS[event.key]) run(event, LETTERS[event.key]);
}

function run(event, name, ...given) {
  event.preventDefault();
  event.stopPropagation();
  commands[name](...given);
}

function onKey(event) {
  const card = event.target.closest(".card");
  if (!card || isTyping(event.target) || event.altKey) return;
  const option = event.target.closest("[role=option]");
  if (event.ctrlKey || event.metaKey) {
    if (event.key.toLowerCase() === "a" && option) selectEvery(event, option);
    return;
  }
  if (LETTERS[event.key]) return;
  if (option) onLabelKey(event, option, card);
  else if (event.target === card) onCardKey(event, card);
  else if (event.key === "Escape") leave(event, card);
}

function onCardKey(event, card) {
  const number = Number(card.dataset.number);
  if (ARROWS[event.key]) {
    event.preventDefault();
    const next = neighbor(number, ARROWS[event.key]);
    if (next !== undefined) focusCard(Number(next));
  } else if (event.key === "Enter") {
    event.preventDefault();
    (card.querySelector("[role=option][tabindex='0']") ?? card.querySelector("[role=option]"))?.focus();
  } else if (event.key === " " || event.key === "x") {
    event.preventDefault();
    selection.select(selection.clusters, number);
  }
}

function onLabelKey(event, option, card) {
  if (event.key === " " || event.key === "Enter" || event.key === "x") {
    event.preventDefault();
    selection.select(selection.labels, option.dataset.label);
    return;
  }
  if (event.key === "Escape") {
    if (!selection.labels.size) leave(event, card);
    return;
  }
  const next = nextLabel(option, ARROWS[event.key]);
  if (!ARROWS[event.key]) return;
  event.preventDefault();
  if (!next) return;
  option.tabIndex = -1;
  next.tabIndex = 0;
  if (event.shiftKey && !selection.labels.size) selection.select(selection.labels, option.dataset.label, true);
  if (event.shiftKey) selection.select(selection.labels, next.dataset.label, true);
  next.focus();
}

function nextLabel(option, direction) {
  const options = [...option.parentElement.children];
  const at = options.indexOf(option);
  if (direction === "first") return options[0];
  if (direction === "last") return options.at(-1);
  if (direction === "left" || direction === "right") return options[at + (direction === "right" ? 1 : -1)];
  return closest(option, options, direction === "down" ? 1 : -1);
}

function leave(event, card) {
  event.preventDefault();
  event.stopPropagation();
  card.focus();
}

function selectEvery(event, option) {
  event.preventDefault();
  const options = [...option.parentElement.children];
  selection.selectAll(selection.labels, options.map((other) => other.dataset.label));
}
