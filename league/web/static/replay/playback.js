// Position of a replay in frames, and its speed.
export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];

export class Playback {
  constructor(last, decisionS) {
    this.last = last;
    this.decisionS = decisionS;
    this.moment = 0;
    this.speed = 1;
    this.playing = false;
  }

  get ended() {
    return this.moment >= this.last;
  }

  // Toggles playback. Starts again after the end.
  toggle() {
    if (!this.playing && this.ended) this.moment = 0;
    this.playing = !this.playing;
  }

  advance(elapsedS) {
    if (!this.playing) return;
    this.moment = Math.min(this.moment + (elapsedS * this.speed) / this.decisionS, this.last);
    if (this.ended) this.playing = false;
  }

  seek(moment) {
    this.moment = Math.min(Math.max(moment, 0), this.last);
  }

  // Steps by whole frames, forward or back.
  step(frames) {
    this.playing = false;
    this.seek(frames > 0 ? Math.floor(this.moment) + frames : Math.ceil(this.moment) + frames);
  }

  change(speeds) {
    const place = SPEEDS.indexOf(this.speed) + speeds;
    this.speed = SPEEDS[Math.min(Math.max(place, 0), SPEEDS.length - 1)];
  }
}
