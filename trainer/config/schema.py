"""Settings of a trainer: sections of keys, each with a default, a range and a description."""

from typing import Any

from pydantic import model_validator

from arena.matchmaking import MatchmakingConfig
from arena.matchmaking.roles import numbers, role_rules
from trainer.config.algorithm import (
    AlgorithmSettings,
    NetworkSettings,
    NormalizationSettings,
    OptimizerSettings,
    PPOSettings,
    RolloutSettings,
    ScheduleSettings,
)
from trainer.config.runtime import (
    CurriculumSettings,
    EnvironmentSettings,
    LeagueSettings,
    RoleSettings,
    RunSettings,
)
from trainer.config.strict_model import StrictModel

__all__ = [
    "AlgorithmSettings",
    "CurriculumSettings",
    "EnvironmentSettings",
    "LeagueSettings",
    "NetworkSettings",
    "NormalizationSettings",
    "OptimizerSettings",
    "PPOSettings",
    "RoleSettings",
    "RolloutSettings",
    "RunSettings",
    "ScheduleSettings",
    "StrictModel",
    "TrainerConfig",
]


class TrainerConfig(StrictModel):
    """All settings of one run."""

    run: RunSettings = RunSettings()
    environment: EnvironmentSettings = EnvironmentSettings()
    curriculum: CurriculumSettings = CurriculumSettings()
    network: NetworkSettings = NetworkSettings()
    rollout: RolloutSettings = RolloutSettings()
    algorithm: AlgorithmSettings = AlgorithmSettings()
    ppo: PPOSettings = PPOSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    normalization: NormalizationSettings = NormalizationSettings()
    schedules: ScheduleSettings = ScheduleSettings()
    league: LeagueSettings = LeagueSettings()
    role: RoleSettings = RoleSettings()

    @property
    def given_role_numbers(self) -> dict[str, Any]:
        """Role settings that are sent to the league."""
        limit = self.league.snapshot_every_steps
        return {"snapshot_limit": limit, **self.role.model_dump(exclude_none=True)}

    @property
    def role_numbers(self) -> dict[str, Any]:
        """All role settings, with the defaults of a league for those that are not given."""
        given = self.given_role_numbers
        known = {name: "uniform" if name == "weighting" else value for name, value in given.items()}
        defaults = numbers(role_rules(self.league.role, known, MatchmakingConfig()))
        return defaults | given  # the league may know more weightings than the trainer does

    @model_validator(mode="after")
    def _check_keys_of_several_sections(self) -> "TrainerConfig":
        steps, limit = self.role.snapshot_steps, self.league.snapshot_every_steps
        if steps is not None and steps > limit:
            raise ValueError(
                f"role.snapshot_steps is {steps}, but a snapshot is taken after {limit} steps in any case: set it to "
                "at most league.snapshot_every_steps, or that to more"
            )
        try:
            _ = self.role_numbers
        except ValueError as error:
            raise ValueError(f"in the section role, {error}") from error
        if self.ppo.magnet_coef > 0.0 and self.league.role == "main" and not self.league.averages:
            raise ValueError(
                f"ppo.magnet_coef is {self.ppo.magnet_coef:g}, but weights are not averaged: set "
                "league.ema_horizon_steps, such as 400000, or ppo.magnet_coef to 0"
            )
        if self.ppo.burn_in >= self.rollout.bptt_horizon:
            raise ValueError(
                f"ppo.burn_in is {self.ppo.burn_in}, which leaves no steps with a loss in a rollout.bptt_horizon of "
                f"{self.rollout.bptt_horizon}: set ppo.burn_in to less than that, or rollout.bptt_horizon to more"
            )
        return self
