// The state of a mech match at any moment, in frames. Between two frames it interpolates.
import { FLAG } from "./decode.js";

const SEEN_ALONE = 0.5; // a shell of one frame only is shown for this share of the time between two
const FADE_FRAMES = 4; // smoke thickens and thins for so long
const RECENT_S = 2;

export class Stage {
  constructor(recording) {
    this.recording = recording;
    this.last = recording.length - 1;
    this.decisionS = recording.decision_ms / 1000;
    this.sides = recording.header.roles.map((_, mech) => Number(mech >= recording.header.agents_per_side[0]));
  }

  at(moment) {
    const frame = Math.ceil(moment);
    const progress = moment - frame + 1;
    const mechs = this.#mechs(frame, progress);
    return {
      moment,
      frame,
      progress,
      timeS: moment * this.decisionS,
      mechs,
      beams: this.#rows("beams", frame, (beams, row) => ({
        weapon: this.#weapon(beams.weapon[row]),
        shooter: beams.shooter[row],
        target: beams.target[row],
      })),
      shells: this.#shells(frame, progress, mechs),
      clouds: this.#clouds(moment),
      holder: this.recording.holders[frame],
      recent: this.#recent(moment),
    };
  }

  // Positions of a mech in the frames before a moment, oldest first.
  trail(mech, frame, count) {
    const { x, y } = this.recording.frames;
    const first = Math.max(0, frame - count);
    const place = (at) => [x[mech][at] / 100, y[mech][at] / 100];
    return Array.from({ length: frame - first }, (_, each) => place(first + each));
  }

  #mechs(frame, progress) {
    const { frames, header } = this.recording;
    const before = Math.max(frame - 1, 0);
    const blend = (column) => (column[before] + (column[frame] - column[before]) * progress) / 100;
    return header.roles.map((role, mech) => {
      const flags = frames.flags[mech][progress >= 0.5 ? frame : before];
      const start = frames.heading[mech][before];
      const turn = ((frames.heading[mech][frame] - start + 540) % 360) - 180;
      return {
        mech,
        role,
        side: this.sides[mech],
        x: blend(frames.x[mech]),
        y: blend(frames.y[mech]),
        z: blend(frames.z[mech]),
        angle: ((start + turn * progress) * Math.PI) / 180,
        hp: blend(frames.hp[mech]),
        heat: blend(frames.heat[mech]),
        flags,
        alive: (flags & FLAG.alive) !== 0,
        hurt: this.#hurt(mech, frame),
      };
    });
  }

  #hurt(mech, frame) {
    const { hits } = this.recording;
    let lost = 0;
    for (let row = hits.first[frame]; row < hits.first[frame + 1]; row += 1) {
      if (hits.target[row] === mech) lost += hits.damage[row] / 10;
    }
    return lost;
  }

  // Shells are interpolated between two frames. New shells start at their owner.
  #shells(frame, progress, mechs) {
    const before = this.#shellsOf(frame - 1);
    const after = this.#shellsOf(frame);
    const shown = [];
    for (const [key, shell] of after) {
      const from = before.get(key) ?? mechs[shell.owner];
      const x = from.x + progress * (shell.x - from.x);
      const y = from.y + progress * (shell.y - from.y);
      shown.push({ weapon: shell.weapon, x, y, fromX: from.x, fromY: from.y });
    }
    for (const [key, shell] of before) {
      if (!after.has(key) && progress < SEEN_ALONE) shown.push({ ...shell, fromX: shell.x, fromY: shell.y });
    }
    return shown;
  }

  #shellsOf(frame) {
    if (frame < 0) return new Map();
    return new Map(
      this.#rows("shells", frame, (shells, row) => [
        `${shells.owner[row]} ${shells.slot[row]} ${shells.weapon[row]}`,
        {
          weapon: this.#weapon(shells.weapon[row]),
          owner: shells.owner[row],
          x: shells.x[row] / 100,
          y: shells.y[row] / 100,
        },
      ]),
    );
  }

  #clouds(moment) {
    const { smoke } = this.recording;
    const shown = [];
    for (let row = 0; row < smoke.frame.length; row += 1) {
      const [first, last] = [smoke.frame[row], smoke.last[row]];
      const density = Math.min(1, (moment - first + 1) / FADE_FRAMES, (last + 1 - moment) / FADE_FRAMES);
      if (density > 0) shown.push({ x: smoke.x[row] / 100, y: smoke.y[row] / 100, density });
    }
    return shown;
  }

  #recent(moment) {
    const oldest = moment - RECENT_S / this.decisionS;
    return this.recording.events
      .filter(({ at }) => at >= oldest && at <= Math.ceil(moment))
      .map((event) => ({ ...event, ageS: Math.max(0, moment - event.at + 0.5) * this.decisionS }));
  }

  #rows(name, frame, make) {
    const table = this.recording[name];
    const rows = [];
    for (let row = table.first[frame]; row < table.first[frame + 1]; row += 1) rows.push(make(table, row));
    return rows;
  }

  #weapon(number) {
    return this.recording.weapons[number];
  }
}
