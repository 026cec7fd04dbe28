// The filter: one select for each level down to the node that is chosen.

import { $, h } from "./dom.js";
import { ask } from "./requests.js";
import { go } from "./address.js";

const known = new Map(); // node → its children

async function children(node) {
  const key = node.join(",");
  if (!known.has(key)) known.set(key, (await ask("children", { node })) ?? []);
  return known.get(key);
}

export async function drawNodes(levels, node) {
  const deepest = Math.min(node.length + 1, levels.length);
  const selects = await Promise.all(levels.slice(0, deepest).map(async (level, depth) =>
    choice(level, await children(node.slice(0, depth)), node, depth)));
  const focused = [...$("nodes").children].indexOf(document.activeElement);
  $("nodes").replaceChildren(...selects);
  if (focused >= 0) $("nodes").children[Math.min(focused, selects.length - 1)].focus();
}

function choice(level, found, node, depth) {
  const change = (event) => go({ node: [...node.slice(0, depth), ...(event.target.value ? [Number(event.target.value)] : [])] });
  const every = h("option", { value: "" }, `every ${level}`);
  const options = found.map(({ number, label, images }) => h("option", { value: number }, `${label} (${images.toLocaleString("en")})`));
  const select = h("select", { "aria-label": `Only of ${level}`, onchange: change }, every, ...options);
  select.value = node[depth] ?? "";
  return select;
}
