from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.matchmaking import SELF, draw
from arena.roles import (
    NO_LINEAGE,
    LeagueExploiterMixture,
    MainExploiterMixture,
    MainMixture,
    Opposition,
    SnapshotRule,
    league_exploiter_snapshots,
    main_exploiter_snapshots,
    main_snapshots,
    role_distribution,
    snapshot_due,
)
from arena.weightings import pfsp_weights

OWN, RIVAL, EXPLOITER = 1, 2, 3
PLAIN = MainMixture(uniform_share=0.0)


def opposition(*players):
    """Players are (win rate, lineage, live); steps are their places, lineages 1 and 2 are mains', 3 an exploiter's."""
    win_rates, lineage, live = (np.array(column) for column in zip(*players, strict=True)) if players else ([],) * 3
    lineage = np.array(lineage, dtype=np.int64)
    return Opposition(
        win_rates=np.array(win_rates, dtype=float),
        lineage=lineage,
        main=np.isin(lineage, [OWN, RIVAL]),
        exploiter=lineage == EXPLOITER,
        live=np.array(live, dtype=bool),
        step=np.arange(lineage.size),
        own=OWN,
    )


def shares(distribution):
    return {branch.name: pytest.approx(branch.share) for branch in distribution.branches}


def test_a_main_alone_plays_itself():
    distribution = role_distribution(opposition(), MainMixture())
    assert distribution.self_play == 1.0
    assert draw(distribution, 3, np.random.default_rng(0)).opponents.tolist() == [SELF] * 3
    fresh = role_distribution(opposition((0.5, EXPLOITER, True)), MainMixture())  # a live exploiter is nobody to it
    assert fresh.self_play == 1.0
    assert fresh.probabilities.tolist() == [0.0]


def test_a_main_plays_itself_the_frozen_and_its_weaknesses_by_their_shares():
    against = opposition((0.8, OWN, False), (0.2, EXPLOITER, False), (0.25, EXPLOITER, False), (0.9, NO_LINEAGE, False))
    distribution = role_distribution(against, PLAIN)
    assert distribution.self_play == pytest.approx(0.35)
    assert shares(distribution) == {"pfsp": 0.5, "verification": 0.15}
    hard, weak = pfsp_weights(against.win_rates), np.zeros(4)
    weak[1:3] = pfsp_weights([0.2, 0.25])
    assert distribution.probabilities == pytest.approx(0.5 * hard + 0.15 * weak)


def test_another_main_has_its_part_of_self_play_while_there_is_a_chance_against_it():
    even = opposition((0.4, RIVAL, True), (0.3, RIVAL, False), (0.5, RIVAL, False))
    distribution = role_distribution(even, PLAIN)
    assert distribution.self_play == pytest.approx(0.175 + 0.15)  # no weakness: verification goes to self-play
    assert shares(distribution) == {"mains": 0.175, "pfsp": 0.5}
    assert distribution.branches[0].weights.tolist() == [1.0, 0.0, 0.0]
    hopeless = replace(even, win_rates=np.array([0.3, 0.3, 0.5]))
    weights = role_distribution(hopeless, PLAIN).branches[0].weights
    assert weights == pytest.approx([0.0, *pfsp_weights([0.3, 0.5], "variance")])


def test_a_hopeless_main_without_snapshots_is_played_itself():
    distribution = role_distribution(opposition((0.05, RIVAL, True)), MainExploiterMixture())
    assert distribution.probabilities.tolist() == [1.0]


@pytest.mark.parametrize(
    ("past", "weak"),
    [
        ([0.9, 0.8, 0.6, 0.5], []),  # each harder than the one before: as it should be
        ([0.6, 0.8, 0.6, 0.5], [0]),  # the first was harder than the second; the newest two are left out
        ([0.9, 0.3, 0.6, 0.5, 0.65], [1, 2, 3, 4]),
        ([0.9, 0.3, 0.6, 0.5, 0.4], [1, 2]),
        ([0.5], []),
        ([0.75, 0.9, 0.8], []),
    ],
)
def test_verification_goes_to_what_a_main_forgot_of_its_past(past, weak):
    distribution = role_distribution(opposition(*((rate, OWN, False) for rate in past)), PLAIN)
    branches = {branch.name: branch for branch in distribution.branches}
    if not weak:
        assert "verification" not in branches
        assert distribution.self_play == pytest.approx(0.5)
    else:
        found = branches["verification"]
        assert np.flatnonzero(~found.excluded).tolist() == weak
        assert found.weights[weak] == pytest.approx(pfsp_weights(np.array(past)[weak]))


def test_the_past_is_ordered_by_steps():
    against = opposition(*((rate, OWN, False) for rate in [0.5, 0.6, 0.8, 0.6]))
    reversed_steps = replace(against, step=np.array([3, 2, 1, 0]))  # 0.6, 0.8, 0.6, 0.5
    found = role_distribution(reversed_steps, PLAIN).branches[-1]
    assert (found.name, np.flatnonzero(~found.excluded).tolist()) == ("verification", [3])


def test_exploiters_that_beat_it_come_before_its_past():
    against = opposition((0.6, OWN, False), (0.9, OWN, False), (0.1, EXPLOITER, False))
    assert np.flatnonzero(~role_distribution(against, PLAIN).branches[-1].excluded).tolist() == [2]


def test_a_main_exploiter_plays_mains_only():
    against = opposition(
        (0.2, OWN, False), (0.05, RIVAL, True), (0.3, RIVAL, False), (0.5, RIVAL, False), (0.9, NO_LINEAGE, False)
    )
    against = replace(against, own=EXPLOITER)
    distribution = role_distribution(against, MainExploiterMixture())
    assert distribution.self_play == 0.0
    assert distribution.probabilities == pytest.approx([0, 0, *pfsp_weights([0.3, 0.5], "variance"), 0])
    better = replace(against, win_rates=np.array([0.2, 0.11, 0.3, 0.5, 0.9]))
    assert role_distribution(better, MainExploiterMixture()).probabilities.tolist() == [0, 1, 0, 0, 0]


def test_a_league_exploiter_plays_everybody_frozen():
    against = opposition((0.1, OWN, False), (0.4, RIVAL, True), (0.8, NO_LINEAGE, False))
    distribution = role_distribution(replace(against, own=EXPLOITER), LeagueExploiterMixture(uniform_share=0.1))
    wanted = 0.9 * pfsp_weights([0.1, 0.8], "capped") + 0.05
    assert distribution.probabilities == pytest.approx([wanted[0], 0.0, wanted[1]])


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([NO_LINEAGE, OWN, RIVAL, EXPLOITER]), st.booleans()), max_size=10
    ),
    st.sampled_from([MainMixture(), PLAIN, MainExploiterMixture(), LeagueExploiterMixture()]),
)
def test_propensities_of_every_role_make_one(players, mixture):
    against = opposition(*((rate, lineage, live and lineage != OWN) for rate, lineage, live in players))
    distribution = role_distribution(against, mixture)
    assert (distribution.probabilities >= 0.0).all()
    assert distribution.self_play + distribution.probabilities.sum() == pytest.approx(1.0)
    for branch in distribution.branches:
        assert branch.weights.sum() == pytest.approx(1.0)
    assert (draw(distribution, 9, np.random.default_rng(0)).propensities > 0.0).all()


def test_a_main_leaves_a_snapshot_when_it_beats_everybody_or_late():
    against = opposition((0.71, RIVAL, False), (0.9, OWN, False), (0.2, RIVAL, True))
    rule = main_snapshots(1000)
    assert not snapshot_due(999, against, MainMixture(), rule)
    assert snapshot_due(1000, against, MainMixture(), rule)
    weaker = replace(against, win_rates=np.array([0.7, 0.9, 0.2]))
    assert not snapshot_due(1999, weaker, MainMixture(), rule)
    assert snapshot_due(2000, weaker, MainMixture(), rule)
    assert not snapshot_due(1999, opposition(), MainMixture(), rule)
    assert rule.reset == 0.0


def test_exploiters_leave_one_as_soon_as_they_beat_whom_they_look_at():
    against = replace(opposition((0.6, OWN, False), (0.8, RIVAL, True), (0.8, NO_LINEAGE, False)), own=EXPLOITER)
    assert snapshot_due(1, against, MainExploiterMixture(), main_exploiter_snapshots(500))
    assert not snapshot_due(1, against, LeagueExploiterMixture(), league_exploiter_snapshots(500))
    assert snapshot_due(500, against, LeagueExploiterMixture(), league_exploiter_snapshots(500))
    assert (main_exploiter_snapshots(5).reset, league_exploiter_snapshots(5).reset) == (1.0, 0.25)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MainMixture(live_above=1.5), r"live_above is 1\.5"),
        (lambda: MainMixture(self_play_share=0.9, verification_share=0.2), "must not exceed 1"),
        (lambda: MainMixture(power=-1.0), r"power is -1\.0"),
        (lambda: MainExploiterMixture(live_above=-0.1), r"live_above is -0\.1"),
        (lambda: LeagueExploiterMixture(weighting="soft"), "weighting is 'soft'"),
        (lambda: LeagueExploiterMixture(uniform_share=2.0), r"uniform_share is 2\.0"),
        (lambda: SnapshotRule(steps=5, limit=4, reset=0.0), "steps is 5 and limit 4"),
        (lambda: SnapshotRule(steps=0, limit=0, reset=0.0), "steps is 0 and limit 0"),
        (lambda: SnapshotRule(steps=0, limit=1, reset=2.0), r"reset is 2\.0"),
        (lambda: opposition((0.5, OWN, True)), "the learner itself is among its opponents"),
        (lambda: opposition((1.5, OWN, False)), r"win_rates\[0\] is 1\.5"),
        (lambda: replace(opposition((0.5, OWN, False)), exploiter=np.array([True])), "player 0 is of a main's and of"),
        (lambda: replace(opposition((0.5, OWN, False)), step=np.arange(2)), r"step has shape \(2,\)"),
    ],
)
def test_bad_roles_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()
