// Counts the matches since the page was loaded, and shows them on request. The count ignores the filters, because only the
// server can apply them.
let news = 0;

document.addEventListener("league:result", ({ detail }) => {
  const table = document.getElementById("matches");
  if (detail.environment !== table.dataset.environment) return;
  news += detail.details.matches;
  const button = table.querySelector("[data-news]");
  const text = `${news.toLocaleString("en")} new ${news === 1 ? "match" : "matches"}`;
  button.textContent = "filtered" in table.dataset ? `${text} before filters: reload` : `${text}: show`;
  button.hidden = false;
});

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-news]")) return;
  const { newest } = document.getElementById("matches").dataset;
  window.htmx.ajax("GET", newest, { target: "#matches", swap: "outerHTML" });
});

document.addEventListener("htmx:afterSettle", () => (news = 0));
