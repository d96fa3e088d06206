// Refreshes the page in place: fetches it again and puts what changed where it was.
// Nothing moves, so there is no motion to reduce; what reads or scrolls is left alone.
"use strict";

const interval = 5000;
const label = document.getElementById("refresh");
const box = label.querySelector("input");
const lost = document.getElementById("lost");
let timer;

// Someone who asked for less motion starts the refreshing, and is not surprised by it.
box.checked = !matchMedia("(prefers-reduced-motion: reduce)").matches;
label.hidden = false;

function update(fresh) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = fresh.getElementById(part.id);
    if (!next || next.innerHTML === part.innerHTML) continue;
    // A link or a selection that is in use stays until it is left.
    if (part.contains(document.activeElement) && part !== document.activeElement) continue;
    const selection = getSelection();
    if (!selection.isCollapsed && selection.containsNode(part, true)) continue;
    part.replaceChildren(...next.childNodes);
  }
}

async function refresh() {
  try {
    const answer = await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(interval) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    update(new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (lost.textContent) lost.textContent = "";
  } catch (error) {
    if (!lost.textContent) lost.textContent = "The exporter does not answer: what is shown is old.";
  }
  schedule();
}

function schedule() {
  clearTimeout(timer);
  if (box.checked && !document.hidden) timer = setTimeout(refresh, interval);
}

box.addEventListener("change", schedule);
document.addEventListener("visibilitychange", schedule);
schedule();
