// The chart of ratings, drawn again after every rating period.
import { ask } from "./ask.js";
import { joined, LineChart } from "./lines.js";

const figure = document.querySelector("[data-ratings]");
const chart = new LineChart(figure);
const DOTS_MAX = 50; // of a line, beyond which it has no dots
const VIEW = { time: true, log: false, over: "time" };

async function draw() {
  const answer = await ask(figure.dataset.ratings);
  if (!answer) return;
  const { lines } = await answer.json();
  const dots = lines.every(({ xs }) => xs.length <= DOTS_MAX);
  const tables = lines.map(({ label, values, xs, scattered }, colour) => ({
    xs,
    lines: [{ label, values, scattered, colour, dash: colour, dots }],
  }));
  const { xs, lines: shown } = joined(tables);
  chart.show(xs, shown, VIEW);
  figure.dataset.drawn = xs.length;
}

document.addEventListener("league:period", draw);
document.addEventListener("league:return", draw);
addEventListener("league:theme", () => chart.redraw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw());
await draw();
