// Downloads of a page: its tables as CSV, its charts as PNG, and as SVG or CSV if they have shapes or columns.
import { rowsOf, toCsv } from "./csv.js";

const MARGIN = 16;
const SCALE = 2; // of pictures from SVG
const STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "paint-order",
  "font-family", "font-size", "font-weight", "text-anchor",
];
const dialog = document.getElementById("downloads");

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-downloads]")) return;
  list();
  dialog.showModal();
});

function list() {
  const names = new Map();
  const entries = [...tables(), ...charts()].map(({ element, forms }) => {
    const title = titleOf(element);
    names.set(title, (names.get(title) ?? 0) + 1);
    const number = names.get(title);
    const name = number > 1 ? `${title} ${number}` : title;
    const buttons = Object.entries(forms).map(([form, make]) => button(name, form, make));
    const line = document.createElement("li");
    line.append(name, ...buttons);
    return line;
  });
  dialog.querySelector("ul").replaceChildren(...entries);
  dialog.querySelector("[data-nothing]").hidden = entries.length > 0;
}

function button(name, form, make) {
  const made = document.createElement("button");
  Object.assign(made, { type: "button", textContent: form, ariaLabel: `${name} as ${form}` });
  made.addEventListener("click", async () => save(`${slug(name)}.${form.toLowerCase()}`, await make(name)));
  return made;
}

// --- what a page has ---

function tables() {
  const shown = [...document.querySelectorAll("main table")].filter((table) => isShown(table) && table.tBodies[0]?.rows.length);
  return shown.map((table) => ({ element: table, forms: { CSV: () => csv(rowsOf(table)) } }));
}

function charts() {
  const shown = [...document.querySelectorAll("main canvas, main svg")].filter((picture) => {
    return isShown(picture) && !picture.closest("[aria-hidden=true], button, a, .visually-hidden");
  });
  return shown.map((picture) => ({ element: picture, forms: formsOf(picture) }));
}

function formsOf(picture) {
  const columns = columnsOf(picture);
  return {
    ...(columns && { CSV: () => csv(columns()) }),
    PNG: (title) => png(picture, title),
    ...(picture.matches("svg") && { SVG: () => new Blob([svg(picture)], { type: "image/svg+xml" }) }),
  };
}

function isShown(element) {
  return element.getClientRects().length > 0;
}

// The heading of the nearest part of the page that has one.
function titleOf(element) {
  const labelled = element.closest("[aria-labelledby]");
  const found =
    element.querySelector("caption") ??
    element.closest("figure")?.querySelector("figcaption :is(h2, h3)") ??
    (labelled && document.getElementById(labelled.getAttribute("aria-labelledby")));
  const label = found?.textContent ?? element.closest("section, [role=group]")?.getAttribute("aria-label");
  return (label ?? document.querySelector("h1")?.textContent ?? document.title).replace(/\s+/g, " ").trim();
}

// A function that returns the values behind a chart as rows; undefined if there are none.
function columnsOf(picture) {
  const chart = picture.closest(".uplot")?.chart;
  return chart ? () => rowsOfChart(chart) : picture.rows;
}

function rowsOfChart({ root, data, series, scales }) {
  const [first, ...lines] = data;
  const dates = scales.x.time;
  const body = first.map((at, row) => [dates ? new Date(at * 1000).toISOString() : at, ...lines.map((line) => line[row])]);
  return [[dates ? "time" : root.over, ...series.slice(1).map(({ label }) => label)], ...body];
}

// --- files ---

function csv(rows) {
  return new Blob(["\ufeff", toCsv(rows)], { type: "text/csv" }); // the mark tells spreadsheets that it is UTF-8
}

function slug(name) {
  const words = `${document.title.split(" · ").slice(0, 2).join(" ")} ${name}`;
  return words.replace(/[^\p{Letter}\p{Number}@._]+/gu, "-").replace(/^[-.]+|-+$/g, "").slice(0, 120);
}

function save(name, blob) {
  const address = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// A picture on the ground of its card, with its title above and its legend below.
async function png(picture, title) {
  const image = picture.matches("svg") ? await loaded(svg(picture)) : picture;
  const ratio = picture.matches("svg") ? SCALE : picture.width / picture.clientWidth;
  const [width, height] = [picture.clientWidth || picture.getBoundingClientRect().width, picture.clientHeight];
  const legend = legendOf(picture);
  const bottom = legend.length ? 24 : 0;
  const canvas = document.createElement("canvas");
  canvas.width = (width + 2 * MARGIN) * ratio;
  canvas.height = (height + 3 * MARGIN + 16 + bottom) * ratio;
  const brush = canvas.getContext("2d");
  brush.scale(ratio, ratio);
  brush.fillStyle = token("--sheet");
  brush.fillRect(0, 0, canvas.width, canvas.height);
  brush.textBaseline = "top";
  write(brush, title, MARGIN, MARGIN, token("--ink"), "600 14");
  brush.drawImage(image, MARGIN, 2 * MARGIN + 16, width, height);
  let left = MARGIN;
  for (const [label, colour] of legend) left = write(brush, label, left, height + 2 * MARGIN + 24, colour, "12") + MARGIN;
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function write(brush, text, left, top, colour, font) {
  brush.font = `${font}px ${getComputedStyle(document.body).fontFamily}`;
  brush.fillStyle = colour;
  brush.fillText(text, left, top);
  return left + brush.measureText(text).width;
}

// Labels of the lines of a chart with their colours.
function legendOf(picture) {
  const entries = [...(picture.closest("figure")?.querySelectorAll(".legend > *") ?? [])];
  return entries.map((entry) => [entry.children[1].textContent, getComputedStyle(entry.children[0]).color]);
}

function loaded(source) {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(source)}`;
  return image.decode().then(() => image);
}

// An SVG with its styles as attributes, because a file has no style sheet.
function svg(picture) {
  const copy = picture.cloneNode(true);
  const own = [picture, ...picture.querySelectorAll("*")];
  for (const [place, element] of [copy, ...copy.querySelectorAll("*")].entries()) {
    const style = getComputedStyle(own[place]);
    for (const name of STYLES) element.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "style", "href", "data-value"]) element.removeAttribute(name);
  }
  const { width, height } = picture.viewBox.baseVal;
  for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width, height })) copy.setAttribute(name, value);
  const ground = `<rect width="${width}" height="${height}" fill="${token("--sheet")}"/>`;
  copy.insertAdjacentHTML("afterbegin", ground);
  return new XMLSerializer().serializeToString(copy);
}

// A colour of the theme as it is now.
function token(name) {
  const probe = document.body.appendChild(Object.assign(document.createElement("i"), { hidden: true }));
  probe.style.color = `var(${name})`;
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
