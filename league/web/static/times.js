// Shows times in the browser's time zone, with UTC as the title, and updates ages. Ages use the server's clock, because the
// browser's clock may be wrong.
const AHEAD_MS = Date.now() - Date.parse(document.querySelector("meta[name=now]").content);
const LATE_MS = 10000; // so long a page may have been on its way
const UNITS = [[31536000, "y"], [86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

export function local(at) {
  const two = (value) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

function age(at) {
  const ahead = Math.abs(AHEAD_MS) > LATE_MS ? AHEAD_MS : 0;
  const passed = Math.max(0, Math.floor((Date.now() - ahead - at) / 1000));
  const [size, unit] = UNITS.find(([least]) => passed >= least) ?? UNITS.at(-1);
  return `${Math.floor(passed / size)} ${unit}`;
}

export function show(root = document) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    const text = "age" in time.dataset ? age(at) : local(at);
    if (time.textContent !== text) time.textContent = text;
  }
}

show();
setInterval(show, 30000);
document.addEventListener("htmx:afterSettle", (event) => show(event.target));
