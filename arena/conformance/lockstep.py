"""Lockstep comparison: plays the same matches in two environments and finds the first difference."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from arena.conformance.step_checks import OBSERVATIONS, parts_of, tensors_of
from arena.conformance.transitions import draw, unlike
from arena.environments.base import Actions, Environment, Observation
from arena.environments.spec import EnvironmentSpec

Perturbation = Callable[[Actions, Observation], Actions]


def leave(actions: Actions, observation: Observation) -> Actions:
    """Return the actions unchanged."""
    return actions


class Difference(NamedTuple):
    """The first difference between two matches.

    Attributes:
        seen: The value in both matches.
        where: Match and decision.
    """

    seen: str
    where: str


class Lockstep:
    """Two environments whose matches should be equal.

    Args:
        one: The environment for which actions are drawn.
        other: The environment that gets the same actions.
        rows: Row of `one` for each row of `other`.
    """

    def __init__(self, one: Environment, other: Environment, rows: Sequence[int]) -> None:
        self._one, self._other = one, other
        self._rows = torch.tensor(rows, dtype=torch.int64, device=one.device)

    def compare(
        self,
        one: Observation,
        other: Observation,
        rng: torch.Generator,
        *,
        decisions: int,
        perturb: Perturbation = leave,
        same_next: bool = True,
    ) -> Difference | None:
        """Play both until a match of every row has ended, at most a number of decisions.

        Args:
            one: Current observation of the first environment.
            other: Current observation of the second environment.
            rng: Random generator of the actions.
            decisions: Largest number of decisions.
            perturb: Changes the actions of the second environment.
            same_next: Whether the next matches must be equal, too; if false, rows are compared to the end of their
            match.
        """
        compared = torch.ones_like(self._rows, dtype=torch.bool)
        self._seeds = self._one.seeds.clone()
        opened = [
            (name, mine, theirs) for (name, mine), (_, theirs) in zip(parts_of(one), parts_of(other), strict=True)
        ]
        if found := self._differ(opened, compared, 0):
            return found
        waiting = compared.clone()
        for decision in range(1, decisions + 1):
            if same_next:
                self._other.next_seeds.copy_(self._one.next_seeds[self._rows])
            self._seeds = self._one.seeds.clone()
            actions = draw(self._one, one, rng)
            passed_on: Actions = {name: action[self._rows] for name, action in actions.items()}
            if not bool(compared.all()):
                passed_on = _where(compared, passed_on, draw(self._other, other, rng))
            step, again = self._one.step(actions), self._other.step(perturb(passed_on, other))
            ends = step.over[self._rows] & ~torch.tensor(same_next, device=waiting.device)
            pairs = [
                (name, mine, theirs)
                for (name, mine), (_, theirs) in zip(tensors_of(step), tensors_of(again), strict=True)
                if not (bool(ends.any()) and name.startswith(OBSERVATIONS))
            ]
            if found := self._differ(pairs, compared, decision):
                return found
            waiting &= ~step.over[self._rows]
            compared &= waiting | torch.tensor(same_next, device=waiting.device)
            if not bool(waiting.any()):
                return None
            one, other = step.observation, again.observation
        return None

    def _differ(
        self, pairs: Sequence[tuple[str, Tensor, Tensor]], compared: Tensor, decision: int
    ) -> Difference | None:
        for name, ones, theirs in pairs:
            mine = ones[self._rows]
            differs = unlike(mine, theirs)
            differs &= compared.view(-1, *(1,) * (differs.dim() - 1))
            if bool(differs.any()):
                place = differs.nonzero()[0].tolist()
                seen = f"{name}{_place(self._one.spec, name, place[1:])}: {_value(mine[tuple(place)])} in one and "
                row = int(self._rows[place[0]])
                where = f"match of row {row} (seed {int(self._seeds[row])}), "
                when = f"decision {decision}" if decision else "as it was opened"
                return Difference(f"{seen}{_value(theirs[tuple(place)])} in the other", where + when)
        return None


def _where(rows: Tensor, these: Actions, those: Actions) -> Actions:
    """Select actions of the first argument in some rows and of the second in all others."""
    return {
        name: torch.where(rows.view(-1, *(1,) * (action.dim() - 1)), action, those[name])
        for name, action in these.items()
    }


def _value(entry: Tensor) -> str:
    return f"{entry.item():.9g}" if entry.is_floating_point() else str(entry.item())


def _place(spec: EnvironmentSpec, name: str, place: Sequence[int]) -> str:
    """Return the agent and the entry of an index."""
    if not place:
        return ""
    agent = f" of {spec.name_agent(place[0])}"
    if len(place) == 1:
        return agent
    return f"{agent}, {spec.name_entry(place[1])}" if name.endswith("values") else f"{agent}, option {place[1]}"
