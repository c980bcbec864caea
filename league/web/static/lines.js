// A line chart over steps or time. Its figure has a `.plot`, a `.legend`, and the typical range in data attributes.
// Lines differ in dash and in colour. The colours come from the legend, which follows the theme.
import { padded, period, times } from "./charts.js";

const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [14, 4], [5, 5]];
const COLOURS = 6;
const SYNC = "steps";
const UNITS = [[1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"], [1e-3, 1, ""]]; // from where on, its size, its letter
const OVER_STEPS = { time: false, log: false, over: "steps" };

export class LineChart {
  constructor(figure) {
    this.figure = figure;
    this.plot = figure.querySelector(".plot");
    this.legend = figure.querySelector(".legend");
    this.title = figure.querySelector("h2, h3").textContent;
    this.lines = [];
    this.data = [[]];
    this.view = OVER_STEPS;
    new ResizeObserver(() => this.chart?.setSize(this.size())).observe(this.plot);
  }

  // Lines are {label, values}, with a value or null at each x, in ascending order. Options of a line are its `colour` and
  // `dash` (numbers), `dots` (at each value) and `scattered` (dots alone). The view is {time, log, over}: whether x is a
  // time in seconds, whether y is logarithmic, and the name of x. A zoomed chart keeps its range.
  show(xs, lines, view = OVER_STEPS) {
    const same = this.chart && keyOf(lines, view) === keyOf(this.lines, this.view);
    const range = same && this.zoomed();
    this.lines = lines.map((line, place) => ({ colour: place, dash: place, ...line }));
    this.view = view;
    this.data = [xs, ...lines.map(({ values }) => (view.log ? values.map(positive) : values))];
    if (!same) {
      this.redraw();
      return;
    }
    this.chart.setData(this.data, !range);
    if (range) this.chart.setScale("x", range);
    this.read(this.chart.cursor.idx);
  }

  redraw() {
    this.chart?.destroy();
    this.chart = null;
    this.plot.replaceChildren();
    this.legend.replaceChildren(...this.lines.map(entry));
    if (!this.lines.length || !this.data[0].length) {
      this.plot.replaceChildren(nothing());
      return;
    }
    this.chart = new window.uPlot(this.options(), this.data, this.plot);
    Object.assign(this.chart.root, { chart: this.chart, over: this.view.over }); // for downloads.js
    this.read(null);
  }

  // The range of x that a reader chose, or null.
  zoomed() {
    const { min, max } = this.chart.scales.x;
    return min > this.data[0][0] || max < this.data[0].at(-1) ? { min, max } : null;
  }

  size() {
    return { width: this.plot.clientWidth, height: this.plot.clientHeight };
  }

  options() {
    const style = getComputedStyle(this.plot);
    const letter = Math.round(0.8 * parseFloat(style.fontSize)); // uPlot reads whole numbers of px alone
    const axis = { stroke: style.color, font: `${letter}px ${style.fontFamily}`, ticks: { show: false } };
    const grid = { stroke: style.borderColor, width: 1 };
    const colours = [...this.legend.children].map((each) => getComputedStyle(each.querySelector("svg")).color);
    const { time, log, over } = this.view;
    const name = time ? {} : { label: over, labelSize: Math.round(1.4 * letter), labelFont: axis.font, labelGap: 0 };
    return {
      ...this.size(),
      legend: { show: false },
      cursor: { sync: { key: SYNC }, y: false, points: { size: 6 } },
      scales: { x: time ? { time, range: period } : { time }, y: this.scale() },
      axes: [
        { ...axis, ...name, grid: { show: false }, size: (time ? 3.6 : 2.4) * letter, values: time ? times : labels },
        { ...axis, grid, size: 4.5 * letter, values: log ? powers : labels },
      ],
      series: [{}, ...this.lines.map((line, place) => this.series(line, colours[place]))],
      hooks: { setCursor: [(chart) => this.read(chart.cursor.idx)], drawClear: [(chart) => this.shade(chart, style.color)] },
    };
  }

  scale() {
    if (this.view.log) return { distr: 3 };
    if (this.figure.dataset.share !== undefined) return { range: [0, 1] };
    return { range: (_, low, high) => (low == null ? [0, 1] : padded(low, high, Math.abs(low) * 0.01 || 0.01)) };
  }

  series({ label, dash, dots, scattered }, colour) {
    const few = this.data[0].length < 3;
    return {
      label,
      stroke: colour,
      width: 1.75,
      dash: dashOf(dash),
      spanGaps: true,
      paths: scattered ? () => null : undefined,
      points: { show: few || dots || scattered || false, size: scattered ? 3 : 5, fill: colour },
    };
  }

  // Draws the visible part of the typical range.
  shade(chart, colour) {
    const { low, high } = this.figure.dataset;
    if (low === undefined) return;
    const { left, top, width, height } = chart.bbox;
    const within = (value) => Math.min(Math.max(chart.valToPos(value, "y", true), top), top + height);
    chart.ctx.save();
    chart.ctx.globalAlpha = 0.1;
    chart.ctx.fillStyle = colour;
    chart.ctx.fillRect(left, within(Number(high)), width, within(Number(low)) - within(Number(high)));
    chart.ctx.restore();
  }

  // Writes the values at an index, or the last values, into the legend. A line without a value there has its last one.
  read(place) {
    const end = place == null ? undefined : place + 1;
    const values = this.lines.map((_, number) =>
      write(this.data[number + 1].slice(0, end).findLast((value) => value != null)));
    for (const [number, text] of values.entries()) {
      this.legend.children[number].querySelector("strong").textContent = text;
    }
    if (place != null) return;
    const now = this.lines.map(({ label }, number) => `${label} ${values[number]}`).join(", ");
    this.plot.setAttribute("aria-label", `${this.title} over ${this.view.over}, now ${now}`);
  }
}

function keyOf(lines, view) {
  return JSON.stringify([view, lines.map(({ label }) => label)]);
}

function positive(value) {
  return value > 0 ? value : null;
}

// Joins tables of {xs, lines} into ascending x and lines with null where a table has no value.
export function joined(tables) {
  const xs = [...new Set(tables.flatMap((table) => table.xs))].sort((a, b) => a - b);
  if (tables.length === 1 && xs.every((x, place) => x === tables[0].xs[place])) return tables[0];
  const places = new Map(xs.map((x, place) => [x, place]));
  const spread = (table, line) => {
    const values = Array(xs.length).fill(null);
    for (const [number, value] of line.values.entries()) if (value != null) values[places.get(table.xs[number])] = value;
    return { ...line, values };
  };
  return { xs, lines: tables.flatMap((table) => table.lines.map((line) => spread(table, line))) };
}

// Exponential moving average with a weight in [0, 1) of the past, corrected for its start.
export function smoothed(values, weight) {
  if (!weight) return values;
  let [sum, mass] = [0, 0];
  return values.map((value) => {
    if (value == null) return value;
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}

// Another dash pattern when the colours repeat.
function dashOf(place) {
  return DASHES[(place + Math.floor(place / COLOURS)) % DASHES.length];
}

function entry({ label, colour, dash, scattered }) {
  const span = document.createElement("span");
  const name = scattered ? "line-others" : `line-${(colour % COLOURS) + 1}`;
  const line = `<path d="M0 4h22" fill="none" stroke="currentcolor" stroke-width="2.5" stroke-dasharray="${dashOf(dash).join(" ")}"/>`;
  const dots = `<path d="M4 4h0M11 4h0M18 4h0" stroke="currentcolor" stroke-width="4" stroke-linecap="round"/>`;
  span.innerHTML = `<svg class="${name}" viewBox="0 0 22 8">${scattered ? dots : line}</svg><span></span><strong></strong>`;
  span.children[1].textContent = label;
  return span;
}

function nothing() {
  const text = document.createElement("p");
  text.className = "nothing";
  text.textContent = "no data yet";
  return text;
}

function write(value) {
  return value == null ? "–" : short(value);
}

export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${trim(value / 1e9)}G`;
  if (size >= 1e6) return `${trim(value / 1e6)}M`;
  if (size >= 1e4) return `${trim(value / 1e3)}k`;
  return size !== 0 && size < 1e-3 ? value.toExponential(2) : trim(value);
}

// Labels of an axis with a given distance between values: one unit, and enough digits to distinguish the values.
export function labels(_, values, axis, space, apart) {
  const largest = Math.max(...values.map(Math.abs));
  const [, size, unit] = UNITS.find(([least]) => largest >= least) ?? power(largest);
  let digits = 0;
  for (let step = apart / size; digits < 8 && Math.abs(step - Math.round(step)) > 1e-6 * step; step *= 10) digits += 1;
  return values.map((value) => (value ? `${Number((value / size).toFixed(digits))}${unit}` : "0"));
}

// Labels of a logarithmic axis, of which uPlot leaves out some.
function powers(_, values) {
  return values.map((value) => (value == null ? "" : value < 1e-3 ? value.toExponential(0) : short(value)));
}

function power(largest) {
  const exponent = largest ? Math.floor(Math.log10(largest)) : 0;
  return [0, 10 ** exponent, exponent ? `e${exponent}` : ""];
}

function trim(value) {
  return String(Number(value.toPrecision(4)));
}
