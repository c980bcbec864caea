"""When a process that died is started again."""

from hypothesis import given
from hypothesis import strategies as st

from league.process.restart_policy import RestartPolicy, backoff_delay_s, count_short_lives, restart_delay_s

RULE = RestartPolicy(short_life_s=30.0, most_short_lives=5, first_delay_s=1.0, longest_delay_s=6.0)


def test_delays_double_up_to_the_longest_and_then_it_gives_up() -> None:
    assert [restart_delay_s(count, RULE) for count in range(1, 6)] == [1.0, 2.0, 4.0, 6.0, None]


def test_the_patient_never_give_up() -> None:
    assert [backoff_delay_s(times, RULE) for times in (1, 2, 3, 4, 5, 10_000)] == [1.0, 2.0, 4.0, 6.0, 6.0, 6.0]


def test_a_long_life_clears_the_count_and_restarts_after_the_first_delay() -> None:
    count = count_short_lives(4, lived_s=30.0, rule=RULE)
    assert count == 0
    assert restart_delay_s(count, RULE) == RULE.first_delay_s


@given(st.lists(st.floats(min_value=0, max_value=100), max_size=50))
def test_it_gives_up_exactly_when_so_many_lives_in_a_row_were_short(lives: list[float]) -> None:
    count = 0
    for number, lived_s in enumerate(lives, start=1):
        count = count_short_lives(count, lived_s, RULE)
        recent = lives[max(0, number - RULE.most_short_lives) : number]
        all_short = len(recent) == RULE.most_short_lives and max(recent) < RULE.short_life_s
        delay_s = restart_delay_s(count, RULE)
        if all_short:
            assert delay_s is None
            return
        assert delay_s is not None
        assert RULE.first_delay_s <= delay_s <= RULE.longest_delay_s
