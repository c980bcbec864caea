"""Lockstep comparison: plays the same matches in two environments and finds the first difference."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from arena.conformance.check import ViolationError
from arena.conformance.transitions import OBSERVATIONS, first, parts_of, tensors_of, unlike
from arena.conformance.trial import ROWS_COMPARED, Trial
from arena.environments.base import Actions, Environment, Observation
from arena.environments.spec import EnvironmentSpec
from arena.policies.scripted import draw_actions

Perturbation = Callable[[Actions, Observation], Actions]


class Lockstep:
    """Two instances of an environment whose matches should be equal.

    Args:
        trial: The environment under test.
        one: The instance for which actions are drawn.
        other: The instance that gets the same actions.
        rows: Row of `one` for each row of `other`.
    """

    def __init__(
        self, trial: Trial, one: Environment, other: Environment, rows: Sequence[int] = range(ROWS_COMPARED)
    ) -> None:
        self._trial, self._one, self._other = trial, one, other
        self._rows = torch.tensor(rows, dtype=torch.int64, device=one.device)

    def play(self, *, perturb: Perturbation | None = None, next_seeds: Tensor | None = None) -> None:
        """Start the same matches in both and compare them; `next_seeds` gives the second different next matches.

        Raises:
            ViolationError: The matches differ.
        """
        seeds = self._trial.seeds("match").to(self._one.device)
        shown = self._one.reset(seeds), self._other.reset(seeds[self._rows])
        if next_seeds is not None:
            self._other.next_seeds.copy_(next_seeds)
        self.play_on(shown, perturb=perturb, same_next=next_seeds is None)

    def play_on(
        self,
        shown: tuple[Observation, Observation],
        *,
        perturb: Perturbation | None = None,
        same_next: bool = True,
    ) -> None:
        """Compare the current matches until one of every row has ended, or to the longest comparison.

        Args:
            shown: Current observations of both.
            perturb: Changes the actions of the second environment.
            same_next: Whether the next matches must be equal, too; if false, rows are compared to the end of their
                match.

        Raises:
            ViolationError: The matches differ.
        """
        (one, other), rng = shown, self._trial.rng()
        waiting = compared = torch.ones_like(self._rows, dtype=torch.bool)
        self._require_equal(parts_of(one), parts_of(other), self._one.seeds, compared, "as it was opened")
        for decision in range(1, self._trial.most_decisions + 1):
            if same_next:
                self._other.next_seeds.copy_(self._one.next_seeds[self._rows])
            seeds = self._one.seeds.clone()
            actions = draw_actions(self._one.spec.heads, one, rng)
            passed_on: Actions = {name: action[self._rows] for name, action in actions.items()}
            if not bool(compared.all()):
                passed_on = choose(compared, passed_on, draw_actions(self._other.spec.heads, other, rng))
            step = self._one.step(actions)
            again = self._other.step(perturb(passed_on, other) if perturb else passed_on)
            over = step.over[self._rows]
            tensors = tensors_of(step)
            if not same_next and bool(over.any()):
                tensors = {name: each for name, each in tensors.items() if not name.startswith(OBSERVATIONS)}
            self._require_equal(tensors, tensors_of(again), seeds, compared, f"decision {decision}")
            waiting = waiting & ~over
            if not bool(waiting.any()):
                return
            compared = compared if same_next else waiting
            one, other = step.observation, again.observation

    def _require_equal(
        self, ones: dict[str, Tensor], others: dict[str, Tensor], seeds: Tensor, compared: Tensor, when: str
    ) -> None:
        for name, one in ones.items():
            mine, theirs = one[self._rows], others[name]
            differs = unlike(mine, theirs)
            if index := first(differs & compared.view(-1, *(1,) * (differs.dim() - 1))):
                entry = f"{name}{_describe_index(self._one.spec, name, index[1:])}"
                row = int(self._rows[index[0]])
                raise ViolationError(
                    f"{entry}: {_value(mine[index])} in one and {_value(theirs[index])} in the other",
                    where=f"match of row {row} (seed {int(seeds[row])}), {when}",
                )


def choose(where: Tensor, ones: Actions, others: Actions) -> Actions:
    """Return the first actions where a mask over the leading axes is true, and the others elsewhere."""
    return {
        name: torch.where(where.view(*where.shape, *(1,) * (action.dim() - where.dim())), action, others[name])
        for name, action in ones.items()
    }


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
