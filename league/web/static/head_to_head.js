// The score of a player against another one over time.
import { drawCurve } from "./interval_chart.js";

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function describe(curve, index, time) {
  const matches = `${curve.matches[index]} ${curve.matches[index] === 1 ? "match" : "matches"}`;
  return `${percent(curve.score[index])} (${percent(curve.low[index])} to ${percent(curve.high[index])}) in ${matches} until ${time}`;
}

drawCurve({
  value: "score",
  range: () => [0, 1],
  label: (tick) => `${Math.round(100 * tick)} %`,
  describe,
  summarize: (curve, last) => `Score over time in ${curve.at.length} parts; last ${last}`,
});
