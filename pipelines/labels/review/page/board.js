// The board of cards: their order, which are shown, which are filled, and where the keyboard is.

import { $, count, say } from "./dom.js";
import { facts, isHit, matches, review, sorted } from "./model.js";
import { emptyCard, expanded, fill } from "./cards.js";
import * as selection from "./selection.js";

const NEAR = "900px";
const ROW = 8; // pixels, as in page.css
const GAP = 15;
const places = new Map(); // number → li
let order = [];
let commands;
let active = null; // the number of the card that the tab key leads to

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) complete(Number(target.dataset.number));
}, { rootMargin: NEAR });

const heights = new ResizeObserver((entries) => {
  for (const { target, borderBoxSize: [{ blockSize }] } of entries) {
    if (blockSize) target.parentElement.style.gridRowEnd = `span ${Math.ceil((blockSize + GAP) / ROW)}`;
  }
});

const cardOf = (number) => places.get(number)?.firstElementChild;
const shownNumbers = () => order.filter((number) => !places.get(number).hidden);

export function start(given) {
  commands = given;
  arrange("landmarks");
  selection.onSelect(showSelection);
  const list = $("clusters");
  list.addEventListener("focusin", ({ target }) => {
    const card = target.closest(".card");
    if (card) activate(Number(card.dataset.number));
  });
  list.addEventListener("click", onClick);
}

/** Put all cards in an order. */
export function arrange(by) {
  order = sorted(by);
  for (const number of order) if (!places.has(number)) add(number);
  $("clusters").replaceChildren(...order.map((number) => places.get(number)));
  sift();
}

function add(number) {
  const place = emptyCard(number);
  places.set(number, place);
  draw(number, false);
  near.observe(place);
  heights.observe(place.firstElementChild);
}

/** Draw a card anew, whole if it was whole. */
function draw(number, whole = cardOf(number).dataset.whole === "yes") {
  const card = cardOf(number);
  fill(card, review.groups.get(number), commands, { whole });
  if (number === active) setTabStops(card, true);
}

function complete(number) {
  const card = cardOf(number);
  if (card && card.dataset.whole !== "yes") draw(number, true);
}

/** Show the cards that the filters let through. */
export function sift() {
  let clusters = 0;
  let labels = 0;
  for (const number of order) {
    const group = review.groups.get(number);
    const shown = matches(group);
    places.get(number).hidden = !shown;
    clusters += shown;
    labels += shown ? group.labels.length : 0;
  }
  $("shown").textContent = `${count(clusters, "cluster")}, ${count(labels, "label")}`;
  $("empty").hidden = clusters > 0;
  if (active === null || !places.has(active) || places.get(active).hidden) activate(shownNumbers()[0] ?? null);
}

/** Draw the labels of shown cards anew after another text is searched for. */
export function markHits() {
  for (const number of shownNumbers()) if (cardOf(number).dataset.whole === "yes") draw(number);
}

/** Bring the board up to date with clusters that changed, and the keyboard back to where it was. */
export function update(changed) {
  const spot = whereFocusIs();
  let after = order.find((number) => changed.includes(number));
  for (const number of changed) {
    if (!review.groups.has(number)) remove(number);
    else if (places.has(number)) draw(number);
    else {
      add(number);
      insert(number, after);
      complete(number);
      after = number;
    }
  }
  selection.forgetGone();
  sift();
  putFocusBack(spot);
}

function insert(number, after) {
  const at = order.includes(after) ? order.indexOf(after) + 1 : 0;
  order.splice(at, 0, number);
  $("clusters").insertBefore(places.get(number), $("clusters").children[at] ?? null);
}

function remove(number) {
  if (!places.has(number)) return;
  near.unobserve(places.get(number));
  heights.unobserve(cardOf(number));
  places.get(number).remove();
  places.delete(number);
  order = order.filter((other) => other !== number);
}

/** Where the keyboard is, by what it is on rather than by the element, which may be made anew. */
export function whereFocusIs() {
  const element = document.activeElement;
  const card = element?.closest(".card");
  if (!card) return { element };
  const options = [...card.querySelectorAll("[role=option]")];
  return {
    number: Number(card.dataset.number), control: element.dataset.control, label: element.dataset.label,
    at: options.indexOf(element), shown: shownNumbers().indexOf(Number(card.dataset.number)),
  };
}

export function putFocusBack(spot) {
  if (spot.number === undefined) {
    if (spot.element?.isConnected && !spot.element.closest("[hidden]")) spot.element.focus();
    else if (active !== null) focusCard(active);
    return;
  }
  if (!places.has(spot.number) || places.get(spot.number).hidden) {
    const shown = shownNumbers();
    const next = shown[Math.min(Math.max(spot.shown, 0), shown.length - 1)];
    if (next === undefined) $("clusters").focus();
    else focusCard(next);
    return;
  }
  const card = cardOf(spot.number);
  const options = [...card.querySelectorAll("[role=option]")];
  const target = spot.label !== undefined
    ? options.find((option) => option.dataset.label === spot.label) ?? options[Math.min(spot.at, options.length - 1)]
    : spot.control && card.querySelector(`[data-control="${spot.control}"]`);
  (target ?? card).focus({ preventScroll: card.contains(document.activeElement) });
}

export function focusCard(number) {
  complete(number);
  cardOf(number)?.focus();
}

export const activeCard = () => active;

/** The labels of shown cards that the search finds. */
export const hits = () => shownNumbers().flatMap((number) => facts(review.groups.get(number)).ordered.filter(isHit));

function activate(number) {
  if (active !== null && active !== number && places.has(active)) setTabStops(cardOf(active), false);
  active = number;
  if (number === null) return;
  complete(number);
  setTabStops(cardOf(number), true);
}

/** The tab key reaches one card, its controls and one of its labels. */
function setTabStops(card, reached) {
  card.tabIndex = reached ? 0 : -1;
  for (const control of card.querySelectorAll("button, input, a")) control.tabIndex = reached ? 0 : -1;
  const options = [...card.querySelectorAll("[role=option]")];
  const current = options.includes(document.activeElement) ? document.activeElement : options[0];
  for (const option of options) option.tabIndex = reached && option === current ? 0 : -1;
}

/** The number of the next card in a direction; up and down go by where cards lie. */
export function neighbor(number, direction) {
  const shown = shownNumbers();
  const at = shown.indexOf(number);
  if (direction === "first") return shown[0];
  if (direction === "last") return shown.at(-1);
  if (direction === "left" || direction === "right") return shown[at + (direction === "right" ? 1 : -1)];
  return closest(cardOf(number), shown.map(cardOf), direction === "down" ? 1 : -1)?.dataset.number;
}

/** Of several elements the nearest one below (1) or above (−1). */
export function closest(from, elements, sign) {
  const here = from.getBoundingClientRect();
  let best = null;
  let least = Infinity;
  for (const element of elements) {
    const there = element.getBoundingClientRect();
    const down = sign * (there.top - here.top);
    if (down <= 4) continue;
    const distance = 4 * down + Math.abs(there.left - here.left);
    if (distance < least) [best, least] = [element, distance];
  }
  return best;
}

function onClick({ target, shiftKey }) {
  const card = target.closest(".card");
  const option = target.closest("[role=option]");
  if (option) {
    if (shiftKey) selectTo(option);
    else selection.select(selection.labels, option.dataset.label);
    option.focus();
  } else if (target.dataset.control === "more") {
    const number = Number(card.dataset.number);
    if (!expanded.delete(number)) expanded.add(number);
    draw(number);
    cardOf(number).querySelector("[data-control=more]").focus();
  }
}

/** Select from the last selected label of the card to this one. */
function selectTo(option) {
  const options = [...option.parentElement.children];
  const from = options.findLastIndex((other, at) => at !== options.indexOf(option) && selection.labels.has(other.dataset.label));
  const [a, b] = [from < 0 ? options.indexOf(option) : from, options.indexOf(option)].sort((x, y) => x - y);
  selection.selectAll(selection.labels, options.slice(a, b + 1).map((other) => other.dataset.label));
}

function showSelection() {
  for (const option of document.querySelectorAll("#clusters [role=option]")) {
    option.setAttribute("aria-selected", String(selection.labels.has(option.dataset.label)));
  }
  for (const [number, place] of places) {
    const chosen = selection.clusters.has(number);
    place.firstElementChild.classList.toggle("selected", chosen);
    const pick = place.querySelector(".pick");
    if (pick) pick.checked = chosen;
  }
}

/** Jump to the next cluster that is not approved. */
export function nextOpen(number) {
  const shown = shownNumbers();
  const at = shown.indexOf(number);
  const next = [...shown.slice(at + 1), ...shown.slice(0, at + 1)].find((other) => !review.groups.get(other).approved);
  if (next === undefined) say("All clusters shown are approved");
  else focusCard(next);
}
