// Decodes a recording into arrays. The format is in docs/reference/formats.md.
import { ask, COPIED } from "../ask.js";

export const FLAG = {
  alive: 1,
  shutdown: 2,
  fallen: 4,
  legless: 8,
  painted: 16,
  ecm: 32,
  eccm: 64,
  suppressed: 128,
  inZone: 256,
  wreck: 512,
};

export const MATERIAL_NAMES = ["plain", "water", "lava", "debris", "foliage", "glass"];

const VERSION = 1;
const TABLES = ["shells", "beams", "hits", "smoke"];

export async function fetchRecording(address) {
  const answer = await (COPIED ? ask(address) : fetch(address));
  if (!answer.ok) throw new Error(`the server returned status ${answer.status}`);
  return decode(await answer.json());
}

export function decode(recording) {
  const { version } = recording.header;
  if (version !== VERSION) throw new Error(`the recording has version ${version}, and this page supports version ${VERSION}`);
  return recording.kind === "mech" ? decodeMechs(recording) : recording;
}

function decodeMechs(recording) {
  const frames = {};
  for (const [name, column] of Object.entries(recording.frames)) {
    frames[name] = Array.isArray(column[0]) ? column.map(sum) : sum(column);
  }
  const length = frames.home_zone.length;
  const tables = Object.fromEntries(TABLES.map((name) => [name, decodeTable(recording[name], length)]));
  return { ...recording, ...tables, frames, length, holders: followZone(recording.events, length) };
}

// Row offsets by frame: the rows of frame f are `first[f]` to `first[f + 1]`, exclusive.
function decodeTable(table, length) {
  const frame = sum(table.frame);
  const first = new Int32Array(length + 1);
  for (const each of frame) first[each + 1] += 1;
  for (let each = 0; each < length; each += 1) first[each + 1] += first[each];
  return { ...table, frame, first };
}

function sum(differences) {
  const values = new Int32Array(differences.length);
  let total = 0;
  differences.forEach((difference, place) => {
    total += difference;
    values[place] = total;
  });
  return values;
}

// The side that scores in the zone, for every frame.
function followZone(events, length) {
  const holders = new Array(length).fill("nobody");
  for (const event of events) {
    if (event.kind === "zone") holders.fill(event.after, event.at);
  }
  return holders;
}
