"""Lockstep comparison: plays the same matches in two environments and finds the first difference."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from arena.conformance.report import ViolationError
from arena.conformance.transitions import OBSERVATIONS, choose, draw, first, paired, parts_of, tensors_of, unlike
from arena.environments.base import Actions, Environment, Observation
from arena.environments.spec import EnvironmentSpec

Perturbation = Callable[[Actions, Observation], Actions]


def leave(actions: Actions, observation: Observation) -> Actions:
    """Return the actions unchanged."""
    return actions


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
        shown: tuple[Observation, Observation],
        rng: torch.Generator,
        *,
        decisions: int,
        perturb: Perturbation = leave,
        same_next: bool = True,
    ) -> None:
        """Play both until a match of every row has ended, at most a number of decisions.

        Args:
            shown: Current observations of both environments.
            rng: Random generator of the actions.
            decisions: Largest number of decisions.
            perturb: Changes the actions of the second environment.
            same_next: Whether the next matches must be equal, too; if false, rows are compared to the end of their
            match.

        Raises:
            ViolationError: The matches differ.
        """
        one, other = shown
        waiting = compared = torch.ones_like(self._rows, dtype=torch.bool)
        self._seeds = self._one.seeds.clone()
        self._require_equal(paired(parts_of(one), parts_of(other)), compared, "as it was opened")
        for decision in range(1, decisions + 1):
            if same_next:
                self._other.next_seeds.copy_(self._one.next_seeds[self._rows])
            self._seeds = self._one.seeds.clone()
            actions = draw(self._one, one, rng)
            passed_on: Actions = {name: action[self._rows] for name, action in actions.items()}
            if not bool(compared.all()):
                passed_on = choose(compared, passed_on, draw(self._other, other, rng))
            step, again = self._one.step(actions), self._other.step(perturb(passed_on, other))
            over = step.over[self._rows]
            pairs = paired(tensors_of(step), tensors_of(again))
            if not same_next and bool(over.any()):
                pairs = (pair for pair in pairs if not pair[0].startswith(OBSERVATIONS))
            self._require_equal(pairs, compared, f"decision {decision}")
            waiting = waiting & ~over
            if not bool(waiting.any()):
                return
            compared = compared if same_next else waiting
            one, other = step.observation, again.observation

    def _require_equal(self, pairs: Iterable[tuple[str, Tensor, Tensor]], compared: Tensor, when: str) -> None:
        for name, ones, theirs in pairs:
            mine = ones[self._rows]
            differs = unlike(mine, theirs)
            index = first(differs & compared.view(-1, *(1,) * (differs.dim() - 1)))
            if index is None:
                continue
            row = int(self._rows[index[0]])
            raise ViolationError(
                f"{name}{_describe_index(self._one.spec, name, index[1:])}: {_value(mine[index])} in one and "
                f"{_value(theirs[index])} in the other",
                f"match of row {row} (seed {int(self._seeds[row])}), {when}",
            )


def _value(entry: Tensor) -> str:
    return f"{entry.item():.9g}" if entry.is_floating_point() else str(entry.item())


def _describe_index(spec: EnvironmentSpec, name: str, index: Sequence[int]) -> str:
    """Return the agent and the entry of an index."""
    if not index:
        return ""
    agent = f" of {spec.name_agent(index[0])}"
    if len(index) == 1:
        return agent
    return f"{agent}, {spec.name_entry(index[1])}" if name.endswith("values") else f"{agent}, option {index[1]}"
