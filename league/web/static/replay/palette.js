// Colours of a replay, those of arena/render/palette.py: home is blue, away is orange.
export const TEAMS = ["#56aaf5", "#f59826"];
export const DEEP_TEAMS = ["#1c4a7a", "#7a4208"];
export const NEUTRAL = "#a8acb2";
export const HOLDERS = {
  home: [TEAMS[0], TEAMS[0]],
  away: [TEAMS[1], TEAMS[1]],
  contested: TEAMS,
  nobody: [NEUTRAL, NEUTRAL],
};

export const TEXT = "#e2e5e9";
export const INK = "#0c0d10";
export const WRECKAGE = "#262424";
export const SHUTDOWN = "#6e727a";
export const HEAT = "#ff4828";
export const LOW = "#ffd65a";
export const PAINT = "#e85cd6";
export const ECM = "#b07aff";
export const ECCM = "#48d6aa";
export const SMOKE = "#bec2c8";
export const BLAST = "#fff0be";

export const WEAPONS = {
  laser: "#ff4a62",
  flamer: "#ff942e",
  missile: "#fff4dc",
  gauss: "#96f0ff",
  autocannon: "#ffe26e",
  painter: PAINT,
};

export const LOW_GROUND = "#424642";
export const HIGH_GROUND = "#b0aa9a";
export const MATERIALS = {
  water: "#224e58",
  lava: "#962416",
  debris: "#5c5042",
  foliage: "#325436",
  glass: "#96bec4",
};

export function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

export function mix(first, second, share) {
  const ends = channels(second);
  const mixed = channels(first).map((value, each) => Math.round(value + (ends[each] - value) * share));
  return `rgb(${mixed.join(" ")})`;
}
