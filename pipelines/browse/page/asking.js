// Questions to the server.

import { $ } from "./dom.js";

/** The answer, or null where there is none; the reason is then shown. */
export async function ask(what, given) {
  let answer;
  try {
    answer = await fetch(`/api/${what}?${new URLSearchParams(given)}`, { credentials: "same-origin" });
  } catch {
    return trouble("The server does not answer: it was stopped. Start it again and open the address that it prints.");
  }
  if (answer.status === 403 || answer.status === 421) {
    return trouble("The server was started anew. Open the address that it printed.");
  }
  if (answer.ok) return answer.json();
  const { error } = await answer.json().catch(() => ({ error: `the server failed (${answer.status}); its terminal says why` }));
  return trouble(error);
}

function trouble(text) {
  $("trouble").textContent = text;
  $("trouble").hidden = false;
  return null;
}
