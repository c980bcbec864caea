"""Streams of events that ask at one moment for the same share an answer."""

import pytest

from league.api.event_feed import Cursor, EventFeed, NewEvents
from league.api.routers.events import until_next


def test_repeated_event_polls_share_one_query() -> None:
    now_s, read = 0.0, []
    news = EventFeed(0.5, lambda: now_s)

    def ask(cursor: Cursor) -> NewEvents:
        def look() -> NewEvents:
            read.append(cursor)
            return []

        return news.since(cursor, look)

    assert ask((1, 1)) is ask((1, 1))
    ask((1, 2))
    assert read == [(1, 1), (1, 2)]
    now_s = 0.5
    ask((1, 1))
    assert read == [(1, 1), (1, 2), (1, 1)]


def test_an_answer_that_fails_is_asked_for_again() -> None:
    def fail() -> NewEvents:
        raise TimeoutError

    news = EventFeed(0.5, lambda: 0.0)
    with pytest.raises(TimeoutError):
        news.since((1, 1), fail)
    assert news.since((1, 1), list) == []


@pytest.mark.parametrize(("now_s", "wait_s"), [(10.0, 1.0), (10.25, 0.75), (10.75, 0.25)])
def test_streams_ask_at_the_same_moments(now_s: float, wait_s: float) -> None:
    assert until_next(now_s, 1.0) == wait_s
