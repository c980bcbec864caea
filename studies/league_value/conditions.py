"""Ways to train a main that are compared: the same steps in all, over all learners."""

from dataclasses import dataclass, replace

from arena.environments.registry import split_rounds
from league.cli.up.plan import Trainee, trainees
from trainer.config.loading import resolve

NAMES = ("league", "self-play", "slower", "tuned", "pulled")
"""Of all conditions."""

TUNED_ENTROPY = {"openspiel:kuhn_poker": (0.1, 0.1), "rps": (0.45, 0.45)}
"""Entropy bonus of tuned self-play at the start and at the end, where it is not that of all other games."""

TUNED_ENTROPY_ELSEWHERE = (0.2, 0.05)

SLOWER = 0.3
"""Learning rates of slower self-play, in those of the preset."""

PULL, PULLED_ENTROPY = 0.2, 0.005
"""Of self-play that is pulled to its mean: how strongly, and its entropy bonus in the end."""

WITHOUT_PULL = ("ppo.magnet_coef=0", "ppo.normalized_ent_coef=0.05", "ppo.normalized_ent_coef_final=0.05")
"""Where the preset pulls a main to its mean: what all conditions begin from, to compare with and without."""

AVERAGE_STEPS = 400_000
"""What that mean is over where the preset has none."""


@dataclass(frozen=True)
class Condition:
    """Who is trained, and how.

    Attributes:
        name: One of `NAMES`.
        trainees: Learners that share the steps, the main first.
        settings: `section.key=value` of its own for all of them.
        main_share: Of the steps that the main has, in (0, 1]; the others have the rest, all as many.
    """

    name: str
    trainees: tuple[Trainee, ...]
    settings: tuple[str, ...] = ()
    main_share: float = 1.0

    def steps_of(self, trainee: Trainee, total: int) -> int:
        """Return how many of `total` environment steps a learner has."""
        main, *others = self.trainees
        return round(total * (self.main_share if trainee == main else (1.0 - self.main_share) / len(others)))

    def trainer_settings(self, trainee: Trainee, total: int, seed: int) -> list[str]:
        """Return the settings of a learner's trainer; schedules end where training does.

        Args:
            trainee: One of its learners.
            total: Environment steps of all learners together.
            seed: Of the run.
        """
        steps = self.steps_of(trainee, total)
        run = [f"run.seed={seed}", f"run.total_timesteps={steps}", "league.heartbeat_s=1"]
        return [*run, f"schedules.horizon_steps={steps}", *self.settings]


def condition(name: str, game: str, main_share: float | None = None) -> Condition:
    """Return a condition by its name; `main_share` is that of a league, by default all learners' is the same.

    * league: a main, an exploiter of mains and one of the league, with the numbers that their roles have.
    * self-play: a main that meets its present weights alone, with the same entropy bonus.
    * slower: the same with smaller learning rates.
    * tuned: the same with the entropy bonus that served self-play best.
    * pulled: the same with a pull to the mean that is published, and an entropy bonus that falls to nearly nothing.
    """
    chosen = _condition(name, game, main_share)
    common = WITHOUT_PULL if resolve(game, None, []).ppo.magnet_coef else ()
    return replace(chosen, settings=(*common, *chosen.settings))


def _condition(name: str, game: str, main_share: float | None) -> Condition:
    played, _ = split_rounds(game)
    if name == "league":
        learners = trainees("main", league=True)
        return Condition(name, learners, main_share=main_share or 1.0 / len(learners))
    alone, latest = trainees("main", league=False), "environment.self_play=1.0"
    if name == "self-play":
        return Condition(name, alone, (latest,))
    if name == "slower":
        rates = resolve(game, None, []).optimizer
        first, last = SLOWER * rates.learning_rate, SLOWER * rates.learning_rate_final
        return Condition(
            name, alone, (latest, f"optimizer.learning_rate={first}", f"optimizer.learning_rate_final={last}")
        )
    if name == "pulled":
        steps = resolve(game, None, []).league.ema_horizon_steps or AVERAGE_STEPS
        pull = (f"ppo.magnet_coef={PULL}", f"league.ema_horizon_steps={steps}")
        return Condition(name, alone, (latest, *pull, f"ppo.normalized_ent_coef_final={PULLED_ENTROPY}"))
    first, last = TUNED_ENTROPY.get(played, TUNED_ENTROPY_ELSEWHERE)
    return Condition(name, alone, (latest, f"ppo.normalized_ent_coef={first}", f"ppo.normalized_ent_coef_final={last}"))
