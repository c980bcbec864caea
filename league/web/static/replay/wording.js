// Texts of events, equal to those of the arena. Each part has the side whose colour it takes.
const MISHAPS = { fall: "falls", shutdown: "shuts down", legs: "loses its legs" };
const QUIET = new Set(["paint", "missile", "smoke"]); // too many to read
export const SIDES = ["home", "away"];

export const sideOf = (header, mech) => Number(mech >= header.agents_per_side[0]);

const missiles = (count) => (count === 1 ? "a missile" : `${count} missiles`);

const numberOf = (header, mech) => mech - sideOf(header, mech) * header.agents_per_side[0] + 1;

export const nameOf = (header, mech) => `${header.roles[mech]} ${numberOf(header, mech)}`;

export const shortName = (header, mech) => `${header.roles[mech][0].toUpperCase()}${numberOf(header, mech)}`;

export function clock(seconds) {
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds) % 60).padStart(2, "0")}`;
}

export const isLoud = (event) => !QUIET.has(event.kind);

// A sentence as parts [text, side]. Side is null for text without a side's colour.
export function describe(event, header) {
  const mech = (number) => [`${SIDES[sideOf(header, number)]} ${nameOf(header, number)}`, sideOf(header, number)];
  const plain = (text) => [text, null];
  switch (event.kind) {
    case "kill": {
      if (event.by === null) return [mech(event.mech), plain(" is destroyed by the ground")];
      const helpers = event.assists.length ? [plain(`, ${event.assists.length} helped`)] : [];
      return [mech(event.by), plain(" destroys "), mech(event.mech), ...helpers];
    }
    case "fall":
    case "shutdown":
    case "legs":
      return [mech(event.mech), plain(` ${MISHAPS[event.kind]}`)];
    case "paint":
      return [mech(event.by), plain(" paints "), mech(event.mech)];
    case "intercept":
      return [mech(event.mech), plain(" shoots down "), plain(missiles(event.missiles))];
    case "zone":
      return describeZone(event);
    case "end":
      return describeOutcome(header);
    default:
      return [mech(event.mech), plain(` launches ${event.kind === "missile" ? "a missile" : "smoke"}`)];
  }
}

export function describeOutcome({ outcome }) {
  if (outcome.score === 0.5) return [[`draw, by ${outcome.reason}`, null]];
  const winner = Number(outcome.score < 0.5);
  return [[`${SIDES[winner]} wins`, winner], [`, by ${outcome.reason}`, null]];
}

function describeZone({ before, after }) {
  if (SIDES.includes(after)) return [[after, SIDES.indexOf(after)], [" takes the zone", null]];
  if (after === "nobody" && SIDES.includes(before)) {
    return [[before, SIDES.indexOf(before)], [" leaves the zone", null]];
  }
  return [[after === "contested" ? "the zone is contested" : "the zone is empty", null]];
}
