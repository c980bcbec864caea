"""Verification of an environment: runs all checks in the order of the report."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import pairwise

import torch

from arena.conformance import checks, side_effects
from arena.conformance.determinism_checks import WAITING_S, Determinism
from arena.conformance.misuse_checks import try_illegal_actions, try_wrong_calls
from arena.conformance.random_play import Played, RandomPlay, Result
from arena.conformance.report import Finding, NotApplicableError, Report, Verdict, ViolationError, describe
from arena.conformance.spec_checks import compare_with_fresh_processes, faults_of
from arena.conformance.transitions import draw
from arena.environments import declare, make
from arena.environments.adapters.subprocess.factory import plays_single_matches
from arena.environments.base import Environment
from arena.environments.spec import EnvironmentSpec
from arena.errors import ArenaError
from arena.play.series import score_interval
from arena.seeding import derive

MAX_ROWS = 32
"""Largest number of parallel matches; each row plays several, one after another."""

MOST_COMPARED = 2000
"""Largest number of decisions of a match that is played twice."""

WATCHED = 200
"""Number of decisions in which side effects are recorded."""

LEVEL = 0.5
MIN_DECIDED_MATCHES = 10
"""Smallest number of matches with a winner and unequal returns for a comparison of scores with rewards."""

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Context manager of a progress bar, from a title and a total; it returns a function that advances the bar."""


def verify(name: str, *, matches: int, seed: int, progress: Progress) -> Report:
    """Check an environment against the environment contract.

    Args:
        name: Name of the environment, see `arena.environments.make`.
        matches: Number of matches between random players, at least 1.
        seed: Seed from which all other seeds are derived.
        progress: Shows the progress.

    Raises:
        UnknownEnvironmentError: No environment has that name.
        ArenaError: The environment is rejected; the message contains the reason.
    """
    with torch.no_grad():
        return _Verification(name, matches, seed, progress).report()


class _Verification:
    def __init__(self, name: str, matches: int, seed: int, progress: Progress) -> None:
        self._name, self._matches, self._seed, self._progress = name, matches, seed, progress
        self._num_envs = min(MAX_ROWS, -(-matches // 2))
        self._signature: str | None = None
        self._played: Played | None = None
        self._threads = side_effects.blocking_threads()

    def report(self) -> Report:
        rows, played = [*self._rows()], self._played
        if unreached := checks.TABLE[len(rows) :]:
            stopped = next(check for check, row in zip(checks.TABLE, rows, strict=False) if check.stops and row.broken)
            rows += [check.finding(Verdict.NOT_REACHED, f"{stopped.name!r} failed") for check in unreached]
        pace = played.decisions / played.stepping_s if played and played.stepping_s else None
        finished = len(played.results) if played else 0
        return Report(self._name, self._signature, finished, self._seed, pace, tuple(rows))

    def _rows(self) -> Iterator[Finding]:
        try:
            env = make(self._name, num_envs=1, seed=self._seed)
            again = [declare(self._name), make(self._name, num_envs=1, seed=self._seed + 1).spec]
        except ArenaError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises when it is made
            yield checks.SPECIFICATION.finding(Verdict.FAILED, f"it cannot be created: {describe(error)}")
            return
        for check, function in (
            (checks.SPECIFICATION, partial(self._compare_specs, env.spec, *again)),
            (checks.SIGNATURE, partial(self._compare_signatures, env.spec)),
            (checks.ANSWERS, partial(self._play_elsewhere, env)),
        ):
            row = check.run(function)
            yield row
            if row.broken:
                return
        self._played = played = self._play()
        yield from played.rows(env.spec)
        if not played.stopped:
            yield from self._later(env.spec, played)

    def _compare_specs(self, spec: EnvironmentSpec, *again: EnvironmentSpec) -> str:
        if faults := faults_of(spec):
            more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
            raise ViolationError(f"{faults[0]}{more}")
        for one, other in pairwise([spec, *again]):
            if one != other:
                raise ViolationError(f"its spec differs when it is created again: {_differing_fields(one, other)}")
        self._signature = spec.signature
        return _summary(spec)

    def _compare_signatures(self, spec: EnvironmentSpec) -> str:
        with self._progress("new processes", 1) as advance:
            detail = compare_with_fresh_processes(spec)
            advance(1)
        return detail

    def _play_elsewhere(self, env: Environment) -> str:
        """Play in another process first, because a crash or a hang there does not harm this one."""
        if not plays_single_matches(env):
            raise NotApplicableError("it steps a whole batch itself, in this process")
        rng = torch.Generator().manual_seed(self._seed)
        rows, decisions = 2, min(MOST_COMPARED, env.spec.max_decisions)
        with self._progress("another process", decisions) as advance:
            try:
                hosted = make(self._name, num_envs=rows, seed=self._seed, processes=1, step_limit_s=WAITING_S)
                shown = hosted.reset()
                for _ in range(decisions):
                    shown = hosted.step(draw(hosted, shown, rng)).observation
                    advance(1)
            except ArenaError as error:
                raise ViolationError(_cause_of(error)) from error
        return f"{decisions:,} decisions of {rows} matches in another process"

    def _play(self) -> Played:
        env = make(self._name, num_envs=self._num_envs, seed=derive(self._seed, "play"))
        seeds = torch.tensor([derive(self._seed, "opening", row) for row in range(self._num_envs)], dtype=torch.int64)
        rng = torch.Generator().manual_seed(derive(self._seed, "players"))
        with self._progress("matches at random", self._matches) as advance:
            return RandomPlay(env, self._matches, rng, advance).play(seeds)

    def _later(self, spec: EnvironmentSpec, played: Played) -> Iterator[Finding]:
        """Run the checks that need a playable environment."""
        repeating = Determinism(partial(make, self._name), self._seed, min(spec.max_decisions, MOST_COMPARED))
        in_range = checks.RANGES not in played.faults
        later: Sequence[tuple[checks.Check, Callable[[], str]]] = (
            *repeating.checks(),
            (checks.ILLEGAL, partial(try_illegal_actions, repeating, in_range=in_range)),
            (checks.REFUSALS, partial(try_wrong_calls, repeating)),
            (checks.STEP_LIMIT, partial(check_limit, spec, played.results)),
            (checks.SIDES, partial(check_sides, spec, played.results)),
            (checks.SCORES, partial(check_scores, played.results)),
            (checks.CONTAINED, partial(self._watch, repeating)),
        )
        with self._progress("matches played twice", len(later)) as advance:
            for check, function in later:
                yield check.run(function)
                advance(1)
        detail = (
            f"{played.decisions / played.stepping_s:,.0f} decisions per second of {self._num_envs} parallel matches"
        )
        yield checks.SPEED.finding(Verdict.INFO, detail)

    def _watch(self, repeating: Determinism) -> str:
        env = repeating.make(num_envs=2, seed=0)
        rng, shown = torch.Generator().manual_seed(0), env.reset()
        with side_effects.watching() as effects:
            for _ in range(WATCHED):
                shown = env.step(draw(env, shown, rng)).observation
        return side_effects.report_side_effects(effects, side_effects.blocking_threads() - self._threads)


def check_limit(spec: EnvironmentSpec, results: list[Result]) -> str:
    """Check that some matches end by the rules of the game and not by the limit."""
    if spec.limit_decides:
        raise NotApplicableError("its limit decides matches")
    by_rules = sum(not result.cut for result in results)
    if by_rules:
        return f"{by_rules} of {len(results)} matches ended by the game's rules"
    lengths = [result.decisions for result in results]
    span = f"{min(lengths):,} to {max(lengths):,}"
    raise ViolationError(f"all {len(results)} matches were truncated, after {span} decisions")


def check_sides(spec: EnvironmentSpec, results: list[Result]) -> str:
    """Check that home and away score the same between two random players, by a 95 % interval."""
    score = sum(result.score for result in results) / len(results)
    low, high = score_interval(score, len(results))
    detail = f"home scores {score:.3f} ({low:.3f} to {high:.3f}) of {len(results)} matches of equal players"
    if spec.unlike_sides is not None:
        raise NotApplicableError(f"{' and '.join(spec.unlike_sides)} are rated separately; {detail}")
    if not low <= LEVEL <= high:
        raise ViolationError(detail)
    return detail


def check_scores(results: list[Result]) -> str:
    """Check that the winner has the higher return."""
    decided = [result for result in results if result.score != LEVEL and result.margin != 0.0]
    if len(decided) < MIN_DECIDED_MATCHES:
        raise NotApplicableError(f"only {len(decided)} of {len(results)} matches had a winner and unequal rewards")
    agreeing = sum((result.score > LEVEL) == (result.margin > 0.0) for result in decided)
    detail = f"the winner earned more in {agreeing} of {len(decided)} matches"
    _, high = score_interval(agreeing / len(decided), len(decided))
    if high < LEVEL:
        raise ViolationError(detail)
    return detail


def _cause_of(error: ArenaError) -> str:
    """Return why a process cannot play: the error line and the last line of the traceback."""
    line, *traceback_lines = str(error).splitlines()
    locations = [each.strip() for each in traceback_lines if each.startswith("  File ")]
    return f"{line} ({locations[-1]})" if locations else line


def _summary(spec: EnvironmentSpec) -> str:
    home, away = spec.agents_per_side
    heads = ", ".join(f"{head.name} {head.kind} {head.size}" for head in spec.heads)
    roles = spec.unlike_sides
    sides = "sides alike" if roles is None else f"sides rated separately ({' and '.join(roles)})"
    return f"{home} v {away} agents, {sides}, observation of {spec.observation_size:,} floats, {heads}"


def _differing_fields(one: EnvironmentSpec, other: EnvironmentSpec) -> str:
    """Return the names of the fields in which two specs differ."""
    mine, theirs = vars(one), vars(other)
    return ", ".join(name for name in mine if mine[name] != theirs.get(name)) or "its type"
