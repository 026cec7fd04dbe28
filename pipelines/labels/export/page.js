// Searches the names of the tree: shows those that hold a text and unfolds what stands above them.
const tree = document.querySelector(".outline"), form = document.querySelector("form");
const [query, found] = form.querySelectorAll("input, output");
const items = [...tree.querySelectorAll("li")];
const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

function search() {
  const wanted = plain(query.value.trim());
  const hits = items.filter((item) => item.classList.toggle("hit", wanted && plain(item.querySelector("b").textContent).includes(wanted)));
  tree.classList.toggle("searched", wanted);
  for (const item of tree.querySelectorAll("details")) item.open = wanted ? item.querySelector(".hit") : item.parentElement.parentElement === tree;
  found.textContent = wanted ? `${hits.length.toLocaleString("en")} found` : "";
}

form.addEventListener("submit", (event) => event.preventDefault());
query.addEventListener("input", search);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== query) { event.preventDefault(); query.focus(); }
});
document.documentElement.dataset.ready = "yes";
