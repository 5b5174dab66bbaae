"use strict";
// Shows what has changed, and that the card does not answer. All can be read without this, and loaded again by hand.

let shown = document.querySelector("main").innerHTML;

// By the card's own clock, which each answer has: that of this machine may be another one. The exact time stays on hover.
function relate(now) {
  for (const time of document.querySelectorAll("main time")) {
    const seconds = Math.max(0, Math.round((now - Date.parse(time.dateTime)) / 1000));
    if (Number.isNaN(seconds)) {
      continue;
    }
    const units = [["s", 1], ["min", 60], ["h", 3600], ["days", 86400]];
    const [unit, size] = units.findLast(([, size]) => seconds >= 2 * size) ?? units[0];
    time.title = time.dateTime;
    time.textContent = Math.round(seconds / size) + " " + unit + " ago";
  }
}

async function look() {
  const live = document.getElementById("live");
  try {
    const answer = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(10000) });
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const [main, there] = [next.querySelector("main"), document.querySelector("main")];
    live.textContent = "";
    const now = Date.parse(answer.headers.get("date"));
    if (!main || main.innerHTML === shown) {
      relate(now);
      return;
    }
    shown = main.innerHTML;
    const open = there.querySelector("details")?.open ?? false;
    there.replaceChildren(...main.childNodes);
    const details = there.querySelector("details");
    if (details) {
      details.open = open;
    }
    document.title = next.title;
    document.body.dataset.seconds = next.body.dataset.seconds;
    relate(now);
  } catch {
    live.textContent = "The card does not answer: what is shown may be old.";
  }
}

async function follow() {
  // A page that no one sees needs no program that shows it.
  if (!document.hidden) {
    await look();
  }
  setTimeout(follow, 1000 * Number(document.body.dataset.seconds));
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) { look(); } });
follow();
