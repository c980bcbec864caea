// uPlot charts in the colours of the page. They are redrawn when the theme or the width changes.
import { local } from "./times.js";

// A custom property has a light and a dark colour. Only the computed style of an element has the current one.
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

// Draws columns into an element with a fixed height, replaces its content, and returns the chart.
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

// A rating over time with its 95 % interval. Calls `say` with the index under the pointer, or null.
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

// Labels of a time axis in seconds: local time, and the date if it differs from that of the label before.
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

// Range of a time axis in seconds. A single point gets an hour, because uPlot would show 1,000 days.
export function period({ data: [at] }, first, last) {
  return at.length === 1 ? [first - 1800, first + 1800] : [first, last];
}

function padded(low, high) {
  const room = Math.max(20, (high - low) * 0.05);
  return [low - room, high + room];
}
