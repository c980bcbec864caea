// Draws the curves of one or several learners, and adds points as their trainers report them. The form beside them chooses
// x, smoothing and a logarithmic y. Its state is part of the address.
import { ask, COPIED } from "./ask.js";
import { joined, LineChart, smoothed } from "./lines.js";

const FOLLOW_MS = 5000;
const POINTS_MAX = 1500; // then the curves are fetched anew, spread over all steps
const OVER = { step: "steps", time: "time", hours: "hours" };

const section = document.querySelector("[data-curves]");
const form = document.getElementById("view");
const more = section.querySelector("[data-more]");
const charts = new Map();
for (const figure of section.querySelectorAll("[data-chart]")) charts.set(figure.dataset.chart, new LineChart(figure));

const learners = [...section.querySelectorAll("[data-learner]")].map(({ dataset }) => ({
  address: dataset.learner,
  name: dataset.name,
  curves: null,
}));

async function load(learner) {
  const curves = await fetchCurves(learner, 0);
  if (curves) learner.curves = { ...curves, start: Math.min(...curves.times) };
}

async function follow(learner) {
  if (!learner.curves?.steps.length) return load(learner);
  const { curves } = learner;
  const fresh = await fetchCurves(learner, curves.last);
  if (!fresh || !fresh.steps.length) return undefined;
  const goesOn = fresh.steps[0] > curves.steps.at(-1) && curves.steps.length + fresh.steps.length <= POINTS_MAX;
  if (!goesOn || !extend(curves, fresh)) return load(learner);
  return undefined;
}

// Appends points; returns false if they have a line that the curves lack.
function extend(curves, fresh) {
  const fits = Object.entries(fresh.charts).every(([key, lines]) =>
    lines.every(({ label }) => curves.charts[key]?.some((line) => line.label === label)));
  if (!fits) return false;
  for (const [key, lines] of Object.entries(curves.charts)) {
    for (const line of lines) {
      const added = fresh.charts[key]?.find(({ label }) => label === line.label)?.values;
      line.values = line.values.concat(added ?? Array(fresh.steps.length).fill(null));
    }
  }
  curves.last = fresh.last;
  curves.steps = curves.steps.concat(fresh.steps);
  curves.times = curves.times.concat(fresh.times);
  return true;
}

async function fetchCurves({ address }, after) {
  const answer = await ask(`${address}?after=${after}&more=${more.open}`);
  return answer && answer.json();
}

function draw() {
  const { x, smooth, log } = Object.fromEntries(new FormData(form));
  const view = { time: x === "time", log: log !== undefined, over: OVER[x] };
  const shown = learners.filter(({ curves }) => curves);
  for (const [key, chart] of charts) {
    const found = shown.map(({ curves }) => curves.charts[key] ?? []);
    const alone = found.every((lines) => lines.length < 2);
    const tables = shown.map(({ name, curves }, colour) => ({
      xs: xsOf(curves, x),
      lines: found[colour].map((line, dash) => ({
        ...named(name, line, colour, dash, alone),
        values: smoothed(line.values, Number(smooth)),
      })),
    }));
    const { xs, lines } = joined(tables);
    chart.show(xs, lines, view);
  }
}

function xsOf({ steps, times, start }, x) {
  if (x === "step") return steps;
  return x === "time" ? times : times.map((time) => (time - start) / 3600);
}

// Of several learners each has a colour, and the lines of one differ in dash.
function named(name, { label }, colour, dash, alone) {
  return learners.length === 1 ? { label } : { label: alone ? name : `${name} · ${label}`, colour, dash };
}

function redraw() {
  for (const chart of charts.values()) chart.redraw();
}

function remember() {
  if (COPIED) return; // browsers refuse it for files
  const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
  history.replaceState(history.state, "", `${location.pathname}?${query}`);
}

async function tick() {
  if (!document.hidden) {
    window.htmx?.trigger("#learners", "refresh");
    await Promise.all(learners.map(follow));
    draw();
  }
  setTimeout(tick, FOLLOW_MS);
}

async function begin() {
  await Promise.all(learners.map(load));
  draw();
}

more.addEventListener("toggle", () => more.open && begin());
form.addEventListener("input", (event) => {
  if ("submitOnChange" in event.target.dataset) return;
  draw();
  remember();
});
addEventListener("league:theme", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
await begin();
setTimeout(tick, FOLLOW_MS);
