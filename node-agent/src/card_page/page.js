"use strict";
// Shows what has changed, and that the card does not answer. All can be read without this, and loaded again by hand.

let shown = document.querySelector("main").innerHTML;

async function look() {
  const live = document.getElementById("live");
  try {
    const answer = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(10000) });
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const [main, there] = [next.querySelector("main"), document.querySelector("main")];
    live.textContent = "";
    if (!main || main.innerHTML === shown) {
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
setTimeout(follow, 1000 * Number(document.body.dataset.seconds));
