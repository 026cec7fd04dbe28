// What is wrong with a page as it is shown: returns one sentence a fault. Used by test_pages.py.
const faults = [];
const visible = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !hidden(e);
const hidden = (e) => e.closest(".unseen, .said, .skip, [aria-disabled=true]") !== null;
const scrolls = (e) => e && (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
const called = (e) => `${e.tagName.toLowerCase()}${e.id ? "#" + e.id : ""}.${e.getAttribute("class") ?? ""} "${e.textContent.trim().slice(0, 30)}"`;

const wide = document.documentElement.scrollWidth - innerWidth;
if (wide > 0) faults.push(`scrolls sideways by ${wide} px`);

const texts = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const parent = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || parent.closest("script, noscript, option") || !visible(parent)) continue;
  texts.push(parent);
  if (parent.closest("[role=treeitem]")) continue; // shortened where it is too long; its title and its name are whole
  const range = document.createRange();
  range.selectNodeContents(walker.currentNode);
  const box = range.getBoundingClientRect();
  if (box.width && (box.right > innerWidth + 1 || box.left < -1) && !scrolls(parent)) faults.push(`outside: ${called(parent)}`);
  for (let e = parent; e !== document.body; e = e.parentElement) {
    const look = getComputedStyle(e);
    if (look.overflowX === "hidden" && box.right > e.getBoundingClientRect().right + 1)
      faults.push(`clipped: ${called(e)}`);
  }
}

for (const e of document.querySelectorAll("button, a[href], input, select, textarea, summary, [role=treeitem], [role=option], [role=tab]")) {
  if (!visible(e)) continue;
  const labels = e.labels ? [...e.labels].map((l) => l.textContent).join("") : "";
  const alt = [...e.querySelectorAll("img")].map((i) => i.alt).join("");
  const name = (e.getAttribute("aria-label") ?? "") + (e.tagName === "SELECT" ? "" : e.textContent) + labels + alt;
  if (!name.trim()) faults.push(`no name: ${e.outerHTML.slice(0, 90)}`);
}
for (const e of document.querySelectorAll("img:not([alt])")) faults.push(`no text: ${e.outerHTML.slice(0, 90)}`);

const ink = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function rgba(color) {
  ink.clearRect(0, 0, 1, 1);
  ink.fillStyle = color;
  ink.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = ink.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
}
const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
function behind(e) {
  const layers = [];
  for (; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
  return layers.reduceRight((below, layer) => over(layer, below), rgba(getComputedStyle(document.documentElement).colorScheme === "dark" ? "#121212" : "#fff"));
}
for (const e of new Set(texts)) {
  const look = getComputedStyle(e), below = behind(e);
  let color = rgba(e instanceof SVGElement ? look.fill : look.color);
  for (let a = e; a; a = a.parentElement) color[3] *= Number(getComputedStyle(a).opacity);
  const [one, other] = [light(over(color, below)), light(below)].sort((a, b) => b - a);
  const ratio = (one + 0.05) / (other + 0.05), size = parseFloat(look.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(look.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5)) faults.push(`contrast ${ratio.toFixed(2)}: ${called(e)}`);
}
return [...new Set(faults)];
