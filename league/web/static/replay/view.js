// The replay of a match: connects playback, camera, drawing and controls.
import { Camera } from "./camera.js";
import { connectButtons, connectKeys, connectPointer, fillSpeeds, ZOOM } from "./controls.js";
import { fetchRecording } from "./decode.js";
import { Painter } from "./draw.js";
import { coloured, element } from "./elements.js";
import { Log } from "./log.js";
import { radiusOf } from "./mechs.js";
import { Playback } from "./playback.js";
import { Roster, stateOf } from "./roster.js";
import { Stage } from "./stage.js";
import { showSteps } from "./steps.js";
import { countUp } from "./tally.js";
import { drawTimeline } from "./timeline.js";
import { clock, describeOutcome, nameOf, SIDES } from "./wording.js";

const TAP_REACH_PX = 24;
const ZOOM_TO_FOLLOW = 2.2;

class View {
  constructor(root, recording) {
    this.root = root;
    this.stage = new Stage(recording);
    this.camera = new Camera(recording.battlefield.side);
    this.playback = new Playback(this.stage.last, this.stage.decisionS);
    this.canvas = this.#part("[data-battlefield]");
    this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.painter = new Painter(this.canvas, this.stage, this.camera, this.calm);
    this.tally = countUp(recording);
    this.roster = new Roster([...root.querySelectorAll("[data-roster]")], this.stage, this.tally, (mech) =>
      this.act("follow", mech === this.chosen ? null : mech),
    );
    this.log = new Log(this.#part("[data-log]"), this.stage, (frame) => this.act("seek", frame));
    this.chosen = null;
    this.told = "";
    this.before = null;
    this.due = false;
  }

  start() {
    const { header, length } = this.stage.recording;
    this.#part("[data-time]").max = length - 1;
    this.#part("[data-length]").textContent = clock(this.stage.last * this.stage.decisionS);
    fillSpeeds(this.#part("[data-speed]"));
    this.#fillFollow();
    this.#part("[data-outcome]").append(...coloured(describeOutcome(header)));
    const act = (name, value) => this.act(name, value);
    connectButtons(this.root, act);
    connectKeys(this.root, act);
    connectPointer(this.canvas, this.camera, act);
    new ResizeObserver(() => this.#resize()).observe(this.canvas);
    for (const part of this.root.querySelectorAll("[data-mechs]")) part.hidden = false;
    this.#resize();
  }

  act(name, value) {
    const { playback, camera } = this;
    const deeds = {
      toggle: () => playback.toggle(),
      back: () => playback.step(-this.#frames(value)),
      forward: () => playback.step(this.#frames(value)),
      start: () => playback.seek(0),
      end: () => playback.seek(playback.last),
      seek: () => playback.seek(value),
      speed: () => (playback.speed = value),
      slower: () => playback.change(-1),
      faster: () => playback.change(1),
      zoomIn: () => camera.zoomBy(ZOOM),
      zoomOut: () => camera.zoomBy(1 / ZOOM),
      zoom: () => camera.zoomBy(...value),
      pan: () => this.#pan(...value),
      tap: () => this.#tap(...value),
      wholeMap: () => this.#follow(null, true),
      follow: () => this.#follow(value),
      followNext: () => this.#follow(this.#next(1)),
      followBefore: () => this.#follow(this.#next(-1)),
    };
    deeds[name]();
    this.root.dataset.begun = "";
    this.#draw();
    if (!playback.playing && name !== "pan" && name !== "zoom") this.#announce();
  }

  // --- drawing ---

  #draw() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame((now) => this.#paint(now));
  }

  #paint(now) {
    this.due = false;
    const elapsedS = this.before === null ? 0 : Math.min((now - this.before) / 1000, 0.25);
    this.playback.advance(elapsedS);
    const scene = this.stage.at(this.playback.moment);
    const moving = this.#followOn(scene, elapsedS);
    this.painter.draw(scene, this.chosen);
    this.canvas.parentElement.toggleAttribute("data-zoomed", this.camera.zoom > 1);
    this.#tell(scene);
    const going = this.playback.playing || moving;
    this.before = going ? now : null;
    if (going) this.#draw();
  }

  #followOn(scene, elapsedS) {
    if (this.chosen === null) return false;
    const { x, y } = scene.mechs[this.chosen];
    return this.camera.follow(x, y, this.calm ? Infinity : elapsedS || 1 / 60);
  }

  #resize() {
    drawTimeline(this.#part("[data-timeline]"), this.stage.recording);
    this.painter.fit();
    this.#draw();
  }

  // --- panels around the map ---

  #tell(scene) {
    const { playing, speed } = this.playback;
    const state = `${scene.frame} ${playing} ${speed} ${this.chosen}`;
    if (this.told === state) return;
    this.told = state;
    this.#tellScore(scene);
    this.roster.show(scene, this.chosen);
    this.log.show(scene.frame);
    const time = this.#part("[data-time]");
    time.value = scene.frame;
    time.setAttribute("aria-valuetext", `${clock(scene.timeS)}, decision ${scene.frame} of ${this.stage.last}`);
    this.root.dataset.playing = playing;
    for (const button of this.root.querySelectorAll('[data-act="toggle"]')) {
      button.setAttribute("aria-label", playing ? "Pause" : "Play");
    }
    this.#part("[data-speed]").value = speed;
    this.#part("[data-follow]").value = this.chosen ?? "";
    this.#tellChosen(scene);
  }

  #tellScore(scene) {
    const { frames, battlefield } = this.stage.recording;
    const goal = battlefield.zone_goal / 100;
    this.#part("[data-clock]").textContent = clock(scene.timeS);
    this.#part("[data-outcome]").hidden = scene.frame < this.stage.last;
    [frames.home_zone, frames.away_zone].forEach((zone, side) => {
      const seconds = zone[scene.frame] / 100;
      const scoring = [SIDES[side], "contested"].includes(scene.holder);
      const words = `${seconds.toFixed(1)} of ${goal.toFixed(0)} s in the zone${scoring ? ", scoring" : ""}`;
      this.#part(`[data-zone="${side}"]`).textContent = words;
      this.#part(`[data-zone-bar="${side}"]`).style.transform = `scaleX(${Math.min(seconds / goal, 1)})`;
    });
  }

  #tellChosen(scene) {
    const place = this.#part("[data-chosen]");
    place.hidden = this.chosen === null;
    if (this.chosen === null) return;
    const mech = scene.mechs[this.chosen];
    const { frames, header } = this.stage.recording;
    const percent = (value) => `${Math.round(value)} %`;
    const weapons = this.tally.weapons[this.chosen];
    const facts = [
      ["hit points", percent(100 * mech.hp)],
      ["heat", percent(100 * mech.heat)],
      ["legs", percent(frames.leg[this.chosen][scene.frame])],
      ["stability", percent(frames.stability[this.chosen][scene.frame])],
      ["height", `${mech.z.toFixed(1)} m`],
      ["weapons used", weapons.join(", ") || "none"],
    ];
    const state = stateOf(mech);
    place.replaceChildren(
      element("strong", { className: SIDES[mech.side], textContent: nameOf(header, this.chosen) }),
      ...(state ? [element("span", { className: "badge", textContent: state })] : []),
      ...facts.map(([name, value]) => {
        return element("span", {}, element("span", { className: "soft", textContent: `${name} ` }), value);
      }),
    );
  }

  // Announces the scene to screen readers while the replay is paused.
  #announce() {
    const scene = this.stage.at(this.playback.moment);
    const { roles } = this.stage.recording.header;
    const standing = SIDES.map((side, number) => {
      const own = roles.filter((_, mech) => this.stage.sides[mech] === number).length;
      return `${side} ${scene.mechs.filter((mech) => mech.alive && mech.side === number).length} of ${own} alive`;
    });
    const zone = scene.holder === "nobody" ? "zone: empty" : `zone: ${scene.holder}`;
    this.#part("[data-state]").textContent = `${clock(scene.timeS)}: ${standing.join(", ")}; ${zone}`;
  }

  // --- selection ---

  #fillFollow() {
    const { header } = this.stage.recording;
    const select = this.#part("[data-follow]");
    SIDES.forEach((side, number) => {
      const group = element("optgroup", { label: `${side}: ${header.players[number]}` });
      header.roles.forEach((_, mech) => {
        if (this.stage.sides[mech] === number) group.append(new Option(nameOf(header, mech), mech));
      });
      select.append(group);
    });
  }

  #follow(mech, whole = false) {
    const begins = this.chosen === null && mech !== null;
    this.chosen = mech;
    if (begins && this.camera.zoom === 1) this.camera.zoomBy(ZOOM_TO_FOLLOW);
    if (whole) this.camera.reset();
  }

  #next(direction) {
    const { mechs } = this.stage.at(this.playback.moment);
    const count = mechs.length;
    const from = this.chosen ?? (direction > 0 ? -1 : count);
    for (let away = 1; away <= count; away += 1) {
      const mech = (((from + direction * away) % count) + count) % count;
      if (mechs[mech].alive) return mech;
    }
    return null;
  }

  #tap(left, top) {
    const { mechs } = this.stage.at(this.playback.moment);
    const near = mechs
      .filter(({ alive }) => alive)
      .map((mech) => {
        const [x, y] = this.camera.toPixel(mech.x, mech.y);
        const radius = radiusOf(this.camera, this.stage.recording.hulls[mech.role]);
        return { mech: mech.mech, distance: Math.hypot(x - left, y - top) - radius };
      })
      .sort((one, other) => one.distance - other.distance)[0];
    this.#follow(near && near.distance < TAP_REACH_PX ? near.mech : null);
  }

  #pan(left, top) {
    this.chosen = null;
    this.camera.panBy(left, top);
  }

  #frames(seconds) {
    return seconds === undefined ? 1 : Math.round(seconds / this.stage.decisionS);
  }

  #part(selector) {
    return this.root.querySelector(selector);
  }
}

async function open(root) {
  const wait = root.querySelector("[data-wait]");
  try {
    const recording = await fetchRecording(root.dataset.recording);
    if (recording.kind === "mech") new View(root, recording).start();
    else showSteps(root, recording);
    wait.hidden = true;
  } catch (error) {
    wait.textContent = `The recording cannot be shown: ${error.message}.`;
  }
  wait.removeAttribute("data-wait");
}

open(document.getElementById("replay"));
