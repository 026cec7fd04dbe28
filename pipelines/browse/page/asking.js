// Questions to the server.

import { reason, request, trouble } from "./requests.js";

/** The answer, or null where there is none; the reason is then shown. */
export async function ask(what, given) {
  const answer = await request(`/api/${what}?${new URLSearchParams(given)}`);
  if (!answer) return null;
  return answer.ok ? answer.json() : trouble(await reason(answer));
}
