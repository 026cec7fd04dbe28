// Talking to the server: one action at a time, each on the state that the page shows.

import { $, say } from "./dom.js";
import { review, take } from "./model.js";

const listeners = [];

/** Call back with the numbers of the clusters that changed. */
export const onChange = (listener) => listeners.push(listener);

const tell = (changed) => listeners.forEach((listener) => listener(changed));

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    trouble("The server does not answer: it was stopped. What was done is in the log; start it again to go on.");
    return null;
  }
  if (answer.status === 403 || answer.status === 421) {
    trouble("The server was started anew. Open the address that it printed.");
    return null;
  }
  trouble("");
  return answer;
}

function trouble(text) {
  $("trouble").hidden = !text;
  if ($("trouble").textContent !== text) $("trouble").textContent = text;
}

export async function load() {
  const answer = await ask("/api/review");
  if (!answer?.ok) return false;
  const everything = await answer.json();
  const { annotator, log, notices, labels, doubts, adjudication } = everything;
  Object.assign(review, { annotator, log, notices, labels, doubts, adjudication });
  take(everything);
  return true;
}

let queue = Promise.resolve();

/** Do something, after what is being done; true if it was done. */
export function act(action) {
  const done = queue.then(() => post(action));
  queue = done.catch(() => false);
  return done;
}

async function post(action) {
  const body = JSON.stringify({ seq: review.seq, action });
  const answer = await ask("/api/act", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  if (!answer) return false;
  const content = await answer.json().catch(() => ({ error: `the server failed (${answer.status}); its terminal says why` }));
  if (answer.ok) {
    tell(take(content));
    say(content.messages.join(". "));
    return true;
  }
  if (answer.status === 409) {
    tell(take(content.news));
    say(`Not done: ${content.news.messages.join(". ") || "something"} in another tab. This page is up to date now.`, { trouble: true });
  } else {
    say(`Not done: ${content.error}`, { trouble: true });
  }
  return false;
}

/** Ask what happened elsewhere. */
export function refresh() {
  queue = queue.then(async () => {
    const answer = await ask(`/api/news?since=${review.seq}`);
    if (!answer?.ok) return;
    const news = await answer.json();
    if (news.seq === review.seq) return;
    tell(take(news));
    say(`In another tab: ${news.messages.join(". ")}`);
  });
  return queue;
}

const SECONDS_BETWEEN_LOOKS = 4;

export function keepUpToDate() {
  setInterval(() => document.visibilityState === "visible" && refresh(), 1000 * SECONDS_BETWEEN_LOOKS);
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && refresh());
}
