// Begin: ask what there is, show what the address says, listen.

import { $, count, h, say } from "./dom.js";
import { address, go, shown } from "./address.js";
import { card, meaning, picture, shade } from "./images.js";
import { drawNodes } from "./nodes.js";
import { listen } from "./keys.js";
import { ask, askWith } from "./requests.js";

let all; // models, levels and how many images

async function draw() {
  const now = shown();
  document.documentElement.dataset.drawn = "";
  $("model").value = Math.min(now.model, all.models.length - 1);
  await drawNodes(all.levels, now.node);
  $("within").checked = now.within;
  $("within-label").hidden = !now.node.length;
  $("name").value = now.name ?? "";
  $("text").value = now.text ?? "";
  $("ask").hidden = !all.reads[$("model").value];
  $("own").hidden = !all.asks[$("model").value];
  const within = now.within ? now.node : [];
  if (now.query !== null) drawNeighbors(await ask("neighbors", { query: now.query, model: now.model, within }));
  else if (now.text !== null) drawNeighbors(await ask("text", { text: now.text, model: now.model, within }));
  else await drawImages(now);
  document.documentElement.dataset.drawn = location.hash || "#";
}

async function drawImages(now) {
  const found = now.name === null ? await ask("images", { node: now.node }) : await ask("find", { name: now.name });
  if (!found) return;
  $("query").hidden = $("legend").hidden = true;
  document.title = "Browse embeddings";
  $("heading").textContent = now.name === null ? `${count(found.of, "image")} to search with`
    : `${count(found.of, "name")} with “${now.name}”`;
  $("images").replaceChildren(...found.images.map((image) => card(image, all.levels)));
  $("more").hidden = now.name !== null || found.images.length >= found.of;
}

async function more() {
  const start = $("images").childElementCount;
  const found = await ask("images", { node: shown().node, start });
  if (!found) return;
  $("images").append(...found.images.map((image) => card(image, all.levels)));
  $("images").children[start]?.firstElementChild.focus();
  $("more").hidden = start + found.images.length >= found.of;
}

function drawNeighbors(found) {
  if (!found) return;
  const levels = "row" in found.query ? all.levels : [];
  drawQuery(found.query);
  drawLegend(found, levels);
  document.title = `${found.query.labels.at(-1) ?? found.query.name} · Browse embeddings`;
  const there = found.at_level.reduce((sum, number) => sum + number, 0).toLocaleString("en");
  $("heading").textContent = `Nearest ${found.neighbors.length} of ${there} by ${all.models[$("model").value]}`;
  $("images").replaceChildren(...found.neighbors.map((image, place) => card(image, levels, place + 1)));
  $("more").hidden = true;
  scrollTo(0, 0);
  say(`${count(found.neighbors.length, "neighbor")} of ${found.query.labels.at(-1) ?? found.query.name}`);
}

function drawQuery(image) {
  const labels = image.labels.map((label, level) => h("div", {}, h("dt", {}, all.levels[level]), h("dd", {}, label)));
  $("query").replaceChildren(
    "row" in image ? picture(image, "/large") : h("p", { class: "asked" }, image.name),
    h("div", {}, h("h2", {}, "Query"), h("dl", {}, ...labels), "row" in image && h("p", { class: "quiet" }, image.name),
      h("a", { href: address({ query: null }) }, "All images")),
  );
  $("query").hidden = false;
}

/** What the colors mean, and how many of those that share a level are shown. */
function drawLegend({ neighbors, at_level }, levels) {
  const deepest = levels.length;
  const items = at_level.map((there, level) => {
    const here = neighbors.filter((image) => image.level === level).length;
    const item = h("li", {}, meaning(all.levels, level), h("span", { class: "quiet" }, ` ${here} of ${there.toLocaleString("en")}`));
    shade(item, level, deepest);
    return item;
  });
  $("legend").replaceChildren(...items.reverse());
  $("legend").hidden = !deepest;
}

async function begin() {
  all = await ask("everything", {});
  if (!all) return;
  $("size").textContent = all.gallery === null ? count(all.images, "image")
    : `${count(all.images - all.gallery, "query", "queries")}, ${count(all.gallery, "image")} in the gallery`;
  $("model").replaceChildren(...all.models.map((name, number) => h("option", { value: number }, name)));
  $("models").hidden = all.models.length < 2;
  $("trouble").textContent = all.without;
  $("trouble").hidden = !all.without;
  listenToTools();
  await draw();
  document.documentElement.dataset.ready = "yes";
}

function listenToTools() {
  const random = async () => {
    const row = await ask("random", { node: shown().node });
    if (row !== null) go({ query: row });
  };
  const nextModel = () => go({ model: (shown().model + 1) % all.models.length });
  const submit = (form, key) => $(form).addEventListener("submit", (event) => {
    event.preventDefault();
    go({ [key]: $(key).value.trim() || null });
  });
  submit("search", "name");
  submit("ask", "text");
  $("photograph").addEventListener("change", async () => {
    const [file] = $("photograph").files;
    if (file) drawNeighbors(await askWith("photograph", { model: $("model").value }, file));
  });
  $("random").addEventListener("click", random);
  $("more").addEventListener("click", more);
  $("model").addEventListener("change", () => go({ model: Number($("model").value) }));
  $("within").addEventListener("change", () => go({ within: $("within").checked }));
  $("skip").addEventListener("click", (event) => {
    event.preventDefault();
    $("images").querySelector("a")?.focus();
  });
  addEventListener("hashchange", draw);
  listen({ random, nextModel, filter: () => $("nodes").querySelector("select")?.focus(), all: () => go({ query: null }) });
}

begin();
