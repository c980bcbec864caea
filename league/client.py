"""The league over HTTP: one method per call, typed with `league.wire`, raising `league.errors`.

    league = LeagueClient("http://127.0.0.1:8000", token="...")
    for line in league.standings("mech-duel").items:
        print(line.rank, line.call_sign or line.name, line.rating, line.deviation)

`LeagueClient(http=TestClient(app))` talks to an application in the same process, without a socket.
"""

import hashlib
import io
import json
import random
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar

import httpx2
from pydantic import BaseModel, ValidationError

from league import transfer, wire
from league.errors import (
    BusyError,
    ConfigurationError,
    HashMismatchError,
    LeagueError,
    LeagueUnreachable,
    UnauthenticatedError,
    from_problem,
)
from league.lanes import lane_of
from league.patience import Patience
from league.wire import PREFIX

DEFAULT_URL = "http://127.0.0.1:8000"
_CONFLICT = 409
_TOO_MANY_REQUESTS = 429
_PATIENCE_S = 30.0

AnswerT = TypeVar("AnswerT", bound=BaseModel)
Query = Mapping[str, str | int | None]


class LeagueClient:
    """A connection to one league server; safe to share between threads.

    Args:
        url: Where the server listens.
        token: Bearer token; needed unless the server is open.
        http: An HTTP client to use instead of one made for `url`; it stays the caller's to close.
        timeout_s: Longest wait for a connection, and between two pieces of an answer, in seconds.
        patience: How a server is waited out that is busy and says when to come back; None: up to 30 s a call. Calls of
            that kind made before its time are refused here, without troubling the server.

    Raises:
        ConfigurationError: The address is not one of HTTP.
        UnauthenticatedError: The token cannot be one.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        http: httpx2.Client | None = None,
        timeout_s: float = 30.0,
        patience: Patience | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            rule = "a league is reached under http:// or https://"
            raise ConfigurationError(f"league address {url!r}", rule, f"say for example {DEFAULT_URL}")
        if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
            rule = "a token is one word of ASCII characters"
            raise UnauthenticatedError("with an unusable token", rule, "give it as `league token create` printed it")
        self._owned = http is None
        self._timeout_s = timeout_s
        self._patience = patience_of(_PATIENCE_S) if patience is None else patience
        self._http = httpx2.Client(base_url=url, timeout=timeout_s, follow_redirects=True) if http is None else http
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, unless the HTTP client was the caller's."""
        if self._owned:
            self._http.close()

    # --- workers -----------------------------------------------------------------------------------------------------

    def register_worker(self, worker: wire.WorkerCreate) -> wire.Worker:
        """Attach; the same instance, or the same name, kind and token, again is the same worker."""
        return self._post("/workers", worker, wire.Worker)

    def heartbeat(self, worker_id: str, beat: wire.Heartbeat | None = None) -> wire.HeartbeatAnswer:
        """Stay attached, report progress, and hear what to do."""
        return self._post(f"/workers/{worker_id}/heartbeat", beat or wire.Heartbeat(), wire.HeartbeatAnswer)

    def workers(
        self, name: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> wire.Page[wire.ListedWorker]:
        """List workers by id, all or those of a name, with how their last results fit what is expected."""
        query = {"name": name, "limit": limit, "cursor": cursor}
        return self._get("/workers", wire.Page[wire.ListedWorker], query)

    def command_worker(self, worker_id: str, command: wire.Command) -> wire.Worker:
        """Set what a worker is told at its next heartbeat."""
        return self._post(f"/workers/{worker_id}/command", wire.CommandRequest(command=command), wire.Worker)

    def quarantine_worker(self, worker_id: str, since: datetime, reason: str) -> wire.Quarantine:
        """Stop trusting a worker from a time on; all ratings follow before the answer."""
        request = wire.WorkerQuarantine(since=since, reason=reason)
        return self._post(f"/workers/{worker_id}/quarantine", request, wire.Quarantine)

    def reinstate_worker(self, worker_id: str, reason: str = "", *, restore: bool = False) -> wire.Quarantine:
        """Trust a worker again, from now on; with `restore`, as if it had always been."""
        request = wire.WorkerReinstatement(reason=reason, restore=restore)
        return self._post(f"/workers/{worker_id}/reinstate", request, wire.Quarantine)

    # --- learners, checkpoints, players ------------------------------------------------------------------------------

    def learner(self, learner: wire.LearnerCreate) -> wire.Learner:
        """Find or make a lineage."""
        return self._post("/learners", learner, wire.Learner)

    def learners(
        self, environment: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> wire.Page[wire.Learner]:
        """List lineages with their latest metrics."""
        query = {"environment": environment, "limit": limit, "cursor": cursor}
        return self._get("/learners", wire.Page[wire.Learner], query)

    def upload(self, checkpoint: Path | bytes, sha256: str) -> None:
        """Store a checkpoint's bytes under their hash; nothing is sent where the league has them.

        Raises:
            HashMismatchError: The bytes are not those that the hash names.
            RefusedCheckpointError: They are not a safetensors file.
        """
        path = f"/checkpoints/{sha256}"
        size_bytes = len(checkpoint) if isinstance(checkpoint, bytes) else checkpoint.stat().st_size
        upload = self._post(f"{path}/uploads", wire.UploadCreate(size_bytes=size_bytes), wire.Upload)
        if upload.stored:
            return
        with io.BytesIO(checkpoint) if isinstance(checkpoint, bytes) else checkpoint.open("rb") as content:
            if upload.url is None:
                _raise_for_problem(self._send("PUT", PREFIX + path, content=content))
                return
            transfer.send(upload.url, upload.headers, content, size_bytes, self._timeout_s)
        _raise_for_problem(self._send("POST", f"{PREFIX}{path}/complete"))

    def download(self, sha256: str) -> bytes:
        """Fetch a checkpoint's bytes, verified against their hash; a broken transfer goes on where it broke.

        Raises:
            UnknownCheckpointError: The league does not have it.
            HashMismatchError: Other bytes came.
        """
        path, fetch = f"{PREFIX}/checkpoints/{sha256}", transfer.Fetch(self._timeout_s)
        until = self._patience.begin()
        while not fetch.complete:
            self._fetch_on(path, fetch, until)
        content = fetch.content()
        received = hashlib.sha256(content).hexdigest()
        if received != sha256:
            rule = f"the bytes received hash to {received}"
            raise HashMismatchError(sha256, rule, "fetch again; if it stays, publish the checkpoint anew")
        return content

    def publish(self, player: wire.PlayerCreate) -> wire.Player:
        """Publish an uploaded checkpoint as a snapshot of its learner."""
        return self._post("/players", player, wire.Player)

    def players(
        self,
        environment: str | None = None,
        standing: wire.Standing | None = None,
        kind: wire.Kind | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> wire.Page[wire.Player]:
        """List players by id."""
        query = {"environment": environment, "standing": standing, "kind": kind, "limit": limit, "cursor": cursor}
        return self._get("/players", wire.Page[wire.Player], query)

    def player(self, player_id: int) -> wire.Player:
        """Show one player."""
        return self._get(f"/players/{player_id}", wire.Player)

    def lineage(self, player_id: int, limit: int = 100, cursor: str | None = None) -> wire.Page[wire.Ancestor]:
        """Follow a player's parents up to the first, the player itself on top."""
        return self._get(f"/players/{player_id}/lineage", wire.Page[wire.Ancestor], {"limit": limit, "cursor": cursor})

    def promote(self, player_id: int, reason: str = "", expected: wire.Standing | None = None) -> wire.Player:
        """Make a candidate a commander; with `expected`, only if that is still its standing."""
        return self._change(player_id, "promote", reason, expected)

    def retire(self, player_id: int, reason: str = "", expected: wire.Standing | None = None) -> wire.Player:
        """Take a snapshot out of play; its history stays."""
        return self._change(player_id, "retire", reason, expected)

    def reinstate(self, player_id: int, reason: str = "", expected: wire.Standing | None = None) -> wire.Player:
        """Make a retired or quarantined snapshot a candidate again."""
        return self._change(player_id, "reinstate", reason, expected)

    def quarantine(self, player_id: int, reason: str = "", expected: wire.Standing | None = None) -> wire.Player:
        """Take a suspicious snapshot out of play."""
        return self._change(player_id, "quarantine", reason, expected)

    def champion(self, environment: str | None = None) -> wire.Champion:
        """Show the champion of an environment (None: the league's only one)."""
        return self._get("/champion", wire.Champion, {"environment": environment})

    def champions(
        self, environment: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> wire.Page[wire.ChampionChange]:
        """List who became champion when, newest first."""
        query = {"environment": environment, "limit": limit, "cursor": cursor}
        return self._get("/champion/history", wire.Page[wire.ChampionChange], query)

    def crown(self, player_id: int, reason: str = "", *, expected: int | None) -> wire.Champion:
        """Make a commander or candidate the champion, if the present one is still the expected; None for nobody."""
        request = wire.ChampionRequest(player_id=player_id, reason=reason, expected=expected)
        return self._post("/champion", request, wire.Champion)

    def log(
        self,
        environment: str | None = None,
        player_id: int | None = None,
        kind: str | None = None,
        *,
        periods: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> wire.Page[wire.Event]:
        """Read the audit log, newest first: who changed what, when and why; closed rating periods if asked for."""
        query = {"environment": environment, "player": player_id, "kind": kind, "limit": limit, "cursor": cursor}
        return self._get("/events/history", wire.Page[wire.Event], {**query, "periods": str(periods).lower()})

    # --- leases and results ------------------------------------------------------------------------------------------

    def lease(self, request: wire.TrainingLeases | wire.RatingLeases) -> wire.LeaseAnswer:
        """Ask for opponents of a learner, or for pairs of frozen players."""
        return self._post("/leases", request, wire.LeaseAnswer)

    def release(self, request: wire.ReleaseRequest) -> wire.ReleaseAnswer:
        """Give leases back."""
        return self._post("/leases/release", request, wire.ReleaseAnswer)

    def explain_lease(self, lease_id: str) -> wire.LeaseExplanation:
        """Show why a lease's opponent was drawn."""
        return self._get(f"/leases/{lease_id}", wire.LeaseExplanation)

    def report(self, batch: wire.ResultBatch) -> wire.ResultBatchAnswer:
        """Report finished matches; sending a batch again is safe."""
        answer = self._send("POST", f"{PREFIX}/results", batch)
        if answer.status_code != _CONFLICT:
            _raise_for_problem(answer)
        return _read(answer, wire.ResultBatchAnswer)

    # --- gates -------------------------------------------------------------------------------------------------------

    def gate(self, request: wire.GateCreate) -> wire.Gate:
        """Find the gate of this test of these two, or open it."""
        return self._post("/gates", request, wire.Gate)

    def show_gate(self, gate_id: int) -> wire.Gate:
        """Show a gate and where it stands."""
        return self._get(f"/gates/{gate_id}", wire.Gate)

    def gates(
        self,
        environment: str | None = None,
        state: wire.GateState | None = None,
        player_id: int | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> wire.Page[wire.Gate]:
        """List gates, newest first; `player_id` is either of the two."""
        query = {"environment": environment, "state": state, "player": player_id, "limit": limit, "cursor": cursor}
        return self._get("/gates", wire.Page[wire.Gate], query)

    def cancel_gate(self, gate_id: int, reason: str = "") -> wire.Gate:
        """Give an open gate up without a verdict."""
        return self._post(f"/gates/{gate_id}/cancel", wire.GateCancel(reason=reason), wire.Gate)

    # --- what came of it ---------------------------------------------------------------------------------------------

    def standings(
        self,
        environment: str | None = None,
        standing: wire.Standing | None = None,
        limit: int = 100,
        cursor: str | None = None,
        as_of: int | None = None,
    ) -> wire.Page[wire.StandingsItem]:
        """Show the league table of an environment (None: the league's only one), now or as of a past period."""
        query = {"environment": environment, "standing": standing, "limit": limit, "cursor": cursor, "as_of": as_of}
        return self._get("/standings", wire.Page[wire.StandingsItem], query)

    def ratings(self, player_id: int, limit: int = 1000, cursor: str | None = None) -> wire.Page[wire.RatingPoint]:
        """Show a player's rating curve, oldest period first."""
        query = {"limit": limit, "cursor": cursor}
        return self._get(f"/players/{player_id}/ratings", wire.Page[wire.RatingPoint], query)

    def matches(self, player_id: int, limit: int = 100, cursor: str | None = None) -> wire.Page[wire.Match]:
        """Show a player's matches, newest first."""
        query = {"limit": limit, "cursor": cursor}
        return self._get(f"/players/{player_id}/matches", wire.Page[wire.Match], query)

    def match(self, match_id: int) -> wire.Match:
        """Show one match."""
        return self._get(f"/matches/{match_id}", wire.Match)

    def payoff(self, environment: str | None = None, limit: int = 100) -> wire.Payoff:
        """Show who beats whom among the `limit` strongest players in play; `total` says how many there are."""
        return self._get("/payoff", wire.Payoff, {"environment": environment, "limit": limit})

    def superiority(self, environment: str | None = None, limit: int = 100) -> wire.Superiority:
        """Show how sure the order of the frozen players is: 95 % bands, and who is likely stronger than whom."""
        return self._get("/superiority", wire.Superiority, {"environment": environment, "limit": limit})

    def redundant(self, environment: str | None = None) -> wire.Page[wire.Redundancy]:
        """List the snapshots that another one, which is no weaker, scores like."""
        return self._get("/redundancy", wire.Page[wire.Redundancy], {"environment": environment})

    def regressions(self, environment: str | None = None) -> wire.Page[wire.Regression]:
        """List the main learners that lose to snapshots which they used to beat."""
        return self._get("/regressions", wire.Page[wire.Regression], {"environment": environment})

    def preview(self, player_id: int) -> wire.Preview:
        """Show the distribution that the learner's next lease is drawn from."""
        return self._get("/matchmaking/preview", wire.Preview, {"player": player_id})

    def evaluate_matchmaking(
        self, player_id: int, rule: str, last: int = 10_000, since: datetime | None = None
    ) -> wire.MatchmakingEvaluation:
        """Estimate from its last leases how another rule would have distributed a learner's games, and scored."""
        start = None if since is None else since.isoformat()
        query: dict[str, str | int | None] = {"player": player_id, "rule": rule, "last": last, "since": start}
        return self._get("/matchmaking/evaluation", wire.MatchmakingEvaluation, query)

    def close_period(self, environment: str | None = None, reason: str = "by hand") -> wire.RatingPeriod:
        """Rate everything reported so far."""
        request = wire.PeriodCreate(environment=environment, reason=reason)
        return self._post("/rating-periods", request, wire.RatingPeriod)

    def periods(
        self, environment: str | None = None, limit: int = 100, cursor: str | None = None, version: int | None = None
    ) -> wire.Page[wire.RatingPeriod]:
        """List rating periods of a version of the ratings (None: the present one), newest first."""
        query = {"environment": environment, "limit": limit, "cursor": cursor, "version": version}
        return self._get("/rating-periods", wire.Page[wire.RatingPeriod], query)

    def health(self) -> wire.Health:
        """Say whether the server is ready, and why not."""
        return _read(self._send("GET", "/readyz"), wire.Health)

    # --- plumbing ----------------------------------------------------------------------------------------------------

    def _change(self, player_id: int, change: str, reason: str, expected: wire.Standing | None) -> wire.Player:
        request = wire.LifecycleRequest(reason=reason, expected=expected)
        return self._post(f"/players/{player_id}/{change}", request, wire.Player)

    def _get(self, path: str, kind: type[AnswerT], query: Query | None = None) -> AnswerT:
        answer = self._send("GET", PREFIX + path, query=query)
        _raise_for_problem(answer)
        return _read(answer, kind)

    def _post(self, path: str, body: BaseModel, kind: type[AnswerT]) -> AnswerT:
        answer = self._send("POST", PREFIX + path, body)
        _raise_for_problem(answer)
        return _read(answer, kind)

    def _fetch_on(self, path: str, fetch: transfer.Fetch, until: float) -> None:
        """Fetch more of a checkpoint, all of it if the connection holds."""
        lane, before = lane_of("GET", path), fetch.received
        self._patience.await_turn(lane, until)
        headers = {**self._headers, **fetch.headers}
        try:
            with self._http.stream("GET", path, headers=headers, follow_redirects=False) as answer:
                if answer.is_success or answer.has_redirect_location:
                    fetch.take(answer)
                    return
                answer.read()
        except httpx2.TransportError as error:
            if fetch.received <= before:
                raise self._unreachable(error) from error
            return
        refusal = _come_back_later(answer)
        if refusal is None:
            _raise_for_problem(answer)
        else:
            self._patience.note(lane, refusal)

    def _send(
        self,
        method: str,
        path: str,
        body: BaseModel | None = None,
        query: Query | None = None,
        content: bytes | IO[bytes] | None = None,
    ) -> httpx2.Response:
        headers = dict(self._headers)
        if body is not None:
            content, headers["Content-Type"] = body.model_dump_json().encode(), "application/json"
        params = {key: value for key, value in (query or {}).items() if value is not None}
        lane, until = lane_of(method, path), self._patience.begin()
        start = 0 if content is None or isinstance(content, bytes) else content.tell()
        while True:
            self._patience.await_turn(lane, until)
            try:
                answer = self._http.request(method, path, content=content, params=params, headers=headers)
            except httpx2.TransportError as error:
                raise self._unreachable(error) from error
            refusal = _come_back_later(answer)
            if refusal is None:
                return answer
            self._patience.note(lane, refusal)
            if not (content is None or isinstance(content, bytes)):
                content.seek(start)

    def _unreachable(self, error: httpx2.TransportError) -> LeagueUnreachable:
        cause = str(error) or type(error).__name__
        way_out = "start it with `league serve`, or check the address and the network"
        return LeagueUnreachable(self._http.base_url, f"no answer ({cause})", way_out)


def patience_of(seconds: float) -> Patience:
    """Return patience with a busy server for so many seconds a call; 0 never waits."""
    return Patience(seconds, time.monotonic, time.sleep, random.Random())  # noqa: S311 - jitter


def _come_back_later(answer: httpx2.Response) -> LeagueError | None:
    """Return the refusal of a call that nothing came of yet because there are too many; None for any other answer."""
    if answer.status_code not in (BusyError.status, _TOO_MANY_REQUESTS):
        return None
    error = _problem(answer)
    early = isinstance(error, BusyError) or answer.status_code == _TOO_MANY_REQUESTS
    return error if early and error is not None and error.retry_after_s is not None else None


def _problem(answer: httpx2.Response) -> LeagueError | None:
    """Return the error that the answer carries, if it carries one."""
    try:
        problem = answer.json()
    except json.JSONDecodeError:
        return None
    if not (isinstance(problem, dict) and "type" in problem):
        return None
    error = from_problem(problem)
    seconds = answer.headers.get("Retry-After", "")
    error.retry_after_s = int(seconds) if seconds.isdecimal() else None
    return error


def _raise_for_problem(answer: httpx2.Response) -> None:
    """Raise the error that the answer carries, if it carries one."""
    if answer.is_success:
        return
    raise _problem(answer) or _strange(answer, f"it answered {answer.status_code}")


def _read(answer: httpx2.Response, kind: type[AnswerT]) -> AnswerT:
    try:
        return kind.model_validate_json(answer.content)
    except ValidationError as error:
        raise _strange(answer, f"its answer is not a {kind.__name__} ({error.error_count()} fields differ)") from error


def _strange(answer: httpx2.Response, rule: str) -> LeagueError:
    return LeagueError(answer.url, rule, "check that a league server of this version listens there")
