"""Rank 0's part among several ranks: it alone leases, reports, publishes and saves, for all of them.

Ranks talk between rollouts, always in this order: before a rollout what others need and what they get; after it the
matches that they have played; after the update their figures and what is to be done; where the state is saved, their
part of it. `trainer.following` is the other side. With one rank there is nobody to talk to, and nothing is said.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from safetensors.torch import save as save_tensors

from arena.policies import Policy
from league.wire import LeaseAnswer
from trainer.collector import Episode
from trainer.dispatches import Decision, Figures, Matches, Metrics, Share, Start, Wish
from trainer.distributed import Ranks
from trainer.learner import Learner
from trainer.membership import Membership
from trainer.rollout import Rollout

COUNTED = ("/samples", "/ratio_alarms")
"""Ends of the names of figures that are counts; all others are means, deviations, or the same on all ranks."""

OWN_CHANCE = "rng."
"""What a rank does not take from rank 0."""


class Lead:
    """Speaks to all other ranks.

    Args:
        ranks: All of them.
        learner: Rank 0's.
        membership: Asks the league.
        self_play: Whether leases against the learner itself are wanted.

    Attributes:
        states: What a restart needs of the other ranks, in their order; empty where it is not of now, and they then
            begin with new matches.
    """

    def __init__(self, ranks: Ranks, learner: Learner, membership: Membership, *, self_play: bool) -> None:
        self._ranks, self._learner, self._membership, self._self_play = ranks, learner, membership, self_play
        self.states: list[dict[str, Any]] = []

    def begin(
        self, taught_at: int, states: Sequence[dict[str, Any]], written: Mapping[str, int], episodes: int
    ) -> None:
        """Let all others begin where this rank does.

        Args:
            taught_at: Matches after which the present lesson was taught.
            states: What was saved of each of the others.
            written: Per lease, the highest sequence whose result was written down.
            episodes: Matches of all ranks so far.
        """
        if self._ranks.count == 1:
            return
        learner = self._learner
        start = Start(
            steps=learner.steps,
            updates=learner.updates,
            began_step=learner.began_step,
            taught_at=taught_at,
            states=list(states),
            written=dict(written),
        )
        self._ranks.from_first(start.written_down())
        self._spread()
        self.deal(episodes, over=False)

    def deal(self, episodes: int, *, over: bool) -> bool:
        """Hear what the others need, get it from the league, and say whether there is another rollout.

        Args:
            episodes: Matches of all ranks so far.
            over: Whether this rank would leave.

        Returns:
            Whether anybody leaves, and so all do.
        """
        if self._ranks.count == 1:
            return over
        self.states = []
        wishes = [Wish.model_validate_json(each) for each in self._ranks.tell(b"")[1:]]
        over = over or any(wish.stopping for wish in wishes)
        answers = [None if over else self._grant(wish) for wish in wishes]
        self._ranks.from_first(Share(over=over, episodes=episodes, answers=answers).written_down())
        return over

    def hear(self, take_in: Callable[[Episode], None], policy: Policy) -> None:
        """Take in the matches that the others have played to their ends."""
        if self._ranks.count > 1:
            for each in self._ranks.tell(b"")[1:]:
                for played in Matches.model_validate_json(each).played:
                    take_in(played.episode(policy))

    def pool(self, rollout: Rollout, metrics: Metrics) -> Metrics:
        """Figures of an update over the decisions of all ranks, where this one's are over those of its rollout."""
        if self._ranks.count == 1:
            return metrics
        others = [Figures.model_validate_json(each) for each in self._ranks.tell(b"")[1:]]
        return pooled([Figures(decisions=int(rollout.active.sum()), metrics=metrics), *others])

    def decide(self, *, save: bool, anew: bool) -> None:
        """Tell the others whether the state is saved, and hear their part of it; whether the learner began anew."""
        if self._ranks.count == 1:
            return
        self._ranks.from_first(Decision(save=save, anew=anew).written_down())
        if anew:
            self._spread()
        if save:
            self.gather()

    def gather(self) -> None:
        """Hear what a restart needs of the others."""
        if self._ranks.count > 1:
            self.states = [json.loads(each) for each in self._ranks.tell(b"")[1:]]

    def _grant(self, wish: Wish) -> LeaseAnswer | None:
        if wish.unwanted:
            self._membership.release(wish.unwanted, wish.unplayable)
        return self._membership.lease(wish.leases, self_play=self._self_play) if wish.leases else None

    def _spread(self) -> None:
        """Give everybody this rank's weights and statistics."""
        tensors = self._learner.tensors().items()
        shared = {
            name: each.to("cpu", copy=True).contiguous() for name, each in tensors if not name.startswith(OWN_CHANCE)
        }
        self._ranks.from_first(save_tensors(shared))


def pooled(figures: Sequence[Figures]) -> Metrics:
    """Counts added up; deviations and means those over all decisions, each rank's weighed by how many it has."""
    names = dict.fromkeys(name for each in figures for name in each.metrics)
    return {name: _pooled(name, figures) for name in names}


def _pooled(name: str, figures: Sequence[Figures]) -> float | None:
    values = [(each, value) for each in figures if (value := each.metrics.get(name)) is not None]
    if not values:
        return None
    if name.endswith(COUNTED):
        return math.fsum(value for _, value in values)
    weight = sum(each.decisions for each, _ in values)
    if not weight or len({value for _, value in values}) == 1:
        return values[0][1]
    middle = name.removesuffix("_std") + "_mean"
    if name.endswith("_std") and all(each.metrics.get(middle) is not None for each, _ in values):
        means = [(each.decisions, each.metrics[middle] or 0.0, value) for each, value in values]
        mean = math.fsum(count * at for count, at, _ in means) / weight
        return math.sqrt(math.fsum(count * (value**2 + (at - mean) ** 2) for count, at, value in means) / weight)
    return math.fsum(each.decisions * value for each, value in values) / weight
