from hypothesis import given
from hypothesis import strategies as st

from arena.population.callsigns import ADJECTIVES, NOUNS, NUMBERS, call_sign, free_call_sign


def test_call_signs_are_the_same_in_every_process():
    assert call_sign("mech-duel", "0" * 64) == "Granite Buckler 75"
    assert call_sign("rps", "0" * 64) == "Eager Bastion 42"


def test_there_are_more_than_a_hundred_thousand_call_signs():
    assert len(set(ADJECTIVES)) == len(set(NOUNS)) == 64
    assert 64 * 64 * NUMBERS > 100_000


def test_call_signs_of_a_large_league_seldom_collide():
    # 2,000 of 405,504 names: five collisions are expected, 20 would be one run in a million
    names = [call_sign("mech-duel", f"{player:064x}") for player in range(2000)]
    assert len(names) - len(set(names)) < 20


def test_every_word_is_in_use():
    names = [call_sign("mech-duel", str(player)).split() for player in range(5000)]
    assert {name[0] for name in names} == set(ADJECTIVES)
    assert {name[1] for name in names} == set(NOUNS)
    assert {int(name[2]) for name in names} == set(range(1, NUMBERS + 1))


def test_a_taken_call_sign_counts_on_to_the_next_free_number():
    first = call_sign("mech-duel", "abc")
    words, number = first.rsplit(" ", 1)
    assert free_call_sign("mech-duel", "abc", set()) == first
    assert free_call_sign("mech-duel", "abc", {first}) == f"{words} {int(number) + 1}"
    crowd = {f"{words} {n}" for n in range(1, 150)}
    assert free_call_sign("mech-duel", "abc", crowd) == f"{words} 150"


@given(st.text(max_size=20), st.text(max_size=70), st.sets(st.text(max_size=5)))
def test_a_free_call_sign_is_never_taken(environment, identity, taken):
    assert free_call_sign(environment, identity, taken) not in taken
