"""Settings of a trainer: sections of keys, each with a default, a range and a description."""

from pydantic import model_validator

from trainer.settings.learning import (
    NetworkSettings,
    NormalizationSettings,
    OptimizerSettings,
    PPOSettings,
    RolloutSettings,
    ScheduleSettings,
)
from trainer.settings.run import (
    CurriculumSettings,
    EnvironmentSettings,
    HealthSettings,
    LeagueSettings,
    RunSettings,
)
from trainer.settings.section import Section

__all__ = [
    "CurriculumSettings",
    "EnvironmentSettings",
    "HealthSettings",
    "LeagueSettings",
    "NetworkSettings",
    "NormalizationSettings",
    "OptimizerSettings",
    "PPOSettings",
    "RolloutSettings",
    "RunSettings",
    "ScheduleSettings",
    "Section",
    "TrainerConfig",
]


class TrainerConfig(Section):
    """All settings of one run."""

    run: RunSettings = RunSettings()
    environment: EnvironmentSettings = EnvironmentSettings()
    curriculum: CurriculumSettings = CurriculumSettings()
    network: NetworkSettings = NetworkSettings()
    rollout: RolloutSettings = RolloutSettings()
    ppo: PPOSettings = PPOSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    normalization: NormalizationSettings = NormalizationSettings()
    schedules: ScheduleSettings = ScheduleSettings()
    league: LeagueSettings = LeagueSettings()
    health: HealthSettings = HealthSettings()

    @model_validator(mode="after")
    def _burn_in_leaves_something_to_learn_from(self) -> "TrainerConfig":
        if self.ppo.burn_in >= self.rollout.chunk:
            raise ValueError(
                f"ppo.burn_in is {self.ppo.burn_in}, which leaves nothing to learn from of a rollout.chunk of "
                f"{self.rollout.chunk}: set ppo.burn_in to less than that, or rollout.chunk to more"
            )
        return self
