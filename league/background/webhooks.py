"""Periodic task: deliver events of the audit log to the receiver of a webhook.

Each receiver has its own task, so that a slow or failing one does not delay the others. A receiver gets each event at
least once and in order: its position in the log moves only after it has answered with 2xx.
"""

import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable
from datetime import datetime

import httpx2

from league import wire
from league.background import leader_election
from league.background.isolation import Isolation
from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.audit import webhooks
from league.services.audit.log import AuditEntry
from league.settings import Settings

TIMEOUT_S = 10.0

log = logging.getLogger(__name__)


class DeliveryError(Exception):
    """A receiver did not confirm an event."""


class WebhookTask(PeriodicTask):
    """Delivers events to one receiver every `aggregation_interval_s`.

    Of several background processes, the elected leader delivers. While the leadership changes, an event may be
    delivered twice. After a failure, the back-off doubles up to a minute.

    Args:
        database: Database of the league.
        settings: Settings of the league.
        url: URL of the receiver.
        clock: Returns the time.
        monotonic: Monotonic clock in seconds.
    """

    name = "delivering webhooks"

    def __init__(
        self,
        database: Database,
        settings: Settings,
        url: str,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(settings.aggregation_interval_s, settings.aggregation_interval_s)
        self._database, self._settings, self._url, self._clock = database, settings, url, clock
        self._hook = webhooks.key(url)
        # Only the host, because the path often contains a key.
        self._receiver = f"the receiver at {httpx2.URL(url).host}"
        self._isolation = Isolation(self.name, settings.aggregation_interval_s, monotonic)
        term_s = max(settings.aggregation_term_s, 2.0 * TIMEOUT_S)
        self._leadership = leader_election.Candidate(database, term_s)

    def run_once(self) -> None:
        """Deliver the events that are pending, until one fails."""
        self._isolation.attempt(self._receiver, self._deliver_pending)

    def stop(self) -> None:
        """Stop after the current delivery, and release the leader lease."""
        super().stop()
        self._leadership.release()

    def _deliver_pending(self) -> None:
        pending = self._pending()
        if not pending:
            return
        with httpx2.Client(timeout=TIMEOUT_S) as http:
            for event in pending:
                if self.interrupted(0.0) or not self._leadership.acquire(f"webhook {self._hook}", self._clock()):
                    return
                try:
                    self._deliver(http, event)
                except DeliveryError:
                    with self._database.write() as session:
                        webhooks.count_failure(session, self._hook)
                    raise
                with self._database.write() as session:
                    webhooks.confirm(session, self._hook, event.id, self._clock())

    def _pending(self) -> list[AuditEntry]:
        with self._database.read() as session:
            if webhooks.is_known(session, self._hook):
                return webhooks.read_pending(session, self._hook, self._settings.webhooks.events)
        with self._database.write() as session:
            webhooks.add(session, self._hook)
        return []

    def _deliver(self, http: httpx2.Client, event: AuditEntry) -> None:
        content = body(event)
        headers = {"Content-Type": "application/json", "X-League-Event": event.kind, "X-League-Delivery": str(event.id)}
        if self._settings.webhooks.secret is not None:
            headers["X-League-Signature"] = signature(self._settings.webhooks.secret, content)
        try:
            # Redirects are not followed: they would change POST to GET, or send events to an unknown host.
            with http.stream("POST", self._url, content=content, headers=headers) as response:
                status = response.status_code
        except httpx2.HTTPError as error:
            raise DeliveryError(f"event {event.id}: {type(error).__name__}") from error
        if not 200 <= status < 300:
            raise DeliveryError(f"event {event.id}: HTTP status {status}")


def body(event: AuditEntry) -> bytes:
    """Return the JSON body of an event, with a sentence for chat services in `text`."""
    fields = wire.Event.model_validate(event, from_attributes=True).model_dump(mode="json")
    return json.dumps({**fields, "player": event.player, "text": text(event)}).encode()


def text(event: AuditEntry) -> str:
    """Describe an event in one line."""
    concerned = event.player or event.details.get("worker")
    words = [each for each in (event.environment, event.kind, concerned) if each]
    return " ".join(words) + (f": {event.reason}" if event.reason else "")


def signature(secret: str, content: bytes) -> str:
    """Return the HMAC-SHA256 of a body as the value of `X-League-Signature`."""
    return f"sha256={hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()}"
