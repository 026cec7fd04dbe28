// The keyboard: arrows among the images, and letters while no field is in focus.

import { $ } from "./dom.js";

export function listen(commands) {
  const letters = { r: commands.random, m: commands.nextModel, f: commands.filter, Escape: commands.all };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("select, input") && event.key !== "Escape") return;
    if (letters[event.key]) {
      event.preventDefault();
      letters[event.key]();
    } else if (event.key.startsWith("Arrow")) move(event);
  });
}

function move(event) {
  const links = [...$("images").querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? links[0] : links[place(links, at, event.key)];
  if (!next) return;
  event.preventDefault();
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function place(links, at, key) {
  if (key === "ArrowLeft") return at - 1;
  if (key === "ArrowRight") return at + 1;
  const top = links[0].offsetTop;
  const columns = links.findIndex((link) => link.offsetTop > top);
  return at + (columns < 0 ? links.length : columns) * (key === "ArrowDown" ? 1 : -1);
}
