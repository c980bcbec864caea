// The rating curve of a player's page, redrawn after every rating period.
import { ask } from "./ask.js";
import { interval, padded } from "./charts.js";
import { local } from "./times.js";

const place = document.querySelector("[data-curve]");
const readout = document.querySelector("[data-readout]");
let chart = null;
let curve = null;

function told(index) {
  const high = curve.high[index] - curve.rating[index];
  const at = local(new Date(curve.at[index] * 1000));
  const value = `${Math.round(curve.rating[index])} ± ${Math.round(high)}`;
  return `${value} after period ${curve.period[index]}, ${at}, ${curve.games[index].toLocaleString()} games`;
}

function say(index) {
  readout.textContent = told(index ?? curve.at.length - 1);
}

async function draw() {
  const answer = await ask(place.dataset.curve);
  if (!answer) return;
  curve = await answer.json();
  if (!curve.at.length) return;
  const columns = [curve.at, curve.high, curve.low, curve.rating];
  if (chart) chart.setData(columns);
  else chart = interval(place, columns, { range: (low, high) => padded(low, high, 20), label: (tick) => tick.toFixed(0), say });
  say(null);
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `Rating over ${curve.at.length} periods; now ${told(curve.at.length - 1)}`);
  place.dataset.drawn = curve.at.length;
}

document.addEventListener("league:period", draw);
document.addEventListener("league:return", draw);
draw();
