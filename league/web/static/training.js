// Draws a learner's curves over its steps, and adds points as its trainer reports them.
import { ask } from "./ask.js";
import { LineChart } from "./lines.js";

const FOLLOW_MS = 5000;
const POINTS_MAX = 1500; // then the curves are fetched anew, spread over all steps

const section = document.querySelector("[data-curves]");
const more = section.querySelector("[data-more]");
const charts = new Map();
for (const figure of section.querySelectorAll("[data-chart]")) charts.set(figure.dataset.chart, new LineChart(figure));

let last = 0;
let steps = [];

async function load() {
  const told = await fetchCurves(0);
  if (!told) return;
  ({ last, steps } = told);
  for (const [chart, lines] of shown(told)) chart.show(steps, lines);
}

async function follow() {
  const told = await fetchCurves(last);
  if (!told || !told.steps.length) return;
  const goesOn = told.steps[0] > steps.at(-1) && steps.length + told.steps.length <= POINTS_MAX;
  if (!goesOn || !shown(told).every(([chart, lines]) => chart.fits(lines))) {
    await load();
    return;
  }
  last = told.last;
  steps = steps.concat(told.steps);
  for (const [chart, lines] of shown(told)) chart.extend(steps, lines);
}

// The charts for which a response has lines.
function shown(told) {
  return Object.entries(told.charts).map(([key, lines]) => [charts.get(key), lines]);
}

async function fetchCurves(after) {
  const answer = await ask(`${section.dataset.curves}?after=${after}&more=${more.open}`);
  return answer && answer.json();
}

function redraw() {
  for (const chart of charts.values()) chart.redraw();
}

async function tick() {
  if (!document.hidden) {
    window.htmx?.trigger("#learners", "refresh");
    await (steps.length ? follow() : load());
  }
  setTimeout(tick, FOLLOW_MS);
}

more.addEventListener("toggle", () => more.open && load());
addEventListener("league:theme", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
await load();
setTimeout(tick, FOLLOW_MS);
