// Says how many matches came in since the page was loaded; they are shown when a reader asks for them.
let news = 0;

document.addEventListener("league:result", ({ detail }) => {
  const table = document.getElementById("matches");
  if (detail.environment !== table.dataset.environment) return;
  news += detail.details.matches;
  const button = table.querySelector("[data-news]");
  button.textContent = `${news.toLocaleString("en")} more ${news === 1 ? "match" : "matches"} since: show`;
  button.hidden = false;
});

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-news]")) return;
  const { newest } = document.getElementById("matches").dataset;
  window.htmx.ajax("GET", newest, { target: "#matches", swap: "outerHTML" });
});

document.addEventListener("htmx:afterSettle", () => (news = 0));
