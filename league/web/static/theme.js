// Sets the theme before the first paint: the stored choice, or else that of the system.
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
