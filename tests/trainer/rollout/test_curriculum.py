"""Curriculum schedule: stages by the number of matches."""

import pytest
from fake_games import FakeGame, tagged
from refused import refused

from arena.environments import make
from arena.environments.mech.config.curriculum import CurriculumStage
from trainer.config.schema import CurriculumSettings
from trainer.opponents.assignment import MatchAssignment
from trainer.rollout.curriculum import CurriculumSchedule

HALF = CurriculumSettings(matches=100, team_share=0.2, map_share=0.5)
WHOLE = CurriculumStage(own_share=0.6)


class StagedGame(FakeGame):
    """A game with curriculum stages that records each stage set."""

    def __init__(self):
        super().__init__(3, (1, 1))
        self.stage = WHOLE
        self.stages_set = []

    def set_stage(self, stage):
        self.stage = stage
        self.stages_set.append(stage)


def match():
    return MatchAssignment(tagged(1.0), away=False, seed=0, lease=None, sequence=0, self_play_match=False)


@pytest.mark.holds("J9")
@pytest.mark.parametrize(
    ("matches", "team_share", "map_share"), [(0, 0.2, 0.5), (50, 0.6, 0.75), (100, 1.0, 1.0), (1000, 1.0, 1.0)]
)
def test_the_lesson_depends_only_on_the_number_of_matches(matches, team_share, map_share):
    for steps in ([matches], range(0, matches + 1, 10)):
        game = StagedGame()
        course = CurriculumSchedule.from_settings([game], HALF)
        for played in steps:
            course.advance(played, ())
        assert (game.stage.team_share, game.stage.map_share) == pytest.approx((team_share, map_share))
        assert (game.stage.own_share, game.stage.opponent_fire) == (0.6, 1.0)
        expected = {"curriculum/team_share": team_share, "curriculum/map_share": map_share}
        assert course.metrics() == pytest.approx(expected)


def test_an_unchanged_lesson_is_not_set_again():
    game = StagedGame()
    course = CurriculumSchedule.from_settings([game], HALF)
    for played in (0, 0, 100, 100, 500):
        course.advance(played, ())
    assert [each.team_share for each in game.stages_set] == [0.2, 1.0]


def test_a_match_is_a_full_game_if_it_started_under_the_last_lesson():
    course = CurriculumSchedule.from_settings([StagedGame()], HALF)
    early, late, new = match(), match(), match()
    course.advance(0, ())
    assert not course.is_full_game(early)
    course.advance(100, [late])
    assert not course.is_full_game(late)
    assert course.is_full_game(new)
    course.advance(120, [match()])
    assert course.is_full_game(match())


def test_without_a_curriculum_no_stage_is_set():
    assert CurriculumSchedule.from_settings([StagedGame()], CurriculumSettings()) is None


def test_an_environment_without_lessons_is_refused_by_name():
    with refused("invalid-setting", "curriculum.matches", 100, 0):
        CurriculumSchedule.from_settings([FakeGame(3, (1, 1))], HALF)


@pytest.mark.holds("J9")
def test_the_mech_arena_plays_fewer_mechs_and_then_all():
    env = make("mech-pack", num_envs=2, device="cpu", seed=0)
    course = CurriculumSchedule.from_settings([env], HALF)
    course.advance(0, ())
    agents = env.reset().active.sum(dim=1).tolist()
    assert agents == [2, 2]
    course.advance(100, ())
    assert env.reset().active.sum(dim=1).tolist() == [10, 10]
