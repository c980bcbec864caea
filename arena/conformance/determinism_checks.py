"""Checks of determinism: the same seeds and actions give the same match in any row, order and process."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from arena.conformance import checks
from arena.conformance.lockstep import Lockstep, Perturbation, leave
from arena.conformance.report import NotApplicableError, Verdict, ViolationError
from arena.conformance.transitions import choose, draw, parts_of, tensors_of
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

    def checks(self) -> Iterator[tuple[checks.Check, Callable[[], str]]]:
        """Yield a check for each way of repeating a match, and one for chance."""
        for check, compare in (
            (checks.REPEATS, self._again),
            (checks.ROWS, self._compare_row_positions),
            (checks.RESET, self._compare_after_other_matches),
            (checks.NEXT_MATCH, self._otherwise),
            (checks.PROCESSES, self._in_processes),
            (checks.IGNORED, self._with_other_actions),
        ):
            yield check, partial(self._if_reproducible, compare)
        yield checks.CHANCE, self._chance

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
    ) -> None:
        """Start the same matches in both environments and compare them.

        `next_seeds` gives the second environment different next matches.
        """
        seeds = self.seeds("match").to(one.device)
        opened = one.reset(seeds), other.reset(seeds[torch.tensor(rows)])
        if next_seeds is not None:
            other.next_seeds.copy_(next_seeds)
        lockstep, same_next = Lockstep(one, other, rows), next_seeds is None
        lockstep.compare(opened, self._rng(), decisions=self.decisions, perturb=perturb, same_next=same_next)

    def _if_reproducible(self, compare: Callable[[], str]) -> str:
        if not self._open(0).spec.reproducible:
            raise NotApplicableError("it declares reproducible=False")
        return compare()

    def _again(self) -> str:
        self._compare(self._open(0), self._open(0))
        return f"{ROWS_COMPARED} matches, played twice"

    def _compare_row_positions(self) -> str:
        turned = [*reversed(range(ROWS_COMPARED))]
        self._compare(self._open(0), self._open(1), turned)
        self._compare(self._open(0), self._open(2, rows=1), turned[:1])
        return "in another order, with another seed of the environment, and alone"

    def _compare_after_other_matches(self) -> str:
        """Compare with a match that follows an unfinished match (reset) and a finished one (automatic next match)."""
        used = self._open(0)
        _play(used, used.reset(self.seeds("other")), self._rng(), decisions=max(1, used.spec.max_decisions // 2))
        self._compare(self._open(0), used)
        one, used = (self._open(0, rows=1) for _ in range(2))
        seeds = self.seeds("match", rows=1).to(one.device)
        shown = used.reset(self.seeds("other", rows=1))
        used.next_seeds.copy_(seeds)
        shown = _play(used, shown, self._rng(), decisions=self.decisions)
        if int(used.seeds[0]) == int(seeds[0]):  # otherwise its match is longer than comparisons are
            Lockstep(one, used, [0]).compare((one.reset(seeds), shown), self._rng(), decisions=self.decisions)
        return "after an unfinished match, and after a finished one"

    def _otherwise(self) -> str:
        self._compare(self._open(0), self._open(0), next_seeds=self.seeds("next"))
        return "with other matches after them"

    def _in_processes(self) -> str:
        one = self._open(0)
        if not plays_single_matches(one):
            raise NotApplicableError("it steps a whole batch itself")
        self._compare(one, self._open(0, processes=MOST_PROCESSES, step_limit_s=WAITING_S))
        return f"0 and {MOST_PROCESSES} processes"

    def _with_other_actions(self) -> str:
        one, chance = self._open(0), self._rng()

        def perturb(actions: Actions, observation: Observation) -> Actions:
            """Redraw the actions of inactive agents, without regard to masks."""
            anything = {name: torch.ones_like(mask) for name, mask in observation.masks.items()}
            return choose(observation.active, actions, draw(one, replace(observation, masks=anything), chance))

        self._compare(one, self._open(0), perturb=perturb)
        return "drawn again, also masked ones"

    def _chance(self) -> str:
        """Check whether the seed changes a match under the same actions."""
        differ = self._differ_by_seed()
        detail = "other seeds, same actions: " + ("other matches" if differ else "the same matches")
        match self._open(0).spec.chance, differ:
            case (False, True):
                raise ViolationError(f"it declares no chance; {detail}")
            case (True, False):
                raise ViolationError(f"it declares chance; {detail}", verdict=Verdict.WARNING)
            case (None, False):
                why = "This is correct for a game without chance, otherwise it ignores its seeds"
                raise NotApplicableError(f"{detail}. {why}")
        return detail

    def _differ_by_seed(self) -> bool:
        envs, rngs = [self._open(0), self._open(0)], [self._rng(), self._rng()]
        shown = [env.reset(self.seeds(purpose)) for env, purpose in zip(envs, ("match", "other"), strict=True)]
        tensors = [parts_of(each) for each in shown]
        for _ in range(self.decisions):
            if _any_differs(*tensors):
                return True
            steps = [env.step(draw(env, seen, rng)) for env, seen, rng in zip(envs, shown, rngs, strict=True)]
            tensors, shown = [tensors_of(step) for step in steps], [step.observation for step in steps]
        return _any_differs(*tensors)


def _play(env: Environment, shown: Observation, rng: torch.Generator, *, decisions: int) -> Observation:
    """Play until the match of the first row ends, at most a number of decisions."""
    for _ in range(decisions):
        step = env.step(draw(env, shown, rng))
        shown = step.observation
        if bool(step.over[0]):
            break
    return shown


def _any_differs(some: Sequence[tuple[str, Tensor]], others: Sequence[tuple[str, Tensor]]) -> bool:
    return any(not torch.equal(one, other) for (_, one), (_, other) in zip(some, others, strict=True))
