// A line chart over steps. Its figure has a `.plot`, a `.legend`, and the typical range in data attributes.
// Lines differ in dash and in colour. The colours come from the legend, which follows the theme.
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [14, 4], [5, 5]];
const COLOURS = 6;
const SYNC = "steps";
const UNITS = [[1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"], [1e-3, 1, ""]]; // from where on, its size, its letter

export class LineChart {
  constructor(figure) {
    this.figure = figure;
    this.plot = figure.querySelector(".plot");
    this.legend = figure.querySelector(".legend");
    this.title = figure.querySelector("h3").textContent;
    this.lines = [];
    this.data = [[]];
    new ResizeObserver(() => this.chart?.setSize(this.size())).observe(this.plot);
  }

  // Lines are {label, values}, with a value or null at each step.
  show(steps, lines) {
    this.lines = lines.map(({ label }) => label);
    this.data = [steps, ...lines.map(({ values }) => values)];
    this.redraw();
  }

  // Returns whether these lines are a subset of the lines on the chart.
  fits(lines) {
    return lines.every(({ label }) => this.lines.includes(label));
  }

  extend(steps, lines) {
    const fresh = new Map(lines.map(({ label, values }) => [label, values]));
    const count = steps.length - this.data[0].length;
    const missing = Array(count).fill(null);
    this.data = [steps, ...this.lines.map((label, place) => this.data[place + 1].concat(fresh.get(label) ?? missing))];
    if (this.chart) {
      this.chart.setData(this.data);
      this.read(this.chart.cursor.idx);
    } else if (this.data[0].length) {
      this.redraw();
    }
  }

  redraw() {
    this.chart?.destroy();
    this.chart = null;
    this.plot.replaceChildren();
    this.legend.replaceChildren(...this.lines.map(entry));
    if (!this.lines.length) {
      this.plot.replaceChildren(nothing());
      return;
    }
    this.chart = new window.uPlot(this.options(), this.data, this.plot);
    this.read(null);
  }

  size() {
    return { width: this.plot.clientWidth, height: this.plot.clientHeight };
  }

  options() {
    const style = getComputedStyle(this.plot);
    const letter = 0.8 * parseFloat(style.fontSize);
    const axis = { stroke: style.color, font: `${letter}px ${style.fontFamily}`, ticks: { show: false } };
    const grid = { stroke: style.borderColor, width: 1 };
    const colours = [...this.legend.children].map((each) => getComputedStyle(each.querySelector("svg")).color);
    const { share } = this.figure.dataset;
    return {
      ...this.size(),
      legend: { show: false },
      cursor: { sync: { key: SYNC }, y: false, points: { size: 6 } },
      scales: { x: { time: false }, y: share === undefined ? {} : { range: [0, 1] } },
      axes: [
        { ...axis, grid: { show: false }, size: 2.4 * letter, values: labels },
        { ...axis, grid, size: 4.5 * letter, values: labels },
      ],
      series: [
        {},
        ...this.lines.map((label, place) => ({
          label,
          stroke: colours[place],
          width: 1.75,
          dash: dashOf(place),
          spanGaps: true,
          points: { show: this.data[0].length < 3, size: 5 },
        })),
      ],
      hooks: { setCursor: [(chart) => this.read(chart.cursor.idx)], drawClear: [(chart) => this.shade(chart, style.color)] },
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

  // Writes the values at an index, or the last values, into the legend.
  read(place) {
    const told = this.lines.map((label, number) => {
      const values = this.data[number + 1];
      return `${label} ${write(place == null ? values.findLast((value) => value !== null) : values[place])}`;
    });
    for (const [number, text] of told.entries()) {
      this.legend.children[number].querySelector("strong").textContent = text.slice(this.lines[number].length + 1);
    }
    if (place == null) this.plot.setAttribute("aria-label", `${this.title} over steps, now ${told.join(", ")}`);
  }
}

// Another dash pattern when the colours repeat.
function dashOf(place) {
  return DASHES[(place + Math.floor(place / COLOURS)) % DASHES.length];
}

function entry(label, place) {
  const span = document.createElement("span");
  const dash = dashOf(place).join(" ");
  span.innerHTML = `<svg class="line-${(place % COLOURS) + 1}" viewBox="0 0 22 8"><path d="M0 4h22" fill="none"
    stroke="currentcolor" stroke-width="2.5" stroke-dasharray="${dash}"/></svg><span></span><strong></strong>`;
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

function power(largest) {
  const exponent = largest ? Math.floor(Math.log10(largest)) : 0;
  return [0, 10 ** exponent, exponent ? `e${exponent}` : ""];
}

function trim(value) {
  return String(Number(value.toPrecision(4)));
}
