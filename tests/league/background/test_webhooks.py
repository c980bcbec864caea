"""Webhooks: each receiver gets each event at least once and in order, whatever it or the server does."""

import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from league.background import process, webhooks
from league.background.webhooks import WebhookTask
from league.db.engine import Database
from league.services.audit import log as audit_log
from league.services.audit import webhooks as deliveries
from league.services.audit.log import Cause
from league.services.audit.webhooks import DeliveryCounts
from league.services.workers import lost
from league.settings import Settings, WebhookConfig

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class Receiver:
    """A server that answers as `statuses` say, then with 204; it waits for `ready` before each answer."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    ready: threading.Event = field(default_factory=threading.Event)
    received: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    def reasons(self) -> list[str]:
        return [json.loads(content)["reason"] for _, _, content in self.received]


@pytest.fixture
def receivers() -> Iterator[Callable[[], Receiver]]:
    servers: list[tuple[ThreadingHTTPServer, Receiver, threading.Thread]] = []

    def start() -> Receiver:
        receiver = Receiver()
        receiver.ready.set()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append((self.path, dict(self.headers), content))
                receiver.ready.wait(30.0)
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 204)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
        servers.append((server, receiver, thread))
        return receiver

    yield start
    for server, receiver, thread in servers:
        receiver.ready.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def receiver(receivers: Callable[[], Receiver]) -> Receiver:
    return receivers()


class Ticks:
    """Monotonic seconds, and the time that follows them."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.s)


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def task(database: Database, ticks: Ticks, configure: Callable[..., Settings]) -> Callable[..., WebhookTask]:
    """Make the task of a background process; `terms` are those of webhooks."""

    def make(url: str, **terms: Any) -> WebhookTask:
        settings = configure(webhooks={"urls": (url,), **terms}, aggregation_interval_s=2.0)
        return WebhookTask(database, settings, url, ticks.now, ticks)

    return make


def happen(database: Database, *reasons: str, kind: str = "champion") -> None:
    for reason in reasons:
        with database.write() as session:
            audit_log.record(session, kind, Cause("rule", reason, NOW), environment="rps")


def test_events_of_the_chosen_kinds_arrive_in_order_once_and_signed(
    task: Callable[..., WebhookTask], receiver: Receiver, database: Database
) -> None:
    happen(database, "before the webhook")
    hook = task(receiver.url, events=("champion", "lost-worker"), secret="key")
    hook.run_once()
    happen(database, "a", "b")
    happen(database, "c", kind="regression")
    happen(database, "d", kind="lost-worker")
    hook.run_once()
    hook.run_once()
    assert receiver.reasons() == ["a", "b", "d"]
    path, headers, content = receiver.received[0]
    assert path == "/hook"
    assert headers["X-League-Event"] == "champion"
    assert headers["X-League-Signature"] == f"sha256={hmac.new(b'key', content, hashlib.sha256).hexdigest()}"
    sent = json.loads(content)
    assert headers["X-League-Delivery"] == str(sent["id"])
    assert (sent["kind"], sent["environment"], sent["actor"], sent["text"]) == (
        "champion",
        "rps",
        "rule",
        "rps champion: a",
    )


@pytest.mark.parametrize("status", [500, 404, 307])
def test_an_event_is_repeated_with_back_off_until_the_receiver_confirms_it(
    task: Callable[..., WebhookTask], receiver: Receiver, database: Database, ticks: Ticks, status: int
) -> None:
    hook = task(receiver.url)
    hook.run_once()
    happen(database, "a", "b")
    receiver.statuses += [status, status]
    for _ in range(2):  # the second run is within the back-off
        hook.run_once()
    assert receiver.reasons() == ["a"]
    ticks.s += 2.0
    hook.run_once()
    ticks.s += 3.9
    hook.run_once()
    assert receiver.reasons() == ["a", "a"]
    ticks.s += 0.1
    hook.run_once()
    assert receiver.reasons() == ["a", "a", "a", "b"]
    assert {path for path, _, _ in receiver.received} == {"/hook"}


def test_deliveries_and_failures_are_counted_with_the_age_of_what_waits(
    task: Callable[..., WebhookTask], receiver: Receiver, database: Database, ticks: Ticks
) -> None:
    config = WebhookConfig(urls=(receiver.url, "https://chat.example/unknown"))
    hook = task(receiver.url)
    hook.run_once()
    happen(database, "a", "b")
    happen(database, "ignored", kind="recovery")
    receiver.statuses += [204, 500, 500]
    hook.run_once()
    ticks.s += 2.0
    hook.run_once()
    ticks.s += 1.0

    def counts() -> DeliveryCounts:
        with database.read() as session:
            [(label, found)] = deliveries.read_counts(session, config, ticks.now()).items()
        assert label == f"127.0.0.1 {deliveries.key(receiver.url)[:6]}"
        return found

    assert counts() == DeliveryCounts(delivered=1, failed=2, delivered_at=NOW, lag_s=3.0)
    ticks.s += 3.0
    hook.run_once()
    ticks.s += 10.0
    assert counts() == DeliveryCounts(2, 2, NOW + timedelta(seconds=6), 0.0)


def test_an_unreachable_receiver_gets_everything_later(
    task: Callable[..., WebhookTask],
    receiver: Receiver,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    ticks: Ticks,
) -> None:
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.1)
    hook = task(receiver.url)
    hook.run_once()
    happen(database, "a")
    receiver.ready.clear()
    hook.run_once()
    receiver.ready.set()
    ticks.s += 2.0
    hook.run_once()
    assert receiver.reasons() == ["a", "a"]


def test_another_process_goes_on_after_the_last_confirmed_event(
    task: Callable[..., WebhookTask], receiver: Receiver, database: Database, ticks: Ticks
) -> None:
    first, second = task(receiver.url), task(receiver.url)
    first.run_once()
    happen(database, "a", "b")
    receiver.statuses += [204, 500]
    first.run_once()
    second.run_once()  # the first one is the leader, and may have died
    assert receiver.reasons() == ["a", "b"]
    ticks.s += 30.0
    second.run_once()
    assert receiver.reasons() == ["a", "b", "b"]
    ticks.s += 30.0
    first.run_once()
    assert receiver.reasons() == ["a", "b", "b"]


def test_a_stopped_process_hands_over_at_once(
    task: Callable[..., WebhookTask], receiver: Receiver, database: Database
) -> None:
    first, second = task(receiver.url), task(receiver.url)
    first.run_once()
    happen(database, "a")
    first.run_once()
    first.start()
    first.stop()
    happen(database, "b")
    second.run_once()
    assert receiver.reasons() == ["a", "b"]


def test_a_hanging_receiver_delays_neither_the_others_nor_the_league(
    configure: Callable[..., Settings], receivers: Callable[[], Receiver], database: Database
) -> None:
    hanging, healthy = receivers(), receivers()
    hanging.ready.clear()
    settings = configure(webhooks={"urls": (hanging.url, healthy.url)}, aggregation_interval_s=0.01)
    hooks = [each for each in process.periodic_tasks(database, settings) if isinstance(each, WebhookTask)]
    for hook in hooks:
        hook.run_once()
    arrived = threading.Event()
    happen(database, "a", "b")
    for hook in hooks:
        hook.start()
    while len(healthy.received) < 2 or not hanging.received:
        assert not arrived.wait(0.02)
    assert healthy.reasons() == ["a", "b"]
    hanging.ready.set()
    for hook in hooks:
        hook.stop()


def test_lost_workers_and_players_are_named(
    task: Callable[..., WebhookTask], receiver: Receiver, scene: Any, time: Any, database: Database
) -> None:
    hook = task(receiver.url)
    hook.run_once()
    with database.write() as session:
        lost.record(session, 120.0, time.now + timedelta(seconds=361))
    player = scene.publish(1)
    scene.client.set_champion(player.id, "strong", expected=None)
    hook.run_once()
    texts = [json.loads(content)["text"] for _, _, content in receiver.received]
    assert texts[0].startswith("lost-worker evaluator-1: no heartbeat since 2030-01-01 00:00:00 UTC")
    assert [each.split(": ")[0] for each in texts[1:]] == [
        "lost-worker trainer-1",
        f"rps champion {scene.client.player(player.id).call_sign}",
    ]
