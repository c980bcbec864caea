// The visible part of the map. Positions are in metres, x to the right and y up. Pixels are CSS pixels.
const ZOOM_MAX = 8;
const EASE_S = 0.18; // after so long a followed mech is a third as far from the middle

export class Camera {
  constructor(side) {
    this.side = side;
    this.size = 1;
    this.reset();
  }

  reset() {
    this.x = 0;
    this.y = 0;
    this.zoom = 1;
  }

  get scale() {
    return (this.size / this.side) * this.zoom;
  }

  toPixel(x, y) {
    return [this.size / 2 + (x - this.x) * this.scale, this.size / 2 - (y - this.y) * this.scale];
  }

  toPlace(left, top) {
    return [this.x + (left - this.size / 2) / this.scale, this.y - (top - this.size / 2) / this.scale];
  }

  // Zooms around a pixel.
  zoomBy(factor, left = this.size / 2, top = this.size / 2) {
    const [x, y] = this.toPlace(left, top);
    this.zoom = Math.min(Math.max(this.zoom * factor, 1), ZOOM_MAX);
    const [nowX, nowY] = this.toPlace(left, top);
    this.#goTo(this.x + x - nowX, this.y + y - nowY);
  }

  panBy(left, top) {
    this.#goTo(this.x - left / this.scale, this.y + top / this.scale);
  }

  // Moves towards a target, or jumps to it if no time is given. Returns whether it is still moving.
  follow(x, y, elapsedS = Infinity) {
    const share = 1 - Math.exp(-elapsedS / EASE_S);
    const [fromX, fromY] = [this.x, this.y];
    this.#goTo(fromX + (x - fromX) * share, fromY + (y - fromY) * share);
    return Math.hypot(this.x - fromX, this.y - fromY) * this.scale > 0.3;
  }

  #goTo(x, y) {
    const reach = (this.side / 2) * (1 - 1 / this.zoom);
    this.x = Math.min(Math.max(x, -reach), reach);
    this.y = Math.min(Math.max(y, -reach), reach);
  }
}
