// Light or dark, before anything is drawn: as chosen here before, or else as the system has it.
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;

function isDark() {
  const own = document.documentElement.dataset.theme;
  return own ? own === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

addEventListener("click", (event) => {
  if (!event.target.closest("[data-theme-switch]")) return;
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
  dispatchEvent(new Event("league:theme"));
});
