// Draws effects: the zone, beams, shells, smoke, explosions.
import { BLAST, DEEP_TEAMS, ECCM, HOLDERS, NEUTRAL, SMOKE, TEXT, WEAPONS, mix } from "./palette.js";

const TURN = 2 * Math.PI;
const ZONE_ARCS = 24;
const SMOKE_RADIUS_M = 4;
// Positions and sizes of a cloud's circles, relative to its radius.
const PUFFS = [
  [0, 0, 0.75],
  [0.42, 0.1, 0.55],
  [-0.38, 0.2, 0.58],
  [0.1, -0.44, 0.55],
  [-0.12, 0.46, 0.5],
  [0.3, 0.4, 0.4],
];
const BLAST_S = 1;
const BLAST_M = 4.5;
const INTERCEPT_S = 0.5;
const INTERCEPT_M = 5.5;

// A disc in the holder's colour with a ring of arcs; contested, they alternate.
export function drawZone(context, camera, radiusM, holder) {
  const [x, y] = camera.toPixel(0, 0);
  const radius = radiusM * camera.scale;
  const held = { home: DEEP_TEAMS[0], away: DEEP_TEAMS[1] }[holder];
  fillDisc(context, x, y, radius, held ?? NEUTRAL, held ? 0.42 : 0.13);
  context.lineWidth = 2.4;
  const step = TURN / ZONE_ARCS;
  for (let arc = 0; arc < ZONE_ARCS; arc += 1) {
    context.strokeStyle = HOLDERS[holder][arc % 2];
    context.beginPath();
    context.arc(x, y, radius, arc * step, (arc + 0.72) * step);
    context.stroke();
  }
}

// A beam from one mech to another. A flamer's becomes wider, and a painter's is dashed.
export function drawBeam(context, camera, beam, scene) {
  const start = camera.toPixel(scene.mechs[beam.shooter].x, scene.mechs[beam.shooter].y);
  const end = camera.toPixel(scene.mechs[beam.target].x, scene.mechs[beam.target].y);
  const strength = 1 - 0.55 * scene.progress;
  const colour = WEAPONS[beam.weapon] ?? BLAST;
  if (beam.weapon === "flamer") {
    for (const share of [0.3, 0.5, 0.7, 0.9]) {
      fillDisc(context, ...between(start, end, share), 7 * share, colour, 0.55 * strength);
    }
  } else if (beam.weapon === "painter") {
    context.setLineDash([6, 6]);
    line(context, start, end, colour, 1.6, strength);
    context.setLineDash([]);
  } else {
    line(context, start, end, colour, 5, 0.4 * strength);
    line(context, start, end, mix(colour, TEXT, 0.5), 1.6, strength);
  }
}

// A shell with its trail.
export function drawShell(context, camera, shell) {
  const here = camera.toPixel(shell.x, shell.y);
  const there = camera.toPixel(shell.fromX, shell.fromY);
  const colour = WEAPONS[shell.weapon] ?? BLAST;
  if (shell.weapon === "missile") {
    for (let puff = 1; puff <= 5; puff += 1) {
      fillDisc(context, ...between(here, there, puff / 5), 1 + 0.6 * puff, SMOKE, 0.5 - 0.08 * puff);
    }
    fillDisc(context, ...here, 4, WEAPONS.flamer, 0.8);
    fillDisc(context, ...here, 2.2, colour, 1);
    return;
  }
  const width = shell.weapon === "gauss" ? 2.8 : 2;
  line(context, between(here, there, 0.6), here, colour, width, 0.55);
  fillDisc(context, ...here, width, colour, 1);
}

export function drawSmoke(context, camera, cloud) {
  for (const [across, up, size] of PUFFS) {
    const place = camera.toPixel(cloud.x + SMOKE_RADIUS_M * across, cloud.y + SMOKE_RADIUS_M * up);
    fillDisc(context, ...place, SMOKE_RADIUS_M * size * camera.scale, SMOKE, 0.34 * cloud.density);
  }
}

// Sparks on a mech that is hit, more for more damage.
export function drawImpact(context, camera, mech, scene) {
  const place = camera.toPixel(mech.x, mech.y);
  const reach = 3 + 0.9 * Math.sqrt(mech.hurt);
  for (let spark = 0; spark < 6; spark += 1) {
    const angle = (TURN * spark) / 6 + 0.65 * (scene.frame % 7);
    const tip = [place[0] + 1.8 * reach * Math.cos(angle), place[1] + 1.8 * reach * Math.sin(angle)];
    line(context, between(place, tip, 0.45), tip, BLAST, 1.2, 0.95 * (1 - scene.progress));
  }
}

// Mechs that were just destroyed, and missiles that were just shot down.
export function drawBlasts(context, camera, scene) {
  for (const event of scene.recent) {
    const place = camera.toPixel(scene.mechs[event.mech]?.x ?? 0, scene.mechs[event.mech]?.y ?? 0);
    if (event.kind === "kill" && event.ageS < BLAST_S) drawBlast(context, camera, place, event.ageS / BLAST_S);
    if (event.kind === "intercept" && event.ageS < INTERCEPT_S) {
      const share = event.ageS / INTERCEPT_S;
      ring(context, ...place, INTERCEPT_M * camera.scale * (0.5 + 0.5 * share), ECCM, 1.5, 0.8 * (1 - share));
    }
  }
}

// The trail of a mech, fading with age.
export function drawTrail(context, camera, places, colour) {
  places.forEach(([x, y], each) => {
    if (each % 2) fillDisc(context, ...camera.toPixel(x, y), 1.6, colour, (0.7 * each) / places.length);
  });
}

export function drawChosen(context, x, y, radius) {
  ring(context, x, y, radius, TEXT, 1.6, 0.95);
}

function drawBlast(context, camera, place, share) {
  const radius = BLAST_M * camera.scale;
  const fire = mix(BLAST, WEAPONS.flamer, Math.min(1, 1.6 * share));
  fillDisc(context, ...place, radius * (0.35 + 0.35 * share), fire, 0.85 * (1 - share));
  fillDisc(context, ...place, 0.25 * radius * (1 - share), TEXT, 1 - share);
  ring(context, ...place, radius * (0.3 + 0.9 * Math.sqrt(share)), BLAST, 2, 0.9 * (1 - share));
}

function fillDisc(context, x, y, radius, colour, opacity) {
  context.globalAlpha = opacity;
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, y, radius, 0, TURN);
  context.fill();
  context.globalAlpha = 1;
}

function ring(context, x, y, radius, colour, width, opacity) {
  context.globalAlpha = opacity;
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.arc(x, y, radius, 0, TURN);
  context.stroke();
  context.globalAlpha = 1;
}

function line(context, start, end, colour, width, opacity) {
  context.globalAlpha = opacity;
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(...start);
  context.lineTo(...end);
  context.stroke();
  context.globalAlpha = 1;
}

function between(start, end, share) {
  return [start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share];
}
