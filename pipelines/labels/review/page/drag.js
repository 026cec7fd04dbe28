// Dragging: labels onto a card move there, a card's head onto another card merges.

import { count } from "./dom.js";
import { review } from "./model.js";
import * as selection from "./selection.js";
import { commands } from "./commands.js";

let dragged = null; // {labels} or {cluster}

export function listen() {
  const board = document.getElementById("clusters");
  board.addEventListener("dragstart", start);
  board.addEventListener("dragover", over);
  board.addEventListener("dragleave", ({ target }) => target.closest?.(".card")?.classList.remove("target"));
  board.addEventListener("drop", drop);
  board.addEventListener("dragend", end);
}

function start(event) {
  const option = event.target.closest("[role=option]");
  const card = event.target.closest(".card");
  if (option) {
    const { label } = option.dataset;
    dragged = { labels: selection.labels.has(label) ? [...selection.labels] : [label] };
  } else if (event.target.matches(".head")) {
    dragged = { cluster: Number(card.dataset.number) };
  } else return;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", dragged.labels ? count(dragged.labels.length, "label") : review.groups.get(dragged.cluster).name);
  document.body.classList.add("dragging");
}

function target(event) {
  const card = dragged && event.target.closest(".card");
  if (!card) return null;
  const number = Number(card.dataset.number);
  const stays = dragged.labels ? dragged.labels.every((label) => review.groups.get(number).labels.includes(label)) : dragged.cluster === number;
  return stays ? null : card;
}

function over(event) {
  const card = target(event);
  if (!card) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "move";
  card.classList.add("target");
}

function drop(event) {
  const card = target(event);
  if (!card) return;
  event.preventDefault();
  const number = Number(card.dataset.number);
  if (dragged.labels) commands.moveTo(dragged.labels, number);
  else commands.merge([number, dragged.cluster]);
  end();
}

function end() {
  dragged = null;
  document.body.classList.remove("dragging");
  document.querySelectorAll(".card.target").forEach((card) => card.classList.remove("target"));
}
