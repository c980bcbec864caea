// Renders the terrain once, lit from the upper left, with shadows of steps.
import { MATERIAL_NAMES } from "./decode.js";
import { channels, HIGH_GROUND, LOW_GROUND, MATERIALS } from "./palette.js";

const LARGEST_PX = 1200;
const CELL_PX = [4, 12];
const HIGHEST_M = 9; // as bright as the ground gets
const SHADOW_REACH = 0.4; // cells that the shadow of a step of a metre reaches
const LONGEST_SHADOW = 2;
const SHADE = 0.66;
const EDGE_LIGHT = 1.16;
const EDGE_DARK = 0.74;
const RULE_CELLS = 10;
const RULE = 0.94;

// Colour change of a material at a pixel, from noise in about [-1, 1] with a period in pixels.
const TEXTURES = {
  water: (x, y, noise) => {
    const ripple = Math.sin(0.45 * y + 2.2 * Math.sin(0.06 * x) + 2 * noise(12, x, y));
    return tint(14 * Math.max(ripple, 0.2), 0.5, 1, 1.1);
  },
  lava: (x, y, noise) => tint(Math.max(1 - Math.abs(noise(14, x, y)) / 0.22, 0), 105, 96, 30),
  debris: (x, y, noise) => tint(26 * Math.sign(noise(3, x, y)), 1, 0.9, 0.75),
  foliage: (x, y, noise) => tint(20 * (noise(9, x, y) + 0.5 * noise(4, x, y)), 0.7, 1, 0.6),
  glass: (x, y) => tint((x + y) % 12 < 3 ? 38 : 0, 1, 1, 1),
};

// A canvas with the whole map, north up; `pixels` is the edge of a cell.
export function drawGround(battlefield) {
  const ground = battlefield.ground ?? flat(battlefield.side);
  const pixels = Math.min(Math.max(Math.floor(LARGEST_PX / ground.cells), CELL_PX[0]), CELL_PX[1]);
  const size = ground.cells * pixels;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  const picture = context.createImageData(size, size);
  paint(picture.data, ground, pixels);
  context.putImageData(picture, 0, 0);
  return canvas;
}

function flat(side) {
  const level = new Array(side * side).fill(0);
  return { cells: side, solid: level, material: level };
}

function paint(data, ground, pixels) {
  const { cells } = ground;
  const size = cells * pixels;
  const cellOf = (x, y) => (cells - 1 - Math.floor(y / pixels)) * cells + Math.floor(x / pixels);
  const noise = noises();
  const [low, high] = [channels(LOW_GROUND), channels(HIGH_GROUND)];
  const materials = MATERIAL_NAMES.map((name) => MATERIALS[name] && channels(MATERIALS[name]));
  for (let y = 0, at = 0; y < size; y += 1) {
    for (let x = 0; x < size; x += 1, at += 4) {
      const cell = cellOf(x, y);
      const material = ground.material[cell];
      const light = lightAt(ground.solid, cellOf, x, y, pixels) * rule(x, y, pixels);
      const base = materials[material];
      const share = Math.min(ground.solid[cell] / HIGHEST_M, 1) ** 0.7;
      const grain = base ? 0 : 4 * noise(6, x, y);
      const added = base ? TEXTURES[MATERIAL_NAMES[material]](x, y, noise) : [grain, grain, grain];
      for (let each = 0; each < 3; each += 1) {
        const plain = base ? base[each] : low[each] + (high[each] - low[each]) * share;
        data[at + each] = (plain + added[each]) * light;
      }
      data[at + 3] = 255;
    }
  }
}

// Brightness: lower in shadows, higher on edges that face the light.
function lightAt(solid, cellOf, x, y, pixels) {
  const height = solid[cellOf(x, y)];
  const rise = (distance) => solid[cellOf(Math.max(x - distance, 0), Math.max(y - distance, 0))] - height;
  let light = 1;
  for (let distance = pixels; distance <= LONGEST_SHADOW * pixels; distance += pixels) {
    for (const step of [distance - pixels + 1, distance]) {
      if (rise(step) > step / (SHADOW_REACH * pixels)) light = SHADE;
    }
  }
  const next = rise(1);
  if (next > 0) return light * EDGE_DARK;
  return next < 0 ? EDGE_LIGHT : light;
}

function rule(x, y, pixels) {
  const step = RULE_CELLS * pixels;
  return (x && x % step === 0 ? RULE : 1) * (y && y % step === 0 ? RULE : 1);
}

function tint(strength, red, green, blue) {
  return [strength * red, strength * green, strength * blue];
}

// Deterministic value noise: fixed values at grid corners, interpolated in between.
function noises() {
  const corner = (grain, column, row) => {
    const mixed = Math.sin(column * 127.1 + row * 311.7 + grain * 74.7) * 43758.5453;
    return 2 * (mixed - Math.floor(mixed)) - 1;
  };
  const smooth = (share) => share * share * (3 - 2 * share);
  return (grain, x, y) => {
    const [column, row] = [Math.floor(x / grain), Math.floor(y / grain)];
    const [across, down] = [smooth(x / grain - column), smooth(y / grain - row)];
    const top = corner(grain, column, row) * (1 - across) + corner(grain, column + 1, row) * across;
    const bottom = corner(grain, column, row + 1) * (1 - across) + corner(grain, column + 1, row + 1) * across;
    return top * (1 - down) + bottom * down;
  };
}
