"""How long the server waits before it starts another process of the books."""

from league.bookkeeping import next_pause_s


def test_the_pause_between_processes_that_end_soon_doubles_up_to_a_minute() -> None:
    pauses = [2.0]
    while len(pauses) < 8:
        pauses.append(next_pause_s(2.0, pauses[-1], lasted_s=59.0))
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert next_pause_s(2.0, pauses[-1], lasted_s=60.0) == 2.0
