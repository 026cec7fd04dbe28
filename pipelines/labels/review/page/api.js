// Talking to the server: one action at a time, each on the state that the page shows.

import { say } from "./dom.js";
import { review, take } from "./model.js";
import { reason, request } from "./requests.js";

const listeners = [];

/** Call back with the numbers of the clusters that changed. */
export const onChange = (listener) => listeners.push(listener);

const tell = (changed) => listeners.forEach((listener) => listener(changed));

export async function load() {
  const answer = await request("/api/review");
  if (!answer?.ok) return false;
  const everything = await answer.json();
  const { annotator, log, notices, labels, doubts } = everything;
  Object.assign(review, { annotator, log, notices, labels, doubts });
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
  const answer = await request("/api/act", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  if (!answer) return false;
  if (answer.ok) {
    const content = await answer.json();
    tell(take(content));
    say(content.messages.join(". "));
  } else if (answer.status === 409) {
    const { news } = await answer.json();
    tell(take(news));
    say(`Not done: ${news.messages.join(". ") || "something"} in another tab. This page is up to date now.`, { trouble: true });
  } else {
    say(`Not done: ${await reason(answer)}`, { trouble: true });
  }
  return answer.ok;
}

/** Ask what happened elsewhere. */
function refresh() {
  queue = queue.then(async () => {
    const answer = await request(`/api/news?since=${review.seq}`);
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
