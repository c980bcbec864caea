"""Verification of an environment: runs all checks in the order of the report."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from itertools import pairwise

import torch

from arena.conformance import checks
from arena.conformance import side_effects as containing
from arena.conformance.determinism_checks import WAITING_S, Determinism
from arena.conformance.misuse_checks import try_illegal_actions, try_wrong_calls
from arena.conformance.random_play import Played, RandomPlay, Result
from arena.conformance.report import Finding, Report
from arena.conformance.spec_checks import compare_with_fresh_processes, faults_of
from arena.conformance.transitions import describe, draw
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
        self._signature: str | None = None
        self._played: Played | None = None
        self._threads = containing.waited_for()

    def report(self) -> Report:
        rows = tuple(self._rows())
        played = self._played
        pace = played.decisions / played.stepping_s if played and played.stepping_s else None
        return Report(self._name, self._signature, len(played.results) if played else 0, self._seed, pace, rows)

    def _rows(self) -> Iterator[Finding]:
        try:
            env = make(self._name, num_envs=1, seed=self._seed)
            rows = list(self._declared(env.spec))
        except ArenaError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises when it is made
            rows = [checks.SPECIFICATION.failed(f"it cannot be created: {describe(error)}")]
        yield from rows
        if any(row.broken for row in rows):
            yield from _not_reached((*checks.PLAYED, *checks.LATER), rows)
            return
        answers = self._answers(env)
        yield answers
        if answers.broken:
            yield from _not_reached((*checks.PLAYED, *checks.LATER), [answers])
            return
        self._played = played = self._play(env.spec)
        rows = played.rows(env.spec)
        yield from rows
        if played.stopped:
            yield from _not_reached(checks.LATER, rows)
            return
        yield from self._later(env.spec, played)

    def _declared(self, spec: EnvironmentSpec) -> Iterator[Finding]:
        """Check the spec, and that it is the same each time and in every process."""
        with self._progress("what it declares", 1) as advance:
            again = [declare(self._name), make(self._name, num_envs=1, seed=self._seed + 1).spec]
            if faults := faults_of(spec):
                more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
                yield checks.SPECIFICATION.failed(f"{faults[0]}{more}")
                return
            for one, other in pairwise([spec, *again]):
                if one != other:
                    yield checks.SPECIFICATION.failed(
                        f"its spec differs when it is created again: {_differing_fields(one, other)}"
                    )
                    return
            self._signature = spec.signature
            yield checks.SPECIFICATION.passed(_summary(spec))
            yield compare_with_fresh_processes(spec)
            advance(1)

    def _answers(self, env: Environment) -> Finding:
        """Play in another process first, because a crash or a hang there does not harm this one."""
        if not plays_single_matches(env):
            return checks.ANSWERS.not_applicable("it steps a whole batch itself, in this process")
        rng = torch.Generator().manual_seed(self._seed)
        rows, decisions = 2, min(MOST_COMPARED, env.spec.max_decisions)
        with self._progress("another process", decisions) as advance:
            try:
                hosted = make(self._name, num_envs=rows, seed=self._seed, processes=1, step_limit_s=WAITING_S)
                shown = hosted.reset()
                for _ in range(decisions):
                    step = hosted.step(draw(hosted, shown, rng))
                    shown = step.observation
                    advance(1)
            except (Exception, SystemExit) as error:  # noqa: BLE001  as above
                return checks.ANSWERS.failed(_cause_of(error))
        return checks.ANSWERS.passed(f"{decisions:,} decisions of {rows} matches in another process")

    def _play(self, spec: EnvironmentSpec) -> Played:
        rows = min(MAX_ROWS, -(-self._matches // 2))
        env = make(self._name, num_envs=rows, seed=derive(self._seed, "play"))
        seeds = torch.tensor([derive(self._seed, "opening", row) for row in range(rows)], dtype=torch.int64)
        rng = torch.Generator().manual_seed(derive(self._seed, "players"))
        with self._progress("matches at random", self._matches) as advance:
            return RandomPlay(env, self._matches, rng, advance).play(seeds)

    def _later(self, spec: EnvironmentSpec, played: Played) -> Iterator[Finding]:
        """Run the checks that need a playable environment."""
        repeating = Determinism(partial(make, self._name), self._seed, min(spec.max_decisions, MOST_COMPARED))
        with self._progress("matches played twice", len(checks.LATER)) as advance:
            for row in self._rest(spec, played, repeating):
                yield row
                advance(1)

    def _rest(self, spec: EnvironmentSpec, played: Played, repeating: Determinism) -> Iterator[Finding]:
        yield from repeating.rows()
        yield repeating.chance()
        yield _guarded(
            checks.ILLEGAL, partial(try_illegal_actions, repeating, in_range=checks.RANGES not in played.faults)
        )
        yield _guarded(checks.REFUSALS, partial(try_wrong_calls, repeating))
        yield check_limit(spec, played.results)
        yield check_sides(spec, played.results)
        yield check_scores(played.results)
        yield _guarded(checks.CONTAINED, partial(self._contained, repeating))
        rate = played.decisions / played.stepping_s
        yield checks.SPEED.info(
            f"{rate:,.0f} decisions per second of {min(MAX_ROWS, -(-self._matches // 2))} parallel matches"
        )

    def _contained(self, repeating: Determinism) -> Finding:
        env = repeating.make(num_envs=2, seed=0)
        rng, shown = torch.Generator().manual_seed(0), env.reset()
        with containing.watching() as effects:
            for _ in range(WATCHED):
                shown = env.step(draw(env, shown, rng)).observation
        return containing.report_side_effects(effects, containing.waited_for() - self._threads)


def check_limit(spec: EnvironmentSpec, results: list[Result]) -> Finding:
    """Check that some matches end by the rules of the game and not by the limit."""
    if spec.limit_decides:
        return checks.STEP_LIMIT.not_applicable("its limit decides matches")
    by_rules = sum(not result.cut for result in results)
    if by_rules:
        return checks.STEP_LIMIT.passed(f"{by_rules} of {len(results)} matches ended by the game's rules")
    lengths = [result.decisions for result in results]
    return checks.STEP_LIMIT.warned(
        f"all {len(results)} matches were truncated, after {min(lengths):,} to {max(lengths):,} decisions"
    )


def check_sides(spec: EnvironmentSpec, results: list[Result]) -> Finding:
    """Check that home and away score the same between two random players, by a 95 % interval."""
    score = sum(result.score for result in results) / len(results)
    low, high = score_interval(score, len(results))
    detail = f"home scores {score:.3f} ({low:.3f} to {high:.3f}) of {len(results)} matches of equal players"
    if spec.unlike_sides is not None:
        return checks.SIDES.not_applicable(f"{' and '.join(spec.unlike_sides)} are rated separately; {detail}")
    return checks.SIDES.passed(detail) if low <= LEVEL <= high else checks.SIDES.warned(detail)


def check_scores(results: list[Result]) -> Finding:
    """Check that the winner has the higher return."""
    decided = [result for result in results if result.score != LEVEL and result.margin != 0.0]
    if len(decided) < MIN_DECIDED_MATCHES:
        return checks.SCORES.not_applicable(
            f"only {len(decided)} of {len(results)} matches had a winner and unequal rewards"
        )
    agreeing = sum((result.score > LEVEL) == (result.margin > 0.0) for result in decided)
    detail = f"the winner earned more in {agreeing} of {len(decided)} matches"
    _, high = score_interval(agreeing / len(decided), len(decided))
    return checks.SCORES.passed(detail) if high >= LEVEL else checks.SCORES.warned(detail)


def _cause_of(error: BaseException) -> str:
    """Return why a process cannot play: the error line and the last line of the traceback."""
    if not isinstance(error, ArenaError):
        return describe(error)
    line, *traceback_lines = str(error).splitlines()
    places = [each.strip() for each in traceback_lines if each.startswith("  File ")]
    return f"{line} ({places[-1]})" if places else line


def _guarded(rule: checks.Check, check: Callable[[], Finding]) -> Finding:
    """Run a check; an exception of the game is a failure of the rule."""
    try:
        return check()
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises
        return rule.failed(describe(error))


def _not_reached(rules: tuple[checks.Check, ...], rows: list[Finding]) -> Iterator[Finding]:
    """Yield findings for checks that an earlier failure prevents."""
    broken = next(row.check for row in rows if row.broken)
    yield from (rule.not_reached(f"{broken!r} failed") for rule in rules)


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
