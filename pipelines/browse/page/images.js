// Images as links: a picture, or its name where there is none, and what it shares with the query.

import { h } from "./dom.js";
import { address } from "./address.js";
import { addressed } from "./requests.js";

/** "same species", or "nothing shared". */
export const meaning = (levels, level) => (level ? `same ${levels[level - 1]}` : "nothing shared");

/** The label of an image that a caption has room for: the finest. It may break after / and _. */
const caption = (image) => (image.labels.at(-1) ?? image.name).split(/(?<=[/_])/).flatMap((part) => [part, h("wbr")]);

export function picture(image, source, properties = {}) {
  const described = image.labels.length ? image.labels.join(" › ") : image.name;
  const missing = () => h("span", { class: "missing", title: image.name }, h("b", {}, "no photo"), " ", image.name);
  return h("img", {
    src: addressed(`${source}/${image.row}`), alt: described, draggable: false, ...properties,
    onerror: (event) => event.target.replaceWith(missing()),
  });
}

/** One image of the grid; a neighbor also has a rank. */
export function card(image, levels, rank) {
  const link = h("a", { href: address({ query: image.row }), title: [image.name, ...image.labels].join("\n") });
  link.append(picture(image, "/images", { loading: "lazy", width: 224, height: 224 }));
  if (rank === undefined) link.append(h("span", { class: "caption" }, caption(image)));
  else link.append(...result(image, levels, rank));
  const item = h("li", {}, link);
  if (rank !== undefined && levels.length) shade(item, image.level, levels.length);
  return item;
}

function result(image, levels, rank) {
  const shared = levels.length ? h("span", { class: "shared" }, meaning(levels, image.level)) : null;
  return [
    h("span", { class: "rank" }, `${rank}`, h("span", { class: "similarity" }, image.similarity.toFixed(3))),
    shared, h("span", { class: "caption" }, caption(image)),
  ].filter(Boolean);
}

/** The color of a level, from nothing shared to the finest. */
export function shade(element, level, deepest) {
  element.classList.add("level");
  element.style.setProperty("--depth", `${Math.round((100 * level) / deepest)}%`);
  element.dataset.level = level;
}
