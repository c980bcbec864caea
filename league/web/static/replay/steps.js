// A match of any other game: a table of its decisions with the sums of rewards.
import { element } from "./elements.js";
import { SIDES, sideOf } from "./wording.js";

const SHOWN = 500;

export function showSteps(root, recording) {
  const { header, steps } = recording;
  const place = root.querySelector("[data-steps]");
  place.hidden = false;
  const body = place.querySelector("tbody");
  const totals = header.roles.map(() => 0);
  steps.forEach((step, number) => {
    step.rewards.forEach((reward, agent) => (totals[agent] += reward));
    if (number < SHOWN) body.append(...rowsOf(header, step, number, totals));
  });
  if (steps.length > SHOWN) {
    place.querySelector("[data-rest]").textContent = `The first ${SHOWN} of ${steps.length} decisions.`;
  }
}

function rowsOf(header, step, number, totals) {
  const movers = header.roles.map((_, agent) => agent).filter((agent) => step.active[agent]);
  return movers.map((agent) => {
    const side = sideOf(header, agent);
    const actions = Object.entries(step.actions).map(([head, taken]) => `${head} ${written(taken[agent])}`);
    return element(
      "tr",
      {},
      cell(String(number + 1), "number"),
      cell(`${SIDES[side]}: ${header.players[side]}`, SIDES[side]),
      cell(header.roles[agent], "spare"),
      cell(actions.join(", ")),
      cell(signed(step.rewards[agent]), "number"),
      cell(signed(totals[agent]), "number"),
    );
  });
}

const cell = (textContent, className = "") => element("td", { textContent, className });

const written = (action) => (Array.isArray(action) ? `(${action.map(rounded).join(", ")})` : rounded(action));

const rounded = (value) => String(Number(value.toFixed(3)));

const signed = (value) => (value > 0 ? `+${rounded(value)}` : rounded(value).replace("-", "\u2212"));
