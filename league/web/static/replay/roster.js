// The mechs of both sides as tables; a click on one follows it.
import { FLAG } from "./decode.js";
import { element } from "./elements.js";
import { LOW_HP } from "./mechs.js";
import { nameOf } from "./wording.js";

// States of a living mech, the most severe first.
const STATES = [
  [FLAG.shutdown, "shut down"],
  [FLAG.fallen, "fallen"],
  [FLAG.legless, "legless"],
  [FLAG.painted, "painted"],
  [FLAG.suppressed, "pinned"],
  [FLAG.ecm, "ECM"],
  [FLAG.eccm, "ECCM"],
  [FLAG.inZone, "in the zone"],
];

export class Roster {
  constructor(places, stage, tally, choose) {
    this.stage = stage;
    this.tally = tally;
    this.counts = places.map((place, side) => this.#fill(place, side, choose));
  }

  #fill(place, side, choose) {
    const { header } = this.stage.recording;
    const own = header.roles.map((_, mech) => mech).filter((mech) => this.stage.sides[mech] === side);
    this.rows ??= [];
    for (const mech of own) {
      const row = new Row(nameOf(header, mech), this.tally.weapons[mech], () => choose(mech));
      this.rows[mech] = row;
      place.querySelector("tbody").append(row.element);
    }
    const count = place.querySelector("[data-standing]");
    return (mechs) => {
      const standing = mechs.filter((mech) => mech.side === side && mech.alive).length;
      count.textContent = `${standing} of ${own.length} alive`;
    };
  }

  show(scene, chosen) {
    for (const mech of scene.mechs) {
      const [kills, dealt] = [this.tally.kills, this.tally.dealt].map((counts) => counts[mech.mech][scene.frame]);
      this.rows[mech.mech].show(mech, kills, dealt, mech.mech === chosen);
    }
    for (const count of this.counts) count(scene.mechs);
  }
}

class Row {
  constructor(name, weapons, choose) {
    this.button = element("button", { type: "button", className: "quiet small", textContent: name, onclick: choose });
    this.button.title = weapons.length ? `Weapons used: ${weapons.join(", ")}` : "No weapon used";
    this.hull = bar("hull");
    this.heat = bar("heat");
    this.cells = { state: element("td", { className: "state" }), kills: number(), dealt: number("spare") };
    const head = element("th", { scope: "row" }, this.button);
    const { kills, dealt, state } = this.cells;
    this.element = element("tr", {}, head, this.hull.cell, this.heat.cell, kills, dealt, state);
  }

  show(mech, kills, dealt, chosen) {
    this.button.setAttribute("aria-pressed", chosen);
    this.element.classList.toggle("destroyed", !mech.alive);
    this.hull.show(mech.alive ? mech.hp : 0, mech.alive && mech.hp < LOW_HP);
    this.heat.show(mech.alive ? mech.heat : 0, mech.heat > 1);
    set(this.cells.kills, kills ? String(kills) : "");
    set(this.cells.dealt, dealt >= 0.5 ? dealt.toFixed(0) : "");
    set(this.cells.state, stateOf(mech));
  }
}

export function stateOf(mech) {
  if (!mech.alive) return "destroyed";
  return STATES.find(([flag]) => mech.flags & flag)?.[1] ?? "";
}

function bar(kind) {
  const fill = element("span", { className: "fill" });
  const text = element("span", { className: "visually-hidden" });
  const cell = element("td", { className: `gauge ${kind}` }, element("span", { className: "track" }, fill), text);
  return {
    cell,
    show(share, grave) {
      const percent = `${Math.round(100 * share)} %`;
      cell.classList.toggle("grave", grave);
      if (text.textContent === percent) return;
      text.textContent = percent;
      cell.title = `${kind === "hull" ? "Hit points" : "Heat"} ${percent}`;
      fill.style.transform = `scaleX(${Math.min(share, 1)})`;
    },
  };
}

const number = (also = "") => element("td", { className: `number ${also}` });

function set(cell, text) {
  if (cell.textContent !== text) cell.textContent = text;
}
