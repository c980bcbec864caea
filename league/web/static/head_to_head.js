// The score of a player against another one over time.
import { ask } from "./ask.js";
import { interval } from "./charts.js";
import { local } from "./times.js";

const place = document.querySelector("[data-curve]");
const readout = document.querySelector("[data-readout]");
let curve = null;

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function told(index) {
  const matches = `${curve.matches[index]} ${curve.matches[index] === 1 ? "match" : "matches"}`;
  const at = local(new Date(curve.at[index] * 1000));
  return `${percent(curve.score[index])} (${percent(curve.low[index])} to ${percent(curve.high[index])}) in ${matches} until ${at}`;
}

function say(index) {
  readout.textContent = told(index ?? curve.at.length - 1);
}

async function draw() {
  const answer = await ask(place.dataset.curve);
  if (!answer) return;
  curve = await answer.json();
  if (!curve.at.length) return;
  const columns = [curve.at, curve.high, curve.low, curve.score];
  interval(place, columns, { range: () => [0, 1], label: (tick) => `${Math.round(100 * tick)} %`, say });
  say(null);
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `Score over time in ${curve.at.length} parts; last ${told(curve.at.length - 1)}`);
  place.dataset.drawn = curve.at.length;
}

if (place) draw();
