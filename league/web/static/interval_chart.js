// The chart of a value over time with its 95 % interval. The text below it describes the point under the pointer, or the
// last one.
import { ask } from "./ask.js";
import { interval } from "./charts.js";
import { local } from "./times.js";

const element = document.querySelector("[data-curve]");
const readout = document.querySelector("[data-readout]");
let chart = null;
let curve = null;

// Loads the curve of this page, draws it or replaces its data, and does nothing if the page has no curve. `value` names the
// column with the middle of the interval. `describe` writes a point, given the curve, its index and its time, and
// `summarize` the label of the curve, given the curve and its last point. `range` and `label` are those of `interval`.
export async function drawCurve({ value, range, label, describe, summarize }) {
  if (!element) return;
  const response = await ask(element.dataset.curve);
  if (!response) return;
  curve = await response.json();
  if (!curve.at.length) return;
  const describePoint = (index) => describe(curve, index, local(new Date(curve.at[index] * 1000)));
  const onHover = (index) => (readout.textContent = describePoint(index ?? curve.at.length - 1));
  const columns = [curve.at, curve.high, curve.low, curve[value]];
  if (chart) chart.setData(columns);
  else chart = interval(element, columns, { range, label, onHover });
  onHover(null);
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", summarize(curve, describePoint(curve.at.length - 1)));
  element.dataset.drawn = curve.at.length;
}
