// Buttons, keys and touch gestures of a replay. All of them call `act`.
import { SPEEDS } from "./playback.js";

const TAP_PX = 6;
const ZOOM_STEP = 1.4;
const LONG_STEP_S = 5;

const KEYS = {
  " ": "toggle",
  k: "toggle",
  ArrowLeft: "back",
  ArrowRight: "forward",
  "+": "zoomIn",
  "=": "zoomIn",
  "-": "zoomOut",
  0: "wholeMap",
  Escape: "wholeMap",
  f: "followNext",
  F: "followBefore",
  ",": "slower",
  ".": "faster",
  Home: "start",
  End: "end",
};

export function connectButtons(root, act) {
  for (const button of root.querySelectorAll("[data-act]")) {
    button.addEventListener("click", () => act(button.dataset.act));
  }
  root.querySelector("[data-speed]").addEventListener("change", ({ target }) => act("speed", Number(target.value)));
  root.querySelector("[data-follow]").addEventListener("change", ({ target }) => {
    act("follow", target.value === "" ? null : Number(target.value));
  });
  root.querySelector("[data-time]").addEventListener("input", ({ target }) => act("seek", Number(target.value)));
}

export function fillSpeeds(select) {
  select.append(...SPEEDS.map((speed) => new Option(`${speed}×`, speed, speed === 1, speed === 1)));
}

// Handles keys if the focus is in the replay or nowhere, except keys that a slider, select or button needs.
export function connectKeys(root, act) {
  document.addEventListener("keydown", (event) => {
    if (event.target !== document.body && !root.contains(event.target)) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select")) return;
    if (event.key === " " && event.target.matches("button")) return;
    const name = KEYS[event.key];
    if (!name || (event.target.matches("input") && /^(Arrow|Home|End)/.test(event.key))) return;
    event.preventDefault();
    act(name, event.shiftKey ? LONG_STEP_S : undefined);
  });
}

// Dragging pans the map, two fingers or Ctrl and the wheel zoom it, and a tap follows the mech under it.
export function connectPointer(canvas, camera, act) {
  const fingers = new Map();
  let travelled = 0;

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, placeOf(event));
    travelled = fingers.size > 1 ? Infinity : 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const now = placeOf(event);
    travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (fingers.size > 1) pinch(event.pointerId, before, now);
    else if (travelled > TAP_PX) act("pan", [now[0] - before[0], now[1] - before[1]]);
    fingers.set(event.pointerId, now);
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(kind, (event) => {
      if (kind === "pointerup" && fingers.size === 1 && travelled <= TAP_PX) act("tap", placeOf(event));
      fingers.delete(event.pointerId);
    });
  }
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls
    event.preventDefault();
    act("zoom", [ZOOM_STEP ** Math.sign(-event.deltaY), ...placeOf(event)]);
  }, { passive: false });

  function pinch(moved, before, now) {
    const [, other] = [...fingers].find(([id]) => id !== moved);
    const apart = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]) || 1;
    act("zoom", [apart(now) / apart(before), ...other]);
  }

  function placeOf(event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
}

export const ZOOM = ZOOM_STEP;
