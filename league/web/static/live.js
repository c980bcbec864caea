// Follows the league: every event becomes `league:event` and `league:KIND` on the document, with the event in `detail`.
// A hidden tab follows nothing: browsers open few connections to one server. When it is seen again, `league:return`
// says that something may have been missed.
const state = document.querySelector("[data-live-state]");
let source = null;

function say(word) {
  state.dataset.liveState = word;
  state.firstElementChild.textContent = word;
}

function open() {
  source = new EventSource("/live");
  source.onopen = () => say("live");
  source.onerror = () => say("connecting");
  source.onmessage = ({ data }) => tell(JSON.parse(data));
}

function tell(event) {
  document.dispatchEvent(new CustomEvent("league:event", { detail: event }));
  document.dispatchEvent(new CustomEvent(`league:${event.kind}`, { detail: event }));
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    source?.close();
    source = null;
    say("paused");
  } else if (!source) {
    open();
    document.dispatchEvent(new CustomEvent("league:return"));
  }
});

if (document.hidden) say("paused");
else open();
