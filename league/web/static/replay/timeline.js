// The strip above the slider: the holder of the zone over time (home above, away below, both if contested), and a mark for
// every kill, on the side of the killer.
import { TEAMS } from "./palette.js";
import { sideOf, SIDES } from "./wording.js";

const LANE_PX = 4;

export function drawTimeline(canvas, recording) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  const context = canvas.getContext("2d");
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  const { holders, events, header, length } = recording;
  const step = width / Math.max(length - 1, 1);
  holders.forEach((holder, frame) => {
    SIDES.forEach((side, number) => {
      if (!frame || ![side, "contested"].includes(holder)) return;
      context.fillStyle = TEAMS[number];
      context.fillRect((frame - 1) * step, height / 2 + (number - 1) * LANE_PX, step + 0.5, LANE_PX - 0.5);
    });
  });
  for (const { kind, at, mech } of events) {
    if (kind !== "kill") continue;
    const loser = sideOf(header, mech);
    context.fillStyle = TEAMS[1 - loser];
    const up = loser === 1 ? -1 : 1;
    triangle(context, at * step, height / 2 + up * (LANE_PX + 1), up, height / 2 - LANE_PX - 2);
  }
}

// A triangle that points at the strip from one side.
function triangle(context, x, y, away, size) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - size / 1.6, y + away * size);
  context.lineTo(x + size / 1.6, y + away * size);
  context.fill();
}
