import pytest
from refused import refused

from arena.environments.mech.config.curriculum import Curriculum, CurriculumStage

RAMP = Curriculum(CurriculumStage(0.2, 0.2, 0.1, 1.0), CurriculumStage(1.0, 1.0, 0.5, 0.6), matches=100)


@pytest.mark.parametrize(
    ("matches", "stage"),
    [(0, (0.2, 0.2, 0.1, 1.0)), (50, (0.6, 0.6, 0.3, 0.8)), (100, (1.0, 1.0, 0.5, 0.6)), (900, (1.0, 1.0, 0.5, 0.6))],
)
def test_stages_move_from_the_first_to_the_last_by_matches(matches: int, stage: tuple[float, ...]):
    now = RAMP.after(matches)

    assert (now.opponent_fire, now.team_share, now.map_share, now.own_share) == pytest.approx(stage)


@pytest.mark.parametrize(
    "share", [{"opponent_fire": 1.1}, {"own_share": -0.1}, {"team_share": 0.0}, {"map_share": 0.0}]
)
def test_a_share_out_of_range_is_refused_by_name(share: dict[str, float]):
    with refused("invalid-input", next(iter(share))):
        CurriculumStage(**share)


def test_a_curriculum_takes_at_least_one_match():
    with refused("invalid-input", 0, 1):
        Curriculum(CurriculumStage(), CurriculumStage(), matches=0)
