// Says how many matches came in since the page was loaded; they are shown when a reader asks for them. What a filter
// leaves of them is not known before.
let news = 0;

document.addEventListener("league:result", ({ detail }) => {
  const table = document.getElementById("matches");
  if (detail.environment !== table.dataset.environment) return;
  news += detail.details.matches;
  const button = table.querySelector("[data-news]");
  const told = `${news.toLocaleString("en")} more ${news === 1 ? "match" : "matches"}`;
  button.textContent = "filtered" in table.dataset ? `${told} in all since: look again` : `${told} since: show`;
  button.hidden = false;
});

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-news]")) return;
  const { newest } = document.getElementById("matches").dataset;
  window.htmx.ajax("GET", newest, { target: "#matches", swap: "outerHTML" });
});

document.addEventListener("htmx:afterSettle", () => (news = 0));
