// What is shown, kept in the address, so that the browser's Back button and bookmarks lead to it.

export function shown() {
  const given = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (/^\d+$/.test(given.get(name) ?? "") ? Number(given.get(name)) : null);
  const node = (given.get("node") ?? "").split(",").filter((part) => /^\d+$/.test(part)).map(Number);
  const words = (name) => given.get(name) || null;
  const [name, text] = [words("name"), words("text")];
  return { query: number("query"), model: number("model") ?? 0, node, within: given.get("within") === "1", name, text };
}

export function address(changes = {}) {
  const asked = ["query", "name", "text"].some((key) => key in changes) ? { query: null, name: null, text: null } : {};
  const { query, model, node, within, name, text } = { ...shown(), ...asked, ...changes };
  const parts = new URLSearchParams();
  for (const [key, value] of Object.entries({ query, name, text })) if (value !== null) parts.set(key, value);
  if (model) parts.set("model", model);
  if (node.length) parts.set("node", node.join(","));
  if (within && node.length) parts.set("within", "1");
  return `#${parts}`;
}

export const go = (changes) => { location.hash = address(changes); };
