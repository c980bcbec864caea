// The rating curve of a player's page, redrawn after every rating period.
import { padded } from "./charts.js";
import { drawCurve } from "./interval_chart.js";

function describe(curve, index, time) {
  const error = curve.high[index] - curve.rating[index];
  const value = `${Math.round(curve.rating[index])} ± ${Math.round(error)}`;
  return `${value} after period ${curve.period[index]}, ${time}, ${curve.games[index].toLocaleString()} games`;
}

function draw() {
  drawCurve({
    value: "rating",
    range: (low, high) => padded(low, high, 20),
    label: (tick) => tick.toFixed(0),
    describe,
    summarize: (curve, last) => `Rating over ${curve.at.length} periods; now ${last}`,
  });
}

document.addEventListener("league:period", draw);
document.addEventListener("league:return", draw);
draw();
