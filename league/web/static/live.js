// Follows the league: every event becomes `league:event` and `league:KIND` on the document, with the event in `detail`.
// A hidden tab closes its event stream, because browsers open few connections to one server. `league:return` follows when
// the stream is open again, also after the server was busy or unreachable, because events may have been missed.
import { leaveIfSignedOut } from "./ask.js";

const RETRY_MS = 5000;
const state = document.querySelector("[data-live-state]");
let source = null;
let missed = false;

function say(word) {
  state.dataset.liveState = word;
  state.firstElementChild.textContent = word;
}

function open() {
  source = new EventSource("/live");
  source.onopen = begin;
  source.onerror = retry;
  source.onmessage = ({ data }) => tell(JSON.parse(data));
}

function begin() {
  say("live");
  if (missed) document.dispatchEvent(new CustomEvent("league:return"));
  missed = false;
}

// Browsers reconnect after a broken connection, but not after a response that is no event stream.
function retry() {
  say("connecting");
  missed = true;
  if (source.readyState !== EventSource.CLOSED) return;
  close();
  leaveIfSignedOut();
  setTimeout(() => {
    if (!document.hidden && !source) open();
  }, RETRY_MS);
}

function close() {
  source?.close();
  source = null;
  missed = true;
}

function tell(event) {
  document.dispatchEvent(new CustomEvent("league:event", { detail: event }));
  document.dispatchEvent(new CustomEvent(`league:${event.kind}`, { detail: event }));
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close();
    say("paused");
  } else if (!source) {
    open();
  }
});

if (document.hidden) say("paused");
else open();
