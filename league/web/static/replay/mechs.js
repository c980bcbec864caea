// Draws mechs from above. Home has discs and away diamonds, so that sides differ by more than colour.
import { FLAG } from "./decode.js";
import { shapeOf } from "./hulls.js";
import { ECCM, ECM, HEAT, INK, LOW, PAINT, SHUTDOWN, TEAMS, TEXT, WRECKAGE, mix } from "./palette.js";

export const LOW_HP = 0.35;
const WARM = 0.5; // share of the heat capacity from which a mech glows
const LEAST_PX = 14; // mechs are drawn larger than they are where a metre has fewer pixels
const FALLEN_LENGTH = 0.65;
const BAR_PX = [26, 3.5];
const BARS_FOR_PX = 720; // on larger maps bars and labels are larger, too
const LABELS_FROM_PX = 6; // half a hull's width

const has = (mech, flag) => (mech.flags & flag) !== 0;

// Half a hull's width in pixels.
export function radiusOf(camera, hull) {
  return (hull.width / 200) * Math.max(camera.scale, Math.sqrt(camera.scale * LEAST_PX));
}

export function drawWreck(context, camera, mech, hull) {
  const [x, y] = camera.toPixel(mech.x, mech.y);
  const radius = radiusOf(camera, hull);
  if (has(mech, FLAG.wreck)) {
    inPlace(context, mech, [x, y], radius, (shape) => {
      context.fillStyle = WRECKAGE;
      context.fill(shape.hull);
      stroke(context, shape.hull, INK, 1.5 / radius);
    });
  } else {
    context.fillStyle = "rgb(12 13 16 / 30%)";
    disc(context, x, y, 0.8 * radius);
  }
  const reach = radius * (has(mech, FLAG.wreck) ? 0.5 : 0.35);
  context.strokeStyle = mix(WRECKAGE, TEAMS[mech.side], 0.55);
  context.lineWidth = 1.5;
  context.beginPath();
  for (const slope of [1, -1]) {
    context.moveTo(x - reach, y - slope * reach);
    context.lineTo(x + reach, y + slope * reach);
  }
  context.stroke();
}

export function drawMech(context, camera, mech, hull) {
  const [x, y] = camera.toPixel(mech.x, mech.y);
  const radius = radiusOf(camera, hull);
  drawBase(context, x, y, 1.55 * radius, mech.side);
  drawGlow(context, x, y, radius, mech.heat);
  const drop = 1.5 + mech.z;
  inPlace(context, mech, [x + drop, y + drop], radius, (shape) => {
    context.fillStyle = "rgb(12 13 16 / 45%)";
    context.fill(shape.hull);
  });
  const colour = colourOf(mech);
  inPlace(context, mech, [x, y], radius, (shape) => {
    stroke(context, shape.barrels, INK, Math.max(1.5 / radius, 0.2));
    context.fillStyle = colour;
    context.fill(shape.hull);
    stroke(context, shape.hull, INK, 1.4 / radius);
    context.fillStyle = mix(TEAMS[mech.side], TEXT, 0.35);
    context.fill(shape.plates);
    context.fillStyle = mix(TEAMS[mech.side], INK, 0.75);
    disc(context, ...shape.cockpit, 0.22);
  });
}

// Status marks of a mech: painted, ECM, ECCM, and bars with hit points and heat.
export function drawMarks(context, camera, mech, hull, label) {
  const [x, y] = camera.toPixel(mech.x, mech.y);
  const radius = radiusOf(camera, hull);
  if (has(mech, FLAG.ecm)) drawBrokenRing(context, x, y, 1.8 * radius, ECM);
  if (has(mech, FLAG.eccm)) drawBrokenRing(context, x, y, 1.8 * radius, ECCM);
  if (has(mech, FLAG.painted)) drawBrackets(context, x, y, 1.7 * radius, 0.55 * radius);
  const size = Math.max(1, camera.size / BARS_FOR_PX);
  context.save();
  context.translate(x, y - 1.55 * radius - 12 * size);
  context.scale(size, size);
  drawBars(context, mech, radius > LABELS_FROM_PX ? label : "");
  context.restore();
}

function colourOf(mech) {
  const team = TEAMS[mech.side];
  if (has(mech, FLAG.shutdown)) return mix(team, SHUTDOWN, 0.8);
  return has(mech, FLAG.fallen) ? mix(team, INK, 0.4) : team;
}

// Draws in units of the mech's own size. See hulls.js.
function inPlace(context, mech, [x, y], radius, draw) {
  context.save();
  context.translate(x, y);
  context.rotate(-mech.angle);
  context.scale(radius * (has(mech, FLAG.fallen) ? FALLEN_LENGTH : 1), -radius);
  draw(shapeOf(mech.role));
  context.restore();
}

function drawBase(context, x, y, radius, side) {
  context.beginPath();
  if (side === 0) context.arc(x, y, radius, 0, 2 * Math.PI);
  else diamond(context, x, y, 1.15 * radius);
  context.globalAlpha = 0.2;
  context.fillStyle = TEAMS[side];
  context.fill();
  context.globalAlpha = 0.75;
  context.strokeStyle = TEAMS[side];
  context.lineWidth = 1.2;
  context.stroke();
  context.globalAlpha = 1;
}

// Heat as a red light from below.
function drawGlow(context, x, y, radius, heat) {
  const strength = Math.min(Math.max((heat - WARM) / (1 - WARM), 0), 1.2);
  if (!strength) return;
  const light = context.createRadialGradient(x, y, 0.6 * radius, x, y, 2 * radius);
  light.addColorStop(0, HEAT);
  light.addColorStop(1, "rgb(255 72 40 / 0%)");
  context.globalAlpha = Math.min(0.75 * strength, 0.9);
  context.fillStyle = light;
  disc(context, x, y, 2 * radius);
  context.globalAlpha = 1;
}

function drawBrokenRing(context, x, y, radius, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1.6;
  for (let start = 0; start < 6; start += 1) {
    context.beginPath();
    context.arc(x, y, radius, (start * Math.PI) / 3, (start * Math.PI) / 3 + 0.66);
    context.stroke();
  }
}

function drawBrackets(context, x, y, reach, arm) {
  context.strokeStyle = PAINT;
  context.lineWidth = 1.6;
  context.beginPath();
  for (const right of [-1, 1]) {
    for (const down of [-1, 1]) {
      const [left, top] = [x + right * reach, y + down * reach];
      context.moveTo(left - right * arm, top);
      context.lineTo(left, top);
      context.lineTo(left, top - down * arm);
    }
  }
  context.stroke();
}

// Around the canvas origin.
function drawBars(context, mech, label) {
  const [width, height] = BAR_PX;
  const left = -width / 2;
  context.fillStyle = "rgb(12 13 16 / 85%)";
  context.fillRect(left - 1, -1, width + 2, height + 5);
  context.fillStyle = mech.hp < LOW_HP ? LOW : TEXT;
  context.fillRect(left, 0, Math.max(width * mech.hp, 1), height);
  context.fillStyle = HEAT;
  context.fillRect(left, height + 1, width * Math.min(mech.heat, 1), 2);
  if (!label) return;
  context.font = "600 10px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.lineWidth = 2.5;
  context.strokeStyle = INK;
  context.strokeText(label, left - 3, 3);
  context.fillStyle = TEAMS[mech.side];
  context.fillText(label, left - 3, 3);
}

function stroke(context, path, colour, width) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.lineJoin = "round";
  context.stroke(path);
}

function disc(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

function diamond(context, x, y, reach) {
  context.moveTo(x + reach, y);
  context.lineTo(x, y + reach);
  context.lineTo(x - reach, y);
  context.lineTo(x, y - reach);
  context.closePath();
}
