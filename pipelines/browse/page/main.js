// Begin: ask what there is, show what the address says, listen.

import { $, count, h, say } from "./dom.js";
import { address, go, shown } from "./address.js";
import { card, meaning, picture, shade } from "./images.js";
import { drawNodes } from "./nodes.js";
import { listen } from "./keys.js";
import { ask } from "./requests.js";

let all; // models, levels and how many images

async function draw() {
  const now = shown();
  document.documentElement.dataset.drawn = "";
  $("model").value = Math.min(now.model, all.models.length - 1);
  await drawNodes(all.levels, now.node);
  $("within").checked = now.within;
  $("within-label").hidden = !now.node.length;
  if (now.query === null) await drawImages(now);
  else await drawNeighbors(now);
  document.documentElement.dataset.drawn = location.hash || "#";
}

async function drawImages(now) {
  const found = await ask("images", { node: now.node });
  if (!found) return;
  $("query").hidden = $("legend").hidden = true;
  document.title = "Browse embeddings";
  $("heading").textContent = `${count(found.of, "image")} to search with`;
  $("images").replaceChildren(...found.images.map((image) => card(image, all.levels)));
  $("more").hidden = found.images.length >= found.of;
}

async function more() {
  const start = $("images").childElementCount;
  const found = await ask("images", { node: shown().node, start });
  if (!found) return;
  $("images").append(...found.images.map((image) => card(image, all.levels)));
  $("images").children[start]?.firstElementChild.focus();
  $("more").hidden = start + found.images.length >= found.of;
}

async function drawNeighbors(now) {
  const { query, model, node, within } = now;
  const found = await ask("neighbors", { query, model, within: within ? node : [] });
  if (!found) return;
  drawQuery(found.query);
  drawLegend(found);
  document.title = `${found.query.labels.at(-1) ?? found.query.name} · Browse embeddings`;
  const there = found.at_level.reduce((sum, number) => sum + number, 0).toLocaleString("en");
  $("heading").textContent = `Nearest ${found.neighbors.length} of ${there} by ${all.models[$("model").value]}`;
  $("images").replaceChildren(...found.neighbors.map((image, place) => card(image, all.levels, place + 1)));
  $("more").hidden = true;
  scrollTo(0, 0);
  say(`${count(found.neighbors.length, "neighbor")} of ${found.query.labels.at(-1) ?? found.query.name}`);
}

function drawQuery(image) {
  const labels = image.labels.map((label, level) => h("div", {}, h("dt", {}, all.levels[level]), h("dd", {}, label)));
  $("query").replaceChildren(
    picture(image, "/large"),
    h("div", {}, h("h2", {}, "Query"), h("dl", {}, ...labels), h("p", { class: "quiet" }, image.name),
      h("a", { href: address({ query: null }) }, "All images")),
  );
  $("query").hidden = false;
}

/** What the colors mean, and how many of those that share a level are shown. */
function drawLegend({ neighbors, at_level }) {
  const deepest = all.levels.length;
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
