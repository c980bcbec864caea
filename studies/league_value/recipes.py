"""Strangers: players for a game that no league has seen, each trained by itself from a seed and a recipe of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from studies.league_value.conditions import Condition
from league.cli.up.plan import trainees

FIRST_SEED = 1000
"""Of strangers; seeds below are those of the runs that are compared."""

_LATEST = "environment.self_play=1.0"

RECIPES: dict[str, tuple[str, ...]] = {
    "plain": (_LATEST,),
    "curious": (_LATEST, "ppo.normalized_ent_coef=0.05", "ppo.normalized_ent_coef_final=0.02"),
    "greedy": (_LATEST, "ppo.normalized_ent_coef=0.005", "ppo.normalized_ent_coef_final=0.001"),
    "hasty": (_LATEST, "optimizer.learning_rate=0.001"),
    "steady": (_LATEST, "optimizer.learning_rate=0.0001"),
    "reactive": (_LATEST, "network.core=feedforward"),
    "narrow": (_LATEST, "network.encoder_sizes=[64]", "network.recurrent_size=64"),
    "short-sighted": (_LATEST, "ppo.gae_lambda=0.8"),
    "schooled": (_LATEST, "curriculum.matches=5000", "curriculum.map_share=0.25"),
    "travelled": ("environment.self_play=0.35",),
}
"""Settings of each recipe: self-play alone with another entropy bonus, learning rate, network, horizon, or easy maps
first; `travelled` meets scripted players and its own past too."""


@dataclass(frozen=True)
class Stranger:
    """A player to train.

    Attributes:
        recipe: One of `RECIPES`.
        number: Of those with the same recipe.
        seed: Of its run.
    """

    recipe: str
    number: int
    seed: int

    @property
    def name(self) -> str:
        """Unique among strangers."""
        return f"{self.recipe}-{self.number}"

    @property
    def condition(self) -> Condition:
        """Who is trained, and how: one main alone."""
        return Condition(self.name, trainees("main", league=False), RECIPES[self.recipe])


def strangers(recipes: Sequence[str], copies: int) -> list[Stranger]:
    """Return `copies` strangers of each recipe, no two with the same seed."""
    kinds = [(recipe, number) for number in range(copies) for recipe in recipes]
    return [Stranger(recipe, number, FIRST_SEED + place) for place, (recipe, number) in enumerate(kinds)]
