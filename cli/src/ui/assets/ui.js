"use strict";
// Copy buttons, and a page that loads itself again when something has changed. All can be read without this.

function decorate(root) {
  for (const pre of root.querySelectorAll("pre[data-copy]")) {
    const button = document.createElement("button");
    const text = pre.textContent;
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not allowed";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    // Next to the text, which it would hide on a small screen.
    const box = document.createElement("div");
    box.className = "copied";
    pre.replaceWith(box);
    box.append(pre, button);
  }
}

// What a user has opened, is typing, has marked or is clicking on is not taken away.
function isBusy() {
  const active = document.activeElement;
  const types = active && ["INPUT", "TEXTAREA", "SELECT"].includes(active.tagName);
  return types || String(document.getSelection()) !== "" || document.querySelector("main :active") !== null;
}

function keyOf(details) {
  const of = details.closest("section, article");
  const about = (of?.querySelector("h2, h3")?.textContent ?? "") + "|" + (of?.querySelector("a")?.textContent ?? "");
  return about + "|" + (details.querySelector("summary")?.textContent ?? "");
}

// Each with what tells it from the others, of which some may read alike.
function keyed(root) {
  const seen = new Map();
  return [...root.querySelectorAll("details")].map((one) => {
    const key = keyOf(one);
    seen.set(key, (seen.get(key) ?? 0) + 1);
    return [key + "|" + seen.get(key), one];
  });
}

async function load() {
  if (isBusy()) {
    return false;
  }
  const answer = await fetch(location.href, { credentials: "same-origin" });
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [main, there] = [next.querySelector("main"), document.querySelector("main")];
  // What has the port after weaver ui has ended does not know of which run this page is.
  if (!main || !document.body.dataset.run || next.body.dataset.run !== document.body.dataset.run) {
    document.getElementById("live").textContent = "No longer served (" + answer.status + "): open the address of the new run.";
    return null;
  }
  if (isBusy()) {
    return false;
  }
  const open = new Map(keyed(there).map(([key, one]) => [key, one.open]));
  for (const [key, one] of keyed(main)) {
    one.open = open.get(key) ?? one.open;
  }
  const scrolled = [...there.querySelectorAll(".scroll, .targets")].map((one) => [one.scrollLeft, one.scrollTop]);
  const focused = [...there.querySelectorAll("a, summary, button, [tabindex]")].indexOf(document.activeElement);
  there.replaceChildren(...main.childNodes);
  decorate(there);
  there.querySelectorAll(".scroll, .targets").forEach((one, at) => {
    [one.scrollLeft, one.scrollTop] = scrolled[at] ?? [0, 0];
  });
  if (focused >= 0) {
    there.querySelectorAll("a, summary, button, [tabindex]")[focused]?.focus({ preventScroll: true });
  }
  const [time, before] = [next.querySelector("footer time"), document.querySelector("footer time")];
  if (time && before) {
    before.replaceWith(time);
  }
  return true;
}

function follow(address) {
  const live = document.getElementById("live");
  let source = null;
  let waiting = null;
  let loading = false;
  let again = false;
  // One at a time: an older answer would overwrite a newer one.
  const reload = async () => {
    if (loading) {
      again = true;
      return;
    }
    clearTimeout(waiting);
    [waiting, loading, again] = [null, true, false];
    let done = true; // null: there is nothing more to follow
    try {
      done = await load();
    } catch {
      // The next change tries again; that the program has ended is said below.
    }
    loading = false;
    if (done === null) {
      source?.close();
      document.removeEventListener("visibilitychange", seen);
    } else if (!done || again) {
      waiting = setTimeout(reload, 2000);
    }
  };
  const begin = () => {
    source = new EventSource(address);
    source.addEventListener("open", () => { live.textContent = "Live."; reload(); });
    source.addEventListener("change", () => { if (!waiting) { reload(); } });
    source.addEventListener("error", () => {
      live.textContent = "Not live: is weaver ui still running?";
    });
  };
  // A browser has few connections for one host: a page that is not seen needs none.
  const seen = () => {
    if (document.hidden) {
      source?.close();
      source = null;
      clearTimeout(waiting);
      waiting = null;
    } else if (!source) {
      begin();
    }
  };
  document.addEventListener("visibilitychange", seen);
  if (!document.hidden) {
    begin();
  }
}

decorate(document);
if (document.body.dataset.events) {
  follow(document.body.dataset.events);
}
