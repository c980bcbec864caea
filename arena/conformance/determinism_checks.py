"""Checks of determinism: the same seeds and actions give the same match in any row, order and process."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from arena.conformance import checks
from arena.conformance.lockstep import Difference, Lockstep, Perturbation, leave
from arena.conformance.report import Finding
from arena.conformance.step_checks import parts_of, tensors_of
from arena.conformance.transitions import describe, draw
from arena.environments.adapters.subprocess.factory import plays_single_matches
from arena.environments.base import Actions, Environment, Observation
from arena.seeding import derive

ROWS_COMPARED = 4
"""Number of parallel matches that are played twice."""

MOST_PROCESSES = 2

WAITING_S = 60.0
"""Time limit of a decision in another process, generous because a verification is not urgent."""

Maker = Callable[..., Environment]
"""Creates the environment from `num_envs` and `seed`, and `processes` if it plays single matches."""


@dataclass(frozen=True)
class Determinism:
    """Plays matches twice and compares them.

    Attributes:
        make: Creates the environment.
        seed: Seed from which all other seeds are derived.
        decisions: Largest number of decisions of a comparison.
    """

    make: Maker
    seed: int
    decisions: int

    def rows(self) -> Iterator[Finding]:
        """Yield a finding for each way of repeating a match."""
        one = self._open(0)
        if not one.spec.reproducible:
            why = "it declares reproducible=False"
            repeating = checks.LATER[: checks.LATER.index(checks.CHANCE)]
            yield from (check.not_applicable(why) for check in repeating)
            return
        yield _run_comparison(checks.REPEATS, self._again, f"{ROWS_COMPARED} matches, played twice")
        yield _run_comparison(
            checks.ROWS, self._elsewhere, "in another order, with another seed of the environment, and alone"
        )
        yield _run_comparison(checks.RESET, self._afterwards, "after an unfinished match, and after a finished one")
        yield _run_comparison(checks.NEXT_MATCH, self._otherwise, "with other matches after them")
        yield self._in_processes(one)
        yield self._with_other_actions(one)

    def chance(self) -> Finding:
        """Check whether the seed changes a match under the same actions."""
        try:
            differ = self._differ_by_seed()
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises
            return checks.CHANCE.failed(describe(error), "with other seeds")
        detail = "other seeds, same actions: " + ("other matches" if differ else "the same matches")
        match self._open(0).spec.chance, differ:
            case (False, True):
                return checks.CHANCE.failed(f"it declares no chance; {detail}")
            case (True, False):
                return checks.CHANCE.warned(f"it declares chance; {detail}")
            case (None, False):
                return checks.CHANCE.not_applicable(
                    f"{detail}. This is correct for a game without chance, otherwise it ignores its seeds"
                )
        return checks.CHANCE.passed(detail)

    def seeds(self, purpose: str, rows: int = ROWS_COMPARED) -> Tensor:
        """Return seeds for a number of rows."""
        return torch.tensor([derive(self.seed, purpose, row) for row in range(rows)], dtype=torch.int64)

    def _open(self, seed: int, rows: int = ROWS_COMPARED, **options: float) -> Environment:
        return self.make(num_envs=rows, seed=derive(self.seed, "environment", seed), **options)

    def _rng(self) -> torch.Generator:
        return torch.Generator().manual_seed(derive(self.seed, "comparison"))

    def _compare(
        self,
        one: Environment,
        other: Environment,
        rows: Sequence[int] = range(ROWS_COMPARED),
        *,
        perturb: Perturbation = leave,
        next_seeds: Tensor | None = None,
    ) -> Difference | None:
        """Start the same matches in both environments and compare them.

        `next_seeds` gives the second environment different next matches.
        """
        seeds = self.seeds("match").to(one.device)
        opened = one.reset(seeds), other.reset(seeds[torch.tensor(rows)])
        if next_seeds is not None:
            other.next_seeds.copy_(next_seeds)
        lockstep, same_next = Lockstep(one, other, rows), next_seeds is None
        return lockstep.compare(*opened, self._rng(), decisions=self.decisions, perturb=perturb, same_next=same_next)

    def _again(self) -> Difference | None:
        return self._compare(self._open(0), self._open(0))

    def _elsewhere(self) -> Difference | None:
        turned = [*reversed(range(ROWS_COMPARED))]
        return self._compare(self._open(0), self._open(1), turned) or self._compare(
            self._open(0), self._open(2, rows=1), turned[:1]
        )

    def _afterwards(self) -> Difference | None:
        """Compare with a match that follows an unfinished match (reset) and a finished one (automatic next match)."""
        used = self._open(0)
        _play(used, used.reset(self.seeds("other")), self._rng(), decisions=max(1, used.spec.max_decisions // 2))
        if found := self._compare(self._open(0), used):
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
        return self._compare(self._open(0), self._open(0), next_seeds=self.seeds("next"))

    def _in_processes(self, one: Environment) -> Finding:
        if not plays_single_matches(one):
            return checks.PROCESSES.not_applicable("it steps a whole batch itself")
        detail = f"0 and {MOST_PROCESSES} processes"
        hosted = partial(self._open, 0, processes=MOST_PROCESSES, step_limit_s=WAITING_S)
        return _run_comparison(checks.PROCESSES, lambda: self._compare(self._open(0), hosted()), detail)

    def _with_other_actions(self, one: Environment) -> Finding:
        chance = self._rng()

        def perturb(actions: Actions, observation: Observation) -> Actions:
            """Redraw the actions of inactive agents, without regard to masks."""
            anything = {name: torch.ones_like(mask) for name, mask in observation.masks.items()}
            drawn = draw(one, replace(observation, masks=anything), chance)
            active = observation.active
            return {
                name: torch.where(active.view(*active.shape, *(1,) * (action.dim() - 2)), action, drawn[name])
                for name, action in actions.items()
            }

        compare = partial(self._compare, perturb=perturb)
        return _run_comparison(
            checks.IGNORED, lambda: compare(self._open(0), self._open(0)), "drawn again, also masked ones"
        )

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


def _run_comparison(rule: checks.Check, compare: Callable[[], Difference | None], detail: str) -> Finding:
    """Run a comparison and return its finding."""
    try:
        found = compare()
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises: it was played without one before
        return rule.failed(describe(error), "while matches were played twice")
    return rule.passed(detail) if found is None else rule.failed(*found)


def _play(env: Environment, shown: Observation, rng: torch.Generator, *, decisions: int) -> Observation:
    """Play until the match of the first row ends, at most a number of decisions."""
    for _ in range(decisions):
        step = env.step(draw(env, shown, rng))
        shown = step.observation
        if bool(step.over[0]):
            break
    return shown


def _unlike(some: Sequence[tuple[str, Tensor]], others: Sequence[tuple[str, Tensor]]) -> bool:
    return any(not torch.equal(one, other) for (_, one), (_, other) in zip(some, others, strict=True))
