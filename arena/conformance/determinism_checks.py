"""Whether matches repeat, wherever and after whatever they are played."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from arena.conformance.checks import CHANCE, IGNORED, NEXT_MATCH, PROCESSES, REPEATS, RESET, ROWS, Rule
from arena.conformance.lockstep import Difference, Lockstep
from arena.conformance.report import Row
from arena.conformance.step_checks import parts_of, tensors_of
from arena.conformance.transitions import describe, draw
from arena.environments.adapters.subprocess.factory import plays_single_matches
from arena.environments.base import Actions, Environment, Observation
from arena.environments.spec import HeadKind
from arena.seeding import derive

ROWS_COMPARED = 4
"""Matches that are played twice at once."""

MOST_PROCESSES = 2

WAITING_S = 60.0
"""How long a process may take for a decision here: whoever verifies a game waits for it."""

Maker = Callable[..., Environment]
"""Makes the environment: takes `num_envs` and `seed`, and `processes` where it plays one match at a time."""


@dataclass(frozen=True)
class Determinism:
    """Plays matches twice.

    Attributes:
        make: Makes the environment.
        seed: Seed from which all other seeds are derived.
        decisions: Most decisions of a comparison.
    """

    make: Maker
    seed: int
    decisions: int

    def rows(self) -> Iterator[Row]:
        """A row for each way of playing them again."""
        one = self._open(0)
        if not one.spec.reproducible:
            why = "it declares reproducible=False"
            yield from (rule.not_applicable(why) for rule in (REPEATS, ROWS, RESET, NEXT_MATCH, PROCESSES, IGNORED))
            return
        yield _judge(REPEATS, self._again, f"{ROWS_COMPARED} matches, played twice")
        yield _judge(ROWS, self._elsewhere, "in another order, with another seed of the environment, and alone")
        yield _judge(RESET, self._afterwards, "after an unfinished match, and after a finished one")
        yield _judge(NEXT_MATCH, self._otherwise, "with other matches after them")
        yield self._in_processes(one)
        yield self._with_other_actions(one)

    def chance(self) -> Row:
        """Whether other seeds make other matches, while everybody draws the same actions."""
        try:
            differ = self._differ_by_seed()
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises
            return CHANCE.failed(describe(error), "with other seeds")
        said = "other seeds, same actions: " + ("other matches" if differ else "the same matches")
        match self._open(0).spec.chance, differ:
            case (False, True):
                return CHANCE.failed(f"it declares no chance; {said}")
            case (True, False):
                return CHANCE.warned(f"it declares chance; {said}")
            case (None, False):
                return CHANCE.not_applicable(
                    f"{said}. This is correct for a game without chance, otherwise it ignores its seeds"
                )
        return CHANCE.passed(said)

    def seeds(self, purpose: str, rows: int = ROWS_COMPARED) -> Tensor:
        """Seeds for so many rows."""
        return torch.tensor([derive(self.seed, purpose, row) for row in range(rows)], dtype=torch.int64)

    def _open(self, seed: int, rows: int = ROWS_COMPARED, **told: float) -> Environment:
        return self.make(num_envs=rows, seed=derive(self.seed, "environment", seed), **told)

    def _rng(self) -> torch.Generator:
        return torch.Generator().manual_seed(derive(self.seed, "comparison"))

    def _compare(self, one: Environment, other: Environment, rows: Sequence[int]) -> Difference | None:
        """Open the same matches in both, and play them."""
        seeds = self.seeds("match").to(one.device)
        opened = one.reset(seeds), other.reset(seeds[torch.tensor(rows)])
        return Lockstep(one, other, rows).compare(*opened, self._rng(), decisions=self.decisions)

    def _again(self) -> Difference | None:
        return self._compare(self._open(0), self._open(0), range(ROWS_COMPARED))

    def _elsewhere(self) -> Difference | None:
        turned = [*reversed(range(ROWS_COMPARED))]
        return self._compare(self._open(0), self._open(1), turned) or self._compare(
            self._open(0), self._open(2, rows=1), turned[:1]
        )

    def _afterwards(self) -> Difference | None:
        """A match that was broken off, and one that had ended, in a row that opened the next by itself."""
        used = self._open(0)
        _play(used, used.reset(self.seeds("other")), self._rng(), decisions=max(1, used.spec.max_decisions // 2))
        if found := self._compare(self._open(0), used, range(ROWS_COMPARED)):
            return found
        one, used = (self._open(0, rows=1) for _ in range(2))
        seeds = self.seeds("match", rows=1).to(one.device)
        shown = used.reset(self.seeds("other", rows=1))
        used.next_seeds.copy_(seeds)
        shown = _play(used, shown, self._rng(), decisions=self.decisions)
        if int(used.seeds[0]) != int(seeds[0]):
            return None  # its match is longer than comparisons are
        return Lockstep(one, used, [0]).compare(one.reset(seeds), shown, self._rng(), decisions=self.decisions)

    def _otherwise(self) -> Difference | None:
        one, other = self._open(0), self._open(0)
        seeds = self.seeds("match").to(one.device)
        opened = one.reset(seeds), other.reset(seeds)
        other.next_seeds.copy_(self.seeds("next"))
        twins = Lockstep(one, other, range(ROWS_COMPARED))
        return twins.compare(*opened, self._rng(), decisions=self.decisions, same_next=False)

    def _in_processes(self, one: Environment) -> Row:
        if not plays_single_matches(one):
            return PROCESSES.not_applicable("it steps a whole batch itself")
        said = f"0 and {MOST_PROCESSES} processes"
        return _judge(PROCESSES, lambda: self._compare(self._open(0), self._hosted(), range(ROWS_COMPARED)), said)

    def _hosted(self) -> Environment:
        return self._open(0, processes=MOST_PROCESSES, step_limit_s=WAITING_S)

    def _with_other_actions(self, one: Environment) -> Row:
        spec = one.spec
        chance = self._rng()

        def meddle(actions: Actions, observation: Observation) -> Actions:
            """Draw the actions of inactive agents anew, without regard to masks."""
            changed = {}
            for head in spec.heads:
                action = actions[head.name]
                drawn = torch.rand(action.shape, generator=chance).to(action.device)
                match head.kind:
                    case HeadKind.GAUSSIAN:
                        drawn = 2.0 * drawn - 1.0
                    case HeadKind.BERNOULLI:
                        drawn = drawn < 0.5
                    case HeadKind.CATEGORICAL:
                        drawn = (drawn * head.size).long()
                acts = observation.active.view(*observation.active.shape, *(1,) * (action.dim() - 2))
                changed[head.name] = torch.where(acts, action, drawn)
            return changed

        def compare() -> Difference | None:
            two, other = self._open(0), self._open(0)
            seeds = self.seeds("match").to(one.device)
            twins = Lockstep(two, other, range(ROWS_COMPARED))
            shown, again = two.reset(seeds), other.reset(seeds)
            return twins.compare(shown, again, self._rng(), decisions=self.decisions, meddle=meddle)

        return _judge(IGNORED, compare, "drawn again, also masked ones")

    def _differ_by_seed(self) -> bool:
        one, other = self._open(0), self._open(0)
        seen = one.reset(self.seeds("match")), other.reset(self.seeds("other"))
        chances = self._rng(), self._rng()
        if _unlike(parts_of(seen[0]), parts_of(seen[1])):
            return True
        for _ in range(self.decisions):
            steps = [
                env.step(draw(env, shown, rng)) for env, shown, rng in zip((one, other), seen, chances, strict=True)
            ]
            if _unlike(tensors_of(steps[0]), tensors_of(steps[1])):
                return True
            seen = steps[0].observation, steps[1].observation
        return False


def _judge(rule: Rule, compare: Callable[[], Difference | None], said: str) -> Row:
    """What a comparison says of a rule."""
    try:
        found = compare()
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises: it was played without one before
        return rule.failed(describe(error), "while matches were played twice")
    return rule.passed(said) if found is None else rule.failed(*found)


def _play(env: Environment, shown: Observation, rng: torch.Generator, *, decisions: int) -> Observation:
    """Play until the match of the first row is over, or so many decisions."""
    for _ in range(decisions):
        step = env.step(draw(env, shown, rng))
        shown = step.observation
        if bool(step.over[0]):
            break
    return shown


def _unlike(some: Sequence[tuple[str, Tensor]], others: Sequence[tuple[str, Tensor]]) -> bool:
    return any(not torch.equal(one, other) for (_, one), (_, other) in zip(some, others, strict=True))
