// The strip above the slider: who held the zone when, and a mark for every kill, up for home's and down for away's.
import { DEEP_TEAMS, NEUTRAL, TEAMS } from "./palette.js";
import { sideOf } from "./wording.js";

const COLOURS = { home: DEEP_TEAMS[0], away: DEEP_TEAMS[1], contested: NEUTRAL };

export function drawTimeline(canvas, recording) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  const context = canvas.getContext("2d");
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  const { holders, events, header, length } = recording;
  const step = width / Math.max(length - 1, 1);
  holders.forEach((holder, frame) => {
    if (!(holder in COLOURS) || !frame) return;
    context.fillStyle = COLOURS[holder];
    context.fillRect((frame - 1) * step, height / 2 - 3, step + 0.5, 6);
  });
  for (const { kind, at, mech } of events) {
    if (kind !== "kill") continue;
    const loser = sideOf(header, mech);
    context.fillStyle = TEAMS[1 - loser];
    triangle(context, at * step, loser === 1 ? height / 2 - 4 : height / 2 + 4, loser === 1 ? -1 : 1, height / 2 - 5);
  }
}

// Points at the strip from one side.
function triangle(context, x, y, away, size) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - size / 1.6, y + away * size);
  context.lineTo(x + size / 1.6, y + away * size);
  context.fill();
}
