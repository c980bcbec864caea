// Inserts new rows at the top of the log.
import { ask } from "./ask.js";

const CALM_MS = 150; // events that come together are fetched together
const table = document.querySelector(".log");
const body = document.getElementById("log");
let due = 0;

function newest() {
  return Number(body.querySelector("tr[data-id]")?.dataset.id ?? 0);
}

async function fetchNewer() {
  const address = new URL(table.dataset.newer, location);
  address.searchParams.set("after", newest());
  const answer = await ask(address);
  if (!answer) return;
  const rows = document.createElement("tbody");
  rows.innerHTML = await answer.text();
  const fresh = [...rows.querySelectorAll("tr[data-id]")].filter(({ dataset }) => Number(dataset.id) > newest());
  if (fresh.length >= Number(table.dataset.most)) location.reload(); // there may be others between
  if (!fresh.length) return;
  for (const row of fresh) row.classList.add("changed");
  body.prepend(...fresh);
  document.getElementById("log-empty")?.remove();
  document.getElementById("log-news").textContent = `${fresh.length} new`;
  document.dispatchEvent(new CustomEvent("htmx:afterSettle", { detail: {} })); // times are local ones then
}

function expect({ detail }) {
  const concerns = !detail || detail.environment === null || detail.environment === table.dataset.environment;
  const shown = detail?.kind !== "result" && (detail?.kind !== "period" || table.dataset.periods);
  if (!concerns || !shown) return;
  clearTimeout(due);
  due = setTimeout(fetchNewer, CALM_MS);
}

document.addEventListener("league:event", expect);
document.addEventListener("league:return", () => expect({ detail: null }));
