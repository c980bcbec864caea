// A scene on a canvas, from the ground up.
import { drawGround } from "./battlefield.js";
import { drawBeam, drawBlasts, drawChosen, drawImpact, drawShell, drawSmoke, drawTrail, drawZone } from "./effects.js";
import { drawMarks, drawMech, drawWreck, radiusOf } from "./mechs.js";
import { TEAMS } from "./palette.js";
import { shortName } from "./wording.js";

const TRAIL_FRAMES = 32;

export class Painter {
  constructor(canvas, stage, camera, calm) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.stage = stage;
    this.camera = camera;
    this.calm = calm; // nothing flashes
    this.ground = drawGround(stage.recording.battlefield);
    this.backdrop = document.createElement("canvas");
    this.backdropOf = "";
    this.groundOf = "";
  }

  // Matches the canvas resolution to the device pixels.
  fit() {
    this.camera.size = this.canvas.clientWidth;
    const pixels = Math.round(this.camera.size * devicePixelRatio);
    if (this.canvas.width !== pixels) this.canvas.width = this.canvas.height = pixels;
  }

  draw(scene, chosen) {
    const { context, camera } = this;
    const { battlefield, header, hulls } = this.stage.recording;
    const ratio = this.canvas.width / camera.size;
    context.setTransform(1, 0, 0, 1, 0, 0);
    this.#drawGround(ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawZone(context, camera, battlefield.zone_radius / 100, scene.holder);
    const living = scene.mechs.filter(({ alive }) => alive);
    for (const mech of scene.mechs) if (!mech.alive) drawWreck(context, camera, mech, hulls[mech.role]);
    if (chosen !== null) this.#drawTrail(scene, chosen);
    for (const mech of living) drawMech(context, camera, mech, hulls[mech.role]);
    for (const cloud of scene.clouds) drawSmoke(context, camera, cloud);
    for (const beam of scene.beams) drawBeam(context, camera, beam, scene);
    for (const shell of scene.shells) drawShell(context, camera, shell);
    if (!this.calm) {
      for (const mech of scene.mechs) if (mech.hurt > 0) drawImpact(context, camera, mech, scene);
      drawBlasts(context, camera, scene);
    }
    for (const mech of living) drawMarks(context, camera, mech, hulls[mech.role], shortName(header, mech.mech));
    if (chosen !== null) this.#drawChosen(scene.mechs[chosen]);
  }

  // The terrain as the camera sees it. Scaling is the most expensive step, so it is cached while the camera rests.
  #drawGround(ratio) {
    const { side, size, scale, x, y } = this.camera;
    const [left, top] = this.camera.toPixel(-side / 2, side / 2);
    const scaled = [this.ground, left * ratio, top * ratio, side * scale * ratio, side * scale * ratio];
    const wanted = [x, y, scale, size, ratio].join(" ");
    const rests = this.groundOf === wanted;
    this.groundOf = wanted;
    if (!rests) {
      this.context.drawImage(...scaled);
      return;
    }
    if (this.backdropOf !== wanted) {
      this.backdropOf = wanted;
      this.backdrop.width = this.backdrop.height = this.canvas.width;
      this.backdrop.getContext("2d", { alpha: false }).drawImage(...scaled);
    }
    this.context.drawImage(this.backdrop, 0, 0);
  }

  #drawTrail(scene, chosen) {
    const places = this.stage.trail(chosen, scene.frame, TRAIL_FRAMES);
    drawTrail(this.context, this.camera, places, TEAMS[this.stage.sides[chosen]]);
  }

  #drawChosen(mech) {
    const radius = radiusOf(this.camera, this.stage.recording.hulls[mech.role]);
    drawChosen(this.context, ...this.camera.toPixel(mech.x, mech.y), 2.1 * radius);
  }
}
