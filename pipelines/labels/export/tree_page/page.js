"use strict";
const { tree: root, pictures: pictureOf } = JSON.parse(document.getElementById("tree").textContent);
const icicle = document.getElementById("icicle"), path = document.getElementById("path");
const about = document.getElementById("about"), query = document.getElementById("query");
const matches = document.getElementById("matches"), found = document.getElementById("found");
const SMALLEST = 0.25, READABLE = 17, MOST_MATCHES = 40, MOST_NAMED = 90, SHORT = 544, NARROW = 105;
const all = [], blocks = new Map();
let zoomed = root, chosen = root, hits = new Set();

// Every node learns its parent, its depth, its kind and where its landmarks begin.
(function learn(node, parent, start) {
  node.parent = parent;
  node.depth = parent ? parent.depth + 1 : 0;
  node.kind = node.depth === 0 ? "root" : node.depth === 1 ? node.n : parent.kind;
  node.start = start;
  all.push(node);
  for (const child of node.k) { learn(child, node, start); start += child.c; }
})(root, null, 0);
const deepest = Math.max(...all.map((node) => node.depth));
const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
const number = (count) => count.toLocaleString("en");

function element(tag, text, parent, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  if (parent) parent.append(made);
  return made;
}

function lineage(node) {
  return node ? [...lineage(node.parent), node] : [];
}

function block(node) {
  if (!blocks.has(node)) {
    const made = element("div", undefined, icicle, `block ${node.kind}`);
    made.setAttribute("role", "treeitem");
    made.setAttribute("aria-level", node.depth + 1);
    if (node.parent) {
      made.setAttribute("aria-setsize", node.parent.k.length);
      made.setAttribute("aria-posinset", node.parent.k.indexOf(node) + 1);
    }
    if (node.k.length) made.setAttribute("aria-expanded", "true");
    made.setAttribute("aria-label", `${node.n}, ${node.l}, ${number(node.c)} landmarks`);
    made.title = `${node.n}: ${number(node.c)}`;
    made.style.setProperty("--share", `${Math.max(18, 62 - 12 * node.depth)}%`);
    made.addEventListener("click", () => (node === chosen ? zoom(node) : choose(node)));
    blocks.set(node, made);
  }
  return blocks.get(node);
}

function place(node, top, high, width) {
  const made = block(node);
  Object.assign(made.style, {
    top: `${top}px`, height: `${high}px`,
    left: `${(node.depth - zoomed.depth) * width}px`, width: `${width}px`,
  });
  made.classList.toggle("small", high < READABLE);
  made.classList.toggle("hit", hits.has(node));
  made.setAttribute("aria-selected", node === chosen);
  made.tabIndex = node === chosen ? 0 : -1;
  if (high < READABLE) made.replaceChildren();
  else if (!made.firstChild) made.append(node.n, element("span", number(node.c), null, "count"));
}

// Blocks are as high as their landmarks are many, but those of the levels with few nodes leave room for a name.
function heights() {
  const named = zoomed.depth + [...Array(deepest - zoomed.depth).keys()].findLastIndex((step) =>
    below(zoomed, zoomed.depth + step + 1).length <= MOST_NAMED) + 1;
  const high = new Map(), scale = SHORT / zoomed.c;
  (function measure(node) {
    const inside = node.depth < named ? node.k.reduce((sum, child) => sum + measure(child), 0) : 0;
    high.set(node, Math.max(READABLE, node.c * scale, inside));
    return high.get(node);
  })(zoomed);
  (function share(node) { // what is left of a block's height goes to its children, by their landmarks
    const measured = node.k.reduce((sum, child) => sum + (high.get(child) ?? 0), 0);
    for (const child of node.k) {
      high.set(child, measured ? (high.get(child) * high.get(node)) / measured : (child.c * high.get(node)) / node.c);
      share(child);
    }
  })(zoomed);
  return high;
}

// The levels that are shown at once: all, or on a phone those whose names there is room for.
function columns() {
  return Math.max(2, Math.min(deepest - zoomed.depth + 1, Math.floor(icicle.clientWidth / NARROW)));
}

function below(node, depth) {
  return node.depth === depth ? [node] : node.k.flatMap((child) => below(child, depth));
}

function draw() {
  const width = icicle.clientWidth / columns();
  const high = heights(), shown = new Set();
  icicle.style.height = `${high.get(zoomed) + 2}px`;
  (function visit(node, top) {
    if (node.depth - zoomed.depth >= columns() || (node !== chosen && high.get(node) < SMALLEST)) return;
    shown.add(node);
    place(node, top, high.get(node), width);
    for (const child of node.k) { visit(child, top); top += high.get(child); }
  })(zoomed, 0);
  for (const [node, made] of blocks) if (!shown.has(node)) { made.remove(); blocks.delete(node); }
  path.replaceChildren(...lineage(zoomed).map((node) => {
    const made = element("button", node.n);
    made.addEventListener("click", () => { chosen = node; zoom(node); });
    return made;
  }));
}

function tell() {
  const share = (100 * chosen.c) / root.c;
  about.replaceChildren();
  element("h2", chosen.n, about);
  element("p", lineage(chosen.parent).slice(1).map((node) => node.n).join(" › "), about);
  element("p", `${chosen.l}: ${number(chosen.c)} landmarks, ${share.toFixed(share < 1 ? 2 : 1)} % of all` +
    (chosen.k.length ? `; ${number(chosen.k.length)} below` : ""), about);
  const isPictured = ([landmark]) => chosen.k.length && landmark in pictureOf;
  const pictures = element("div", undefined, about, "pictures");
  for (const [landmark, name] of chosen.e.filter(isPictured)) {
    const figure = element("figure", undefined, pictures), picture = element("img", undefined, figure);
    picture.src = pictureOf[landmark];
    picture.alt = name;
    element("figcaption", name, figure);
  }
  const names = element("ul", undefined, about);
  for (const [, name] of chosen.e.filter((example) => !isPictured(example))) element("li", name, names);
}

function choose(node, focus = true) {
  chosen = node;
  const inside = lineage(node).includes(zoomed);
  if (!inside || node.depth - zoomed.depth >= columns() || heights().get(node) < READABLE) zoomed = node.parent ?? node;
  draw();
  tell();
  if (focus) block(node).focus({ preventScroll: true });
}

function zoom(node) {
  zoomed = node.k.length ? node : node.parent ?? node;
  choose(chosen);
}

function beside(step) {
  const same = chosen.parent ? chosen.parent.k : [root];
  return same[same.indexOf(chosen) + step];
}

icicle.addEventListener("keydown", (event) => {
  const next = {
    ArrowUp: () => beside(-1), ArrowDown: () => beside(1), ArrowLeft: () => chosen.parent, ArrowRight: () => chosen.k[0],
    Home: () => root, End: () => lineage(chosen)[1] && root.k[root.k.length - 1],
  }[event.key];
  if (next) { const node = next(); if (node) choose(node); }
  else if (event.key === "Enter" || event.key === " ") zoom(chosen);
  else if (event.key === "Escape") { zoomed = zoomed.parent ?? zoomed; chosen = zoomed; choose(chosen); }
  else return;
  event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== query) { event.preventDefault(); query.focus(); }
});

function search() {
  const wanted = plain(query.value.trim());
  const list = wanted ? all.filter((node) => plain(node.n).includes(wanted)) : [];
  list.sort((one, other) => other.c - one.c);
  hits = new Set(list);
  found.textContent = wanted ? `${number(list.length)} found` : "";
  matches.hidden = !list.length;
  matches.replaceChildren(...list.slice(0, MOST_MATCHES).map((node) => {
    const item = element("li"), button = element("button", `${node.n} `, item);
    element("small", `${node.l}, ${number(node.c)}`, button);
    button.addEventListener("click", () => choose(node));
    return item;
  }));
  draw();
  return list;
}

query.addEventListener("input", search);
query.addEventListener("keydown", (event) => {
  if (event.key === "Enter") { const [first] = search(); if (first) choose(first); }
  else if (event.key === "Escape") { query.value = ""; search(); block(chosen).focus(); }
});
new ResizeObserver(draw).observe(icicle);
choose(root, false);
document.documentElement.dataset.ready = "yes";
