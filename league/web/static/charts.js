// Curves by uPlot in the colours of the page, redrawn when these or the width change.
import { local } from "./times.js";

// A custom property of a colour holds light and dark: only an element that wears it knows which it is.
const probe = document.body.appendChild(Object.assign(document.createElement("i"), { hidden: true }));

export function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

export function axis(options = {}) {
  return {
    stroke: () => colour("soft"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: () => colour("line"), width: 1 },
    ticks: { show: false },
    ...options,
  };
}

// Draws columns into an element that has a height of its own; returns the chart. What it holds already is replaced.
export function plot(element, options, columns) {
  element.replaceChildren();
  const size = () => ({ width: element.clientWidth, height: element.clientHeight });
  const chart = new window.uPlot({ ...size(), legend: { show: false }, ...options }, columns, element);
  new ResizeObserver(() => {
    if (element.clientWidth !== chart.width) chart.setSize(size());
  }).observe(element);
  addEventListener("league:theme", () => chart.redraw(false, false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw(false, false));
  return chart;
}

// A rating over time with its 95 % band. `say` is told the index that the reader points at, or null.
export function rating(element, curve, say) {
  const dots = curve.at.length < 40;
  return plot(element, {
    cursor: { y: false, points: { size: 7 } },
    scales: { x: { time: true, range: period }, y: { range: (_, low, high) => padded(low, high) } },
    axes: [axis({ values: times }), axis({ size: 52, values: (_, ticks) => ticks.map((tick) => tick.toFixed(0)) })],
    series: [
      {},
      { stroke: "transparent", points: { show: false } },
      { stroke: "transparent", points: { show: false } },
      { stroke: () => colour("accent"), width: 2, points: { show: dots, size: 5, fill: () => colour("accent") } },
    ],
    bands: [{ series: [1, 2], fill: () => colour("chart-band") }],
    hooks: { setCursor: [({ cursor }) => say(cursor.idx)] },
  }, ratingColumns(curve));
}

export function ratingColumns(curve) {
  return [curve.at, curve.high, curve.low, curve.rating];
}

// Labels of a time axis in seconds: the time of day by the reader's clock, and the day where it is a new one.
export function times(_, splits, axis, space, apart) {
  let before = "";
  return splits.map((split) => {
    const at = new Date(split * 1000);
    const [date, minute] = local(at).split(" ");
    const day = date.slice(5);
    const time = apart >= 60 ? minute : `${minute}:${String(at.getSeconds()).padStart(2, "0")}`;
    const label = apart >= 86400 ? day : `${time}${day === before ? "" : `\n${day}`}`;
    before = day;
    return label;
  });
}

// What a time axis spans, in seconds: all, and the hour around a single moment, of which uPlot would make 1,000 days.
function period({ data: [at] }, first, last) {
  return at.length === 1 ? [first - 1800, first + 1800] : [first, last];
}

function padded(low, high) {
  const room = Math.max(20, (high - low) * 0.05);
  return [low - room, high + room];
}
