import pytest
from refused import refused
from stubborn import Always

from arena.play.tournament import play_tournament

ROCK, PAPER, SCISSORS = range(3)


def test_payoff_table_holds_every_pairing_from_both_sides():
    players = {"rock": Always(ROCK), "paper": Always(PAPER), "scissors": Always(SCISSORS)}

    played = play_tournament("rps", players, matches=4, seed=0)

    expected = [[0.5, 1 / 6, 2 / 3], [5 / 6, 0.5, 0.0], [1 / 3, 1.0, 0.5]]
    for row, wanted in zip(played.payoff.tolist(), expected, strict=True):
        assert row == pytest.approx(wanted)
    assert played.points.tolist() == pytest.approx([4 * (1 / 6 + 2 / 3), 4 * 5 / 6, 4 * (1 / 3 + 1.0)])


def test_ratings_follow_the_points():
    players = {"scissors": Always(SCISSORS), "paper": Always(PAPER)}

    played = play_tournament("rps", players, matches=10, seed=0)

    assert [played.names[index] for index in played.order] == ["scissors", "paper"]
    assert played.ratings.rating[0] > 1700.0 > 1300.0 > played.ratings.rating[1]
    assert played.ratings.rating.sum() == pytest.approx(3000.0)


def test_order_does_not_depend_on_the_order_of_arguments():
    players = {"paper": Always(PAPER), "scissors": Always(SCISSORS)}

    played = play_tournament("rps", players, matches=3, seed=0)

    assert played.order == [1, 0]


def test_one_player_is_no_tournament():
    with refused("invalid-input", 1):
        play_tournament("rps", {"rock": Always(ROCK)}, matches=2, seed=0)
