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
  chart.root.chart = chart; // for downloads.js
  new ResizeObserver(() => {
    if (element.clientWidth !== chart.width) chart.setSize(size());
  }).observe(element);
  addEventListener("league:theme", () => chart.redraw(false, false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw(false, false));
  return chart;
}

// A value over time with its 95 % interval: columns `at`, `high`, `low` and `value`. Calls `onHover` with the index under
// the pointer, or null. `range` is the range of an axis of y for the lowest and highest value, and `label` writes one of its
// values.
export function interval(element, columns, { range, label, onHover }) {
  const dots = columns[0].length < 40;
  return plot(element, {
    cursor: { y: false, points: { size: 7 } },
    scales: { x: { time: true, range: period }, y: { range: (_, low, high) => range(low, high) } },
    axes: [axis({ values: times }), axis({ size: 52, values: (_, ticks) => ticks.map(label) })],
    series: [
      {},
      { label: "high", stroke: "transparent", points: { show: false } },
      { label: "low", stroke: "transparent", points: { show: false } },
      { label: "value", stroke: () => colour("accent"), width: 2, points: { show: dots, size: 5, fill: () => colour("accent") } },
    ],
    bands: [{ series: [1, 2], fill: () => colour("chart-band") }],
    hooks: { setCursor: [({ cursor }) => onHover(cursor.idx)] },
  }, columns);
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

// Range of a time axis in seconds. A single time gets an hour, because uPlot would show 1,000 days.
export function period({ data: [at] }, first, last) {
  return at[0] === at.at(-1) ? [at[0] - 1800, at[0] + 1800] : [first, last];
}

// A range with some room at both ends, of at least `least`.
export function padded(low, high, least) {
  const room = Math.max(least, (high - low) * 0.05);
  return [low - room, high + room];
}
