"""Easier matches first, by matches played and by nothing else."""

import pytest
from fake_games import FakeGame, tagged

from arena.environments import make
from arena.environments.mech.curriculum import Lesson
from trainer.errors import ConfigError
from trainer.leases import Assignment
from trainer.lessons import Course
from trainer.settings import CurriculumSettings

HALF = CurriculumSettings(matches=100, team_share=0.2, map_share=0.5)
WHOLE = Lesson(own_share=0.6)


class Pupil(FakeGame):
    """A game that can be taught, and remembers what."""

    def __init__(self):
        super().__init__(3, (1, 1))
        self.lesson = WHOLE
        self.taught = []

    def teach(self, lesson):
        self.lesson = lesson
        self.taught.append(lesson)


def match():
    return Assignment(tagged(1.0), away=False, seed=0, lease=None, sequence=0, both_sides=False)


@pytest.mark.parametrize(
    ("matches", "team_share", "map_share"), [(0, 0.2, 0.5), (50, 0.6, 0.75), (100, 1.0, 1.0), (1000, 1.0, 1.0)]
)
def test_the_lesson_hangs_on_matches_played_alone(matches, team_share, map_share):
    for steps in ([matches], range(0, matches + 1, 10)):
        pupil = Pupil()
        course = Course.of([pupil], HALF)
        for played in steps:
            course.advance(played, ())
        assert (pupil.lesson.team_share, pupil.lesson.map_share) == pytest.approx((team_share, map_share))
        assert (pupil.lesson.own_share, pupil.lesson.opponent_fire) == (0.6, 1.0)
        told = {"curriculum/team_share": team_share, "curriculum/map_share": map_share}
        assert course.metrics() == pytest.approx(told)


def test_a_lesson_that_stays_is_not_taught_again():
    pupil = Pupil()
    course = Course.of([pupil], HALF)
    for played in (0, 0, 100, 100, 500):
        course.advance(played, ())
    assert [each.team_share for each in pupil.taught] == [0.2, 1.0]


def test_a_match_is_whole_if_it_was_opened_after_the_last_lesson_began():
    course = Course.of([Pupil()], HALF)
    early, late, new = match(), match(), match()
    course.advance(0, ())
    assert not course.whole(early)
    course.advance(100, [late])
    assert not course.whole(late)
    assert course.whole(new)
    course.advance(120, [match()])
    assert course.whole(match())


def test_without_a_curriculum_nothing_is_taught():
    assert Course.of([Pupil()], CurriculumSettings()) is None


def test_an_environment_without_lessons_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"curriculum\.matches is 100, but fake has no lessons: set it to 0"):
        Course.of([FakeGame(3, (1, 1))], HALF)


def test_the_mech_arena_plays_fewer_mechs_and_then_all():
    env = make("mech-pack", num_envs=2, device="cpu", seed=0)
    course = Course.of([env], HALF)
    course.advance(0, ())
    agents = env.reset().active.sum(dim=1).tolist()
    assert agents == [2, 2]
    course.advance(100, ())
    assert env.reset().active.sum(dim=1).tolist() == [10, 10]
