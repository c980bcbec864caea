"""Curriculum schedule: the stage that the environments play, by the number of finished matches."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from arena.environments.base import CurriculumEnvironment, Environment, supports
from arena.environments.mech.config.curriculum import Curriculum, CurriculumStage
from trainer.config.schema import CurriculumSettings
from trainer.errors import ConfigError
from trainer.opponents.assignment import MatchAssignment


class CurriculumSchedule:
    """Moves environments from their first stage to the full game. It depends on the number of matches alone.

    Args:
        environments: Environments that share the stage.
        curriculum: First and last stage and the number of matches between them.

    Attributes:
        stage_start: Number of finished matches when the current stage was set.
    """

    def __init__(self, environments: Sequence[CurriculumEnvironment], curriculum: Curriculum) -> None:
        self._environments, self._curriculum = environments, curriculum
        self._started_before: dict[int, MatchAssignment] = {}
        self.advance(0, ())

    @classmethod
    def from_settings(
        cls, environments: Sequence[Environment], settings: CurriculumSettings
    ) -> "CurriculumSchedule | None":
        """Create the schedule of the settings; None if they have no curriculum.

        Raises:
            ConfigError: The environment has no stages.
        """
        if not settings.matches:
            return None
        with_stages = [environment for environment in environments if supports(environment, CurriculumEnvironment)]
        if not with_stages:
            name = environments[0].spec.name
            raise ConfigError(
                f"curriculum.matches is {settings.matches}, but {name} has no curriculum stages: set it to 0"
            )
        full_game = with_stages[0].stage
        first = replace(full_game, team_share=settings.team_share, map_share=settings.map_share)
        return cls(with_stages, Curriculum(first, full_game, settings.matches))

    def advance(self, matches: int, running: Iterable[MatchAssignment]) -> None:
        """Set the stage that is due.

        Args:
            matches: Matches finished in this run.
            running: Running matches, which continue under the stage that they started with.
        """
        stage = self._curriculum.after(matches)
        self.stage_start = matches
        if stage != self._stage:
            for environment in self._environments:
                environment.set_stage(stage)
            # Matches that began under another stage end under it, and must not count as full games.
            self._started_before = {id(match): match for match in running}

    def is_full_game(self, match: MatchAssignment) -> bool:
        """Whether a match that just ended was a full game; results of other matches are not reported to the league."""
        started_before = self._started_before.pop(id(match), None) is not None
        return self._stage == self._curriculum.last and not started_before

    def metrics(self) -> dict[str, float | None]:
        """Current stage, by metric tag."""
        stage = self._stage
        return {"curriculum/team_share": stage.team_share, "curriculum/map_share": stage.map_share}

    @property
    def _stage(self) -> CurriculumStage:
        stage: CurriculumStage = self._environments[0].stage
        return stage
