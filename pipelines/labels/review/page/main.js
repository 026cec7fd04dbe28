// Begin: load the review, draw it, listen.

import { $, say } from "./dom.js";
import { filters, progress, review } from "./model.js";
import { keepUpToDate, load, onChange } from "./api.js";
import * as selection from "./selection.js";
import * as board from "./board.js";
import * as queue from "./queue.js";
import * as drag from "./drag.js";
import * as keys from "./keys.js";
import { commands } from "./commands.js";

const TYPING_PAUSE = 120; // milliseconds

function drawHead() {
  const { approved, clusters } = progress();
  $("progress").max = Math.max(clusters, 1);
  $("progress").value = approved;
  $("progress-text").textContent = `${approved} of ${clusters} approved`;
  for (const [name, step] of [["undo", review.undo], ["redo", review.redo]]) {
    $(name).setAttribute("aria-disabled", String(!step));
    $(name).title = step ? `${name === "undo" ? "Undo" : "Do again"}: ${step}` : "";
  }
}

function listenToTools() {
  for (const name of ["undo", "redo", "help"]) $(name).addEventListener("click", () => commands[name]());
  let waiting;
  $("text").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      filters.text = $("text").value.trim().toLowerCase();
      board.sift();
      board.markHits();
      $("select-hits").hidden = !filters.text;
    }, TYPING_PAUSE);
  });
  for (const button of document.querySelectorAll("[data-filter]")) {
    button.addEventListener("click", () => setFilter(button, !filters[button.dataset.filter]));
  }
  $("order").addEventListener("change", () => board.arrange($("order").value));
  $("select-hits").addEventListener("click", () => commands.selectHits());
  $("everything").addEventListener("click", showEverything);
  $("skip").addEventListener("click", (event) => {
    event.preventDefault();
    $("clusters").querySelector(".card[tabindex='0']")?.focus();
  });
}

function setFilter(button, on) {
  filters[button.dataset.filter] = on;
  button.setAttribute("aria-pressed", String(on));
  board.sift();
  if (button.dataset.filter === "doubt") board.markHits();
}

function showEverything() {
  filters.text = $("text").value = "";
  document.querySelectorAll("[data-filter]").forEach((button) => setFilter(button, false));
  $("text").focus();
}

async function begin() {
  if (!(await load())) return;
  $("annotator").textContent = review.annotator;
  document.title = `Label review · ${review.annotator}`;
  board.start(commands);
  selection.onSelect(() => selection.drawSelection(commands));
  onChange((changed) => {
    board.update(changed);
    queue.draw();
    drawHead();
  });
  drawHead();
  queue.start(commands);
  listenToTools();
  keys.listen();
  drag.listen();
  keepUpToDate();
  if (review.notices.length) say(review.notices.join(" "), { trouble: true });
  document.documentElement.dataset.ready = "yes";
}

begin();
