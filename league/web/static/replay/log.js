// The event log. A click on a line seeks to it.
import { coloured, element } from "./elements.js";
import { clock, describe, isLoud } from "./wording.js";

export class Log {
  constructor(list, stage, go) {
    const { events, header } = stage.recording;
    this.list = list;
    this.lines = events.filter(isLoud).map((event) => {
      const time = element("span", { className: "soft", textContent: clock(event.at * stage.decisionS) });
      const button = element("button", { type: "button", className: "quiet", onclick: () => go(event.at - 1) });
      button.append(time, element("span", {}, ...coloured(describe(event, header))));
      const line = element("li", {}, button);
      list.append(line);
      return { at: event.at, line };
    });
    this.shown = undefined; // nothing is marked yet
  }

  // Marks the current line and scrolls the log, but not the page, to it.
  show(frame) {
    const happened = this.lines.findLastIndex(({ at }) => at <= frame);
    if (happened === this.shown) return;
    this.lines[this.shown]?.line.removeAttribute("aria-current");
    this.shown = happened;
    this.lines.forEach(({ line }, each) => line.classList.toggle("ahead", each > happened));
    const { line } = this.lines[happened] ?? {};
    line?.setAttribute("aria-current", "step");
    this.list.scrollTop = line ? line.offsetTop - this.list.clientHeight / 2 : 0;
  }
}
