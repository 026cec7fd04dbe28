// Requests to the server, and what the page says where there is no answer.

import { $ } from "./dom.js";

/** An address of the server with the token of this page's own address, without which it answers nothing. */
export function addressed(path) {
  const token = new URLSearchParams(location.search).get("token") ?? "";
  return `${path}${path.includes("?") ? "&" : "?"}${new URLSearchParams({ token })}`;
}

/** The answer, or null where the server is gone; the page then says why. */
export async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(addressed(path), { credentials: "omit", ...options });
  } catch {
    return trouble("The server does not answer: it was stopped. What was done is kept; start it again and open the address that it prints.");
  }
  if (answer.status === 403 || answer.status === 421) {
    return trouble("The server was started anew. Open the address that it printed.");
  }
  trouble("");
  return answer;
}

/** What the server answers to a question, or null where there is no answer; the reason is then shown. */
export const ask = (what, given) => asked(what, given, {});

/** The same with a body, a file for instance. */
export const askWith = (what, given, body) => asked(what, given, { method: "POST", body });

async function asked(what, given, options) {
  const answer = await request(`/api/${what}?${new URLSearchParams(given)}`, options);
  if (!answer) return null;
  return answer.ok ? answer.json() : trouble(await reason(answer));
}

/** Show what is wrong; an empty text says that nothing is. */
export function trouble(text) {
  $("trouble").hidden = !text;
  if ($("trouble").textContent !== text) $("trouble").textContent = text;
  return null;
}

/** Why the server did not do what was asked. */
export async function reason(answer) {
  const { error } = await answer.json().catch(() => ({ error: `the server failed (${answer.status}); its terminal says why` }));
  return error;
}
