// The heat map: rows and columns are the players of the table below, a cell is the row's score against the column.
import { ask, COPIED } from "./ask.js";

const GAP = 0.06; // of a cell, between two
const CELL_MIN = 4;
const CELL_MAX = 40;
const LABELLED_FROM = 11; // pixels of a cell
const NAMES_MAX = 170; // pixels of the names of rows
const COLUMN_NAMES = 124; // pixels of the names of columns, which are vertical
const VALUED_MAX = 20; // players up to which cells have numbers
const VALUED_FROM = 26; // pixels of a cell with a number, for which narrow screens scroll sideways
const DARK_FROM = 0.75; // strength of a colour on which numbers have the colour of the sheet
const STRENGTH_POWER = 0.7; // below 1: small differences from even are seen as well
const SURE_FROM = 30; // matches from which a cell has its full colour
const FAINTEST = 0.3;
const CORNER = 0.4; // of a cell, the triangle of a pair that deviates

const canvas = document.getElementById("map");
const readout = document.getElementById("cell");
const rows = [...document.querySelectorAll(".players tr[data-id]")];
const players = rows.map(({ dataset }) => ({ id: dataset.id, name: dataset.name }));
const size = players.length;
const hint = readout.textContent;

let cells = null;
let chosen = null;
let marked = new Set();
let place = { left: 0, top: 0, cell: CELL_MIN };
const painted = document.createElement("canvas"); // the cells, which choosing one of them leaves as they are

const at = (row, column) => row * size - (row * (row + 1)) / 2 + column - row - 1;

// Returns a pair from the row's point of view; null on the diagonal.
function pair(row, column) {
  if (row === column || !cells) return null;
  const turned = row > column;
  const index = turned ? at(column, row) : at(row, column);
  const view = (value) => (turned ? 1000 - value : value) / 1000;
  const [low, high] = turned ? ["high", "low"] : ["low", "high"];
  const winRate = view(cells.win_rate[index]);
  const matches = cells.matches[index];
  if (!matches) return { winRate, matches };
  const met = cells.met[index];
  const byRatings = index in cells.by_ratings ? view(cells.by_ratings[index]) : null;
  return { winRate, matches, low: view(cells[low][met]), high: view(cells[high][met]), byRatings };
}

// Every pair from the row's point of view, as a table.
function pairs() {
  const names = players.map(({ name }) => name);
  const met = names.flatMap((name, row) => names.flatMap((other, column) => {
    const result = pair(row, column);
    return result ? [[name, other, result.winRate, result.matches, result.low, result.high, result.byRatings]] : [];
  }));
  return [["player", "opponent", "win rate", "matches", "low", "high", "by ratings"], ...met];
}

// --- drawing ---

function colours() {
  const of = (selector) => getComputedStyle(document.querySelector(selector)).color;
  const sheet = getComputedStyle(document.querySelector(".map")).backgroundColor;
  return { wins: of(".key .wins"), losses: of(".key .losses"), ink: of(".map"), soft: of(".key"), sheet };
}

function layout() {
  const labelled = (cell) => cell >= LABELLED_FROM;
  const width = canvas.parentElement.clientWidth;
  const names = Math.min(NAMES_MAX, width * 0.35);
  let cell = Math.min(CELL_MAX, Math.floor((width - names) / size));
  if (size <= VALUED_MAX) cell = Math.max(cell, VALUED_FROM);
  if (!labelled(cell)) cell = Math.max(CELL_MIN, Math.floor(width / size));
  place = labelled(cell) ? { left: names, top: COLUMN_NAMES, cell } : { left: 0, top: 0, cell };
}

// Draws up to 40,000 cells with their labels into a buffer.
function draw() {
  layout();
  const { left, top, cell } = place;
  const [width, height] = [left + cell * size + 1, top + cell * size + 1];
  for (const each of [canvas, painted]) {
    Object.assign(each, { width: width * devicePixelRatio, height: height * devicePixelRatio });
  }
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const brush = painted.getContext("2d");
  brush.scale(devicePixelRatio, devicePixelRatio);
  const palette = colours();
  for (let row = 0; row < size; row += 1) {
    for (let column = 0; column < size; column += 1) paint(brush, palette, row, column);
  }
  label(brush, palette.soft, players.keys());
  present();
}

// Copies the buffer to the canvas and marks the selected pair.
function present() {
  const brush = canvas.getContext("2d");
  brush.setTransform(1, 0, 0, 1, 0, 0);
  brush.clearRect(0, 0, canvas.width, canvas.height);
  brush.drawImage(painted, 0, 0);
  if (!chosen) return;
  brush.scale(devicePixelRatio, devicePixelRatio);
  const { ink } = colours();
  label(brush, ink, [chosen.row, chosen.column]);
  outline(brush, ink, chosen.row, chosen.column, 2.5);
}

// Labels rows and columns with names, if they fit.
function label(brush, colour, numbers) {
  const { left, top, cell } = place;
  if (!left) return;
  brush.font = `${Math.min(12, cell - 1)}px ${getComputedStyle(document.body).fontFamily}`;
  brush.textBaseline = "middle";
  brush.fillStyle = colour;
  for (const number of numbers) {
    const middle = number * cell + cell / 2;
    brush.textAlign = "right";
    brush.fillText(fitting(brush, players[number].name, `  ${number + 1}`, left - 8), left - 6, top + middle);
    brush.save();
    brush.translate(left + middle, top - 6);
    brush.rotate(-Math.PI / 2);
    brush.textAlign = "left";
    brush.fillText(fitting(brush, players[number].name, "", top - 10), 0, 0);
    brush.restore();
  }
}

// A name and its number, isolated for right-to-left scripts. Long names are cut in the middle, because names of snapshots
// differ at the end.
function fitting(brush, name, number, width) {
  const letters = [...name];
  for (let kept = letters.length; kept > 0; kept -= 1) {
    const text = `\u2068${kept < letters.length ? shortened(letters, kept) : name}\u2069${number}`;
    if (brush.measureText(text).width <= width) return text;
  }
  return number;
}

function shortened(letters, kept) {
  const end = Math.floor(kept / 2);
  return `${letters.slice(0, kept - end).join("")}…${letters.slice(letters.length - end).join("")}`;
}

function paint(brush, palette, row, column) {
  const result = pair(row, column);
  if (!result) return;
  const { left, top, cell } = place;
  const inset = cell * GAP;
  const [x, y, side] = [left + column * cell + inset, top + row * cell + inset, cell - 2 * inset];
  const strength = (2 * Math.abs(result.winRate - 0.5)) ** STRENGTH_POWER;
  const sure = result.matches ? Math.min(1, FAINTEST + (1 - FAINTEST) * Math.sqrt(result.matches / SURE_FROM)) : FAINTEST;
  brush.globalAlpha = 0.08;
  brush.fillStyle = palette.soft;
  brush.fillRect(x, y, side, side);
  brush.globalAlpha = sure * strength;
  brush.fillStyle = result.winRate >= 0.5 ? palette.wins : palette.losses;
  brush.fillRect(x, y, side, side);
  brush.globalAlpha = 1;
  if (!result.matches) hatch(brush, palette.soft, x, y, side);
  if (size <= VALUED_MAX) write(brush, sure * strength < DARK_FROM ? palette.ink : palette.sheet, result.winRate, x + side / 2, y + side / 2);
  if (result.byRatings != null) corner(brush, palette.ink, x, y, side);
  if (marked.has(`${row},${column}`)) outline(brush, palette.ink, row, column, 2);
}

// Writes a win rate in per cent.
function write(brush, colour, winRate, x, y) {
  brush.font = `${Math.min(13, place.cell * 0.42)}px ${getComputedStyle(document.body).fontFamily}`;
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  brush.fillStyle = colour;
  brush.fillText(Math.round(100 * winRate), x, y);
}

function hatch(brush, colour, x, y, side) {
  brush.strokeStyle = colour;
  brush.globalAlpha = size <= VALUED_MAX ? 0.25 : 0.5; // fainter below a number
  brush.lineWidth = 0.75;
  brush.beginPath();
  brush.moveTo(x, y + side);
  brush.lineTo(x + side, y);
  brush.stroke();
  brush.globalAlpha = 1;
}

// Marks the upper right corner of a cell.
function corner(brush, colour, x, y, side) {
  brush.fillStyle = colour;
  brush.beginPath();
  brush.moveTo(x + side * (1 - CORNER), y);
  brush.lineTo(x + side, y);
  brush.lineTo(x + side, y + side * CORNER);
  brush.fill();
}

function outline(brush, colour, row, column, width) {
  const { left, top, cell } = place;
  brush.strokeStyle = colour;
  brush.lineWidth = Math.min(width, cell / 3);
  const half = brush.lineWidth / 2;
  brush.strokeRect(left + column * cell + half, top + row * cell + half, cell - 2 * half, cell - 2 * half);
}

// --- selection ---

function choose(next) {
  if (next?.row === chosen?.row && next?.column === chosen?.column) return;
  chosen = next;
  present();
  readout.replaceChildren(...(chosen ? description() : [hint]));
  for (const [number, row] of rows.entries()) row.classList.toggle("at", chosen?.row === number);
}

function description() {
  const [one, other] = [players[chosen.row], players[chosen.column]];
  const result = pair(chosen.row, chosen.column);
  const name = document.createElement("strong");
  if (!result) {
    name.textContent = one.name;
    return [name];
  }
  name.textContent = `${one.name} against ${other.name}: ${percent(result.winRate)}`;
  const address = headToHead(one, other);
  const link = document.createElement(address ? "a" : "span");
  if (address) link.href = address;
  link.textContent = address ? "Head to head" : "";
  if (!result.matches) return [name, " predicted, because they have not played each other. ", link];
  link.textContent = `${result.matches.toLocaleString("en")} ${result.matches === 1 ? "match" : "matches"}`;
  const interval = `, 95 % interval ${percent(result.low)} to ${percent(result.high)}.`;
  if (result.byRatings == null) return [name, " in ", link, interval];
  return [name, " in ", link, interval, ` Ratings alone predict ${percent(result.byRatings)}.`];
}

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

// A copy has such a page of some pairs only, and null stands for the others.
function headToHead(one, other) {
  if (!COPIED) return `/players/${one.id}/against/${other.id}`;
  return document.querySelector(`a[data-pair="${one.id},${other.id}"][href]`)?.href ?? null;
}

function under(event) {
  const column = Math.floor((event.offsetX - place.left) / place.cell);
  const row = Math.floor((event.offsetY - place.top) / place.cell);
  const inside = (number) => number >= 0 && number < size;
  return inside(row) && inside(column) ? { row, column } : null;
}

function open() {
  if (!chosen || !pair(chosen.row, chosen.column)) return;
  const address = headToHead(players[chosen.row], players[chosen.column]);
  if (address) location.assign(address);
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function step(event) {
  if (event.key === "Enter") open();
  const by = STEPS[event.key];
  if (!by || !cells) return;
  event.preventDefault();
  const within = (number) => Math.min(Math.max(number, 0), size - 1);
  const from = chosen ?? { row: 0, column: 0 };
  choose({ row: within(from.row + by[0]), column: within(from.column + by[1]) });
}

function mark(button) {
  const circle = button.dataset.circle.split(",").map(Number);
  const pressed = button.getAttribute("aria-pressed") !== "true";
  for (const each of document.querySelectorAll("[data-circle]")) each.setAttribute("aria-pressed", each === button && pressed);
  show(pressed ? circle : []);
}

function show(circle) {
  marked = new Set(circle.map((player, number) => `${player},${circle[(number + 1) % circle.length]}`));
  draw();
}

async function begin() {
  const first = document.querySelector("[data-circle]");
  const answer = await ask(canvas.dataset.cells);
  if (!answer) {
    canvas.dataset.failed = "";
    return;
  }
  cells = await answer.json();
  let met = 0;
  cells.met = cells.matches.map((count) => (count ? met++ : null)); // where the ends of a pair's interval are
  show(first ? first.dataset.circle.split(",").map(Number) : []);
  canvas.dataset.drawn = "";
  canvas.rows = pairs; // for downloads.js
  canvas.addEventListener("pointermove", (event) => choose(under(event)));
  canvas.addEventListener("pointerleave", () => choose(null));
  canvas.addEventListener("click", (event) => {
    if (event.pointerType === "touch") choose(under(event));
    else open();
  });
  canvas.addEventListener("keydown", step);
  new ResizeObserver(() => draw()).observe(canvas.parentElement);
  addEventListener("league:theme", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-circle]");
  if (button) mark(button);
});
for (const kind of ["period", "promote", "retire", "reinstate", "quarantine"]) {
  document.addEventListener(`league:${kind}`, ({ detail }) => {
    if (detail.environment === canvas.dataset.environment) document.getElementById("payoff-news").hidden = false;
  });
}

await begin();
