"""Which games have unlike sides, and what these are called."""

from dataclasses import replace

import pytest

from arena.environments import declare
from arena.environments.spec import NAME_MAX

PLAIN = declare("rps")


@pytest.mark.parametrize(
    ("game", "sides"),
    [
        ("rps", None),
        ("mech-duel", None),
        ("mech-company", None),
        ("openspiel:kuhn_poker", ("first", "second")),
        ("openspiel:kuhn_poker:rounds=3", ("first", "second")),
        ("pettingzoo:connect_four_v3", ("first", "second")),
        ("mpe2:simple_tag_v3", ("3 adversary", "agent")),
    ],
)
def test_sides_are_unlike_where_roles_differ_or_one_begins(game: str, sides: tuple[str, str] | None) -> None:
    assert declare(game).unlike_sides == sides


def test_the_order_of_the_agents_of_a_side_does_not_matter() -> None:
    mixed = replace(PLAIN, agents_per_side=(2, 2), roles=("scout", "tank", "tank", "scout"))
    assert mixed.unlike_sides is None
    assert replace(mixed, turn_based=True).unlike_sides == ("first", "second")


def test_a_side_of_several_roles_is_called_by_all_of_them() -> None:
    hunt = replace(PLAIN, agents_per_side=(3, 1), roles=("wolf", "dog", "wolf", "sheep"))
    assert hunt.unlike_sides == ("2 wolf + dog", "sheep")


def test_no_name_is_longer_than_the_league_takes() -> None:
    crowd = replace(PLAIN, agents_per_side=(30, 1), roles=(*(f"specialist {number}" for number in range(30)), "lone"))
    home, _ = crowd.unlike_sides or ("", "")
    assert len(home) == NAME_MAX
    assert home.endswith("...")
