// Updates the table. Rows change in place. The order changes by itself only if the page is not in use. After recent input,
// a button shows how many rows have moved and sorts them.
import { ask } from "./ask.js";

const IDLE_MS = 20000;
const KINDS = new Set(["period", "snapshot", "champion", "promote", "retire", "reinstate", "quarantine"]);
const CALM_MS = 150; // events that come together are answered together
const SHOWN_MAX = 250;

const seen = new Set();
const watch = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) seen.add(target);
    else seen.delete(target);
  }
}, { rootMargin: "100px" });

let touched = -Infinity;
let due = 0;

const table = () => document.getElementById("standings");

// Follows lines that came: htmx tells of each of a hundred, where looking at all of thousands takes seconds.
function observe(part) {
  const lines = part.matches("tr[data-id]") ? [part] : part.querySelectorAll("#standings tr[data-id]");
  for (const line of lines) watch.observe(line);
}

async function refresh() {
  const lines = [...seen].filter((line) => line.isConnected).slice(0, SHOWN_MAX);
  lines.sort((a, b) => (a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
  if (!lines.length) return reload();
  const ids = lines.map((line) => line.dataset.id);
  const address = new URL(table().dataset.liveRows, location);
  address.searchParams.set("ids", ids.join(","));
  const answer = await ask(address);
  if (!answer) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const now = [...fresh.querySelectorAll("tr[data-id]")];
  update(now);
  const order = now.map((line) => line.dataset.id);
  const moved = ids.filter((id, place) => order[place] !== id).length;
  const added = Number(fresh.querySelector("table").dataset.total) - Number(table().dataset.total);
  if (moved || added) suggest(moved, added);
}

function update(lines) {
  const changed = [];
  for (const line of lines) {
    const shown = document.getElementById(line.id);
    if (!shown || content(shown) === content(line)) continue;
    shown.className = line.className;
    shown.innerHTML = line.innerHTML;
    changed.push(shown);
  }
  void document.body.offsetWidth; // once for all: so that flashes begin anew
  for (const shown of changed) {
    shown.classList.add("changed");
    shown.dispatchEvent(new CustomEvent("htmx:afterSettle", { bubbles: true, detail: {} })); // times are local ones then
  }
}

function content(line) {
  return line.innerHTML.replace(/<time.*?<\/time>/gs, ""); // times.js updates it
}

function suggest(moved, added) {
  if (performance.now() - touched > IDLE_MS && scrollY < 300) {
    reload();
    return;
  }
  const parts = [];
  if (moved) parts.push(`${moved} ${moved === 1 ? "row has" : "rows have"} moved`);
  if (added > 0) parts.push(`${added} new`);
  if (added < 0) parts.push(`${-added} removed`);
  const button = table().querySelector("[data-reorder]");
  button.textContent = `${parts.join(", ")}: show the new order`;
  button.hidden = false;
  table().querySelector("[data-announce]").textContent = parts.join(", ");
}

function reload() {
  const { page } = table().dataset;
  window.htmx.ajax("GET", page, { target: "#standings", swap: "outerHTML" });
}

document.addEventListener("league:event", ({ detail }) => {
  if (detail.environment !== table().dataset.environment || !KINDS.has(detail.kind)) return;
  clearTimeout(due);
  due = setTimeout(refresh, CALM_MS);
});
document.addEventListener("league:return", refresh);
document.addEventListener("htmx:afterSettle", ({ target }) => observe(target));
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-reorder]")) reload();
});
for (const kind of ["pointermove", "pointerdown", "keydown", "wheel", "touchmove"]) {
  addEventListener(kind, () => (touched = performance.now()), { passive: true });
}

observe(document.body);
