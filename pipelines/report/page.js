// Sorts and filters the table of nodes. Without it the table is whole, the nodes with the most queries first.
const nodes = document.getElementById("nodes");
const [form, body] = [nodes.querySelector("form"), nodes.querySelector("tbody")];
const [level, search, shown] = form.querySelectorAll("select, input, output");
const heads = [...nodes.querySelectorAll("thead th")];
const rows = [...body.rows];

function filter() {
  const wanted = search.value.trim().toLowerCase();
  for (const row of rows) {
    const [node, own] = row.cells;
    row.hidden = Boolean(level.value && own.textContent !== level.value) || !node.textContent.toLowerCase().includes(wanted);
  }
  const left = rows.filter((row) => !row.hidden).length;
  shown.textContent = `${left.toLocaleString("en")} of ${rows.length.toLocaleString("en")} nodes`;
}

function sort(head) {
  const column = heads.indexOf(head), numbers = head.classList.contains("number");
  const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const value = (row) => row.cells[column].textContent.replace(numbers ? /,/g : "", "");
  const known = rows.filter((row) => value(row) !== "–"); // a missing number comes last, either way
  known.sort((a, b) => sign * (numbers ? value(a) - value(b) : value(a).localeCompare(value(b), "en", { numeric: true })));
  for (const other of heads) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  body.append(...known, ...rows.filter((row) => value(row) === "–"));
}

for (const head of heads) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  button.addEventListener("click", () => sort(head));
  head.append(button);
}
for (const field of [level, search]) field.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
form.hidden = false;
filter();
document.documentElement.dataset.ready = "yes";
