"""Supervisor of `league up`: runs server, trainers and evaluator, shows their state and stops them in order."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from league.cli.up import overview
from league.cli.up.failures import PartRefusedError, error_of
from league.cli.up.plan import Plan, server_job, worker_jobs
from league.cli.up.screen import TAIL_LINES, Part, Screen, View
from league.client import LeagueClient, make_retry_gate
from league.errors import LeagueError, LeagueUnreachable, UnauthenticatedError
from league.home import HOME_VARIABLE, home_folder, withdraw_address
from league.process.restart_policy import RestartPolicy
from league.process.signals import EndSignals
from league.process.supervised_process import SupervisedProcess, UnexpectedExit

TICK_S = 0.25
SHOW_INTERVAL_S = 1.0
POLL_INTERVAL_S = 2.0
CALL_TIMEOUT_S = 5.0
STOP_GRACE_S = 10.0
RULE = RestartPolicy(short_life_s=120.0, most_short_lives=5, first_delay_s=1.0, longest_delay_s=30.0)


class Supervisor:
    """Runs a server, then trainers and an evaluator, until a signal arrives.

    Args:
        plan: Processes to run.
        screen: Output.
        credential: Returns a valid token, or None if authentication is disabled.
    """

    def __init__(self, plan: Plan, screen: Screen, credential: Callable[[], str | None]) -> None:
        self._plan = plan
        self._screen = screen
        self._credential = credential
        self._token = credential()
        self._client = LeagueClient(
            plan.url, token=self._token, timeout_s=CALL_TIMEOUT_S, patience=make_retry_gate(0.0)
        )
        self._server = SupervisedProcess(server_job(plan), RULE)
        self._workers = [SupervisedProcess(job, RULE) for job in worker_jobs(plan, self._token)]
        self._overview = overview.EMPTY
        self._note = ""
        self._ready = False
        self._poll_at_s = self._show_at_s = 0.0
        self._began_at, self._began_at_s = datetime.now(UTC), time.monotonic()
        self._signals = EndSignals(again=self._kill)

    @property
    def _children(self) -> list[SupervisedProcess]:
        return [self._server, *self._workers]

    def run(self) -> bool:
        """Run until SIGINT, SIGTERM or SIGHUP; return False if a second signal killed the processes.

        Raises:
            GaveUpError: A process crashed too often; all others have been stopped.
            PartRefusedError: A process failed permanently; all others have been stopped.
        """
        with self._signals:
            try:
                self._server.start(time.monotonic())
                while not self._signals.wait(TICK_S):
                    self._tick(time.monotonic())
            finally:
                self._shut_down()
                self._client.close()
        return self._signals.count < 2

    def _tick(self, now_s: float) -> None:
        for child in self._children:
            exit_event = child.poll(now_s)
            if exit_event is not None:
                self._report(exit_event)
        if not self._ready:
            self._await_server(now_s)
        elif now_s >= self._poll_at_s:
            self._poll_at_s = now_s + POLL_INTERVAL_S
            self._poll(now_s)
        if now_s >= self._show_at_s:
            self._show_at_s = now_s + SHOW_INTERVAL_S
            self._screen.show(self._view(now_s))

    def _report(self, exit_event: UnexpectedExit) -> None:
        error = error_of(exit_event) if exit_event.delay_s is None else None
        if isinstance(error, PartRefusedError):
            raise error
        for line in exit_event.last_lines:
            self._screen.print_line(f"  {exit_event.name}: {line}")
        if error is not None:
            raise error
        self._screen.print_line(
            f"{exit_event.name}: {exit_event.cause}; restarting in {exit_event.delay_s:g} s; log: {exit_event.log}"
        )

    def _await_server(self, now_s: float) -> None:
        # Until the server is up, connection errors are expected; a crash is reported by `poll`.
        with suppress(LeagueError):
            self._ready = self._client.health().status == "ok"
        if self._ready:
            self._screen.print_line(f"server ready at {self._plan.url} (API documentation: {self._plan.url}/docs)")
            if home_folder().absolute() != self._plan.home.absolute():
                self._screen.print_line(f"for other commands, set {HOME_VARIABLE}={self._plan.home}")
            for worker in self._workers:
                worker.start(now_s)
                self._screen.print_line(f"{worker.job.name} starting; log: {worker.job.log}")

    def _poll(self, now_s: float) -> None:
        try:
            plan, rows = self._plan, self._screen.rows()
            after = overview.fetch(self._client, plan.environment, plan.names, rows, self._overview)
        except LeagueUnreachable:
            self._note = "the server does not respond"
        except UnauthenticatedError as error:
            self._adopt_token(error, now_s)
        except LeagueError as error:
            self._note = str(error)
        else:
            for line in overview.changes(self._overview, after):
                self._screen.print_line(f"{time.strftime('%H:%M:%S')} {line}")
            self._overview, self._note = after, ""

    def _adopt_token(self, error: UnauthenticatedError, now_s: float) -> None:
        """Switch to a new token, because authentication was turned on or the current token was revoked."""
        token = self._credential()
        # The same token cannot succeed, so another attempt would loop.
        if token == self._token:
            raise error
        self._screen.print_line("the league now requires a token; restarting trainer and evaluator with one")
        self._token = token
        self._client.close()
        self._client = LeagueClient(
            self._plan.url, token=token, timeout_s=CALL_TIMEOUT_S, patience=make_retry_gate(0.0)
        )
        for worker, job in zip(self._workers, worker_jobs(self._plan, token), strict=True):
            worker.replace(job, now_s, STOP_GRACE_S)

    def _view(self, now_s: float) -> View:
        plan = self._plan
        starting = self._workers[0] if self._ready else self._server
        # The server's log begins with the lines that `serve.prepare` has just printed.
        tail = starting.last_lines(TAIL_LINES) if self._ready else ()
        return View(
            url=plan.url,
            home=plan.home,
            environment=plan.environment,
            began_at=self._began_at,
            uptime_s=now_s - self._began_at_s,
            parts=[Part(child.job.name, child.state, child.restarts) for child in self._children],
            overview=self._overview,
            tail=tail or (f"{starting.job.name} is starting ...",),
            note=self._note,
        )

    def _shut_down(self) -> None:
        """Stop the workers while the server still accepts their last results, then the server."""
        self._print_at_shutdown("stopping trainer and evaluator, then the server (Ctrl-C again kills them) ...")
        # The workers first: they still deliver their last results and checkpoints to the server.
        self._stop_all(self._workers)
        self._stop_all([self._server])
        withdraw_address(self._plan.home, self._plan.url)  # a killed server does not withdraw it
        self._note = "all processes have stopped"
        self._show_at_shutdown()

    def _stop_all(self, children: Sequence[SupervisedProcess]) -> None:
        """Terminate processes and kill those that exceed the grace period."""
        for child in children:
            child.terminate()
        deadline_s = time.monotonic() + STOP_GRACE_S
        while awaited := [child for child in children if child.running]:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                break
            names = ", ".join(child.job.name for child in awaited)
            self._note = f"stopping: waiting for {names}; killed in {left_s:.0f} s, or at Ctrl-C"
            self._show_at_shutdown()
            time.sleep(TICK_S)
        for child in children:
            if not child.wait(0.0):
                self._print_at_shutdown(f"{child.job.name} did not stop within {STOP_GRACE_S:g} s and was killed")

    def _print_at_shutdown(self, line: str) -> None:
        with suppress(OSError):  # the terminal may be gone, which must not prevent the shutdown
            self._screen.print_line(line)

    def _show_at_shutdown(self) -> None:
        with suppress(OSError):
            self._screen.show(self._view(time.monotonic()))

    def _kill(self) -> None:
        for child in self._children:
            child.kill()
