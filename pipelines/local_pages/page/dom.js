// Elements made by the DOM alone: whatever a text holds, it stays text.

export const $ = (id) => document.getElementById(id);

/** An element with properties (on… listeners, data…, aria-…, class) and children; null and false children are left out. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name === "class" ? "class" : name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

let fading;

/** Say something to everybody: shown for a while, and read aloud. */
export function say(text, { trouble = false } = {}) {
  const said = $("said");
  said.textContent = "";
  said.classList.toggle("trouble", trouble);
  requestAnimationFrame(() => {
    said.textContent = text;
    said.classList.add("shown");
  });
  clearTimeout(fading);
  fading = setTimeout(() => said.classList.remove("shown"), trouble ? 9000 : 4500);
}
