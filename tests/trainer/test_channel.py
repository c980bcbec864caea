"""Messages between two processes: whole, at once, and awaited no longer than one has patience."""

import pytest

from trainer import channel
from trainer.channel import MOST_BYTES, Channel, pair


@pytest.fixture
def ends(monkeypatch):
    monkeypatch.setattr(channel, "GLANCES", 1)
    one, other = (Channel(end) for end in pair())
    yield one, other
    one.close()
    other.close()


def test_messages_keep_apart_and_come_in_order(ends):
    one, other = ends
    one.send("step", 1, 0.1)
    one.send("done")
    assert other.receive() == ["step", 1, 0.1]
    assert other.receive(0.0) == ["done"]


def test_an_end_that_is_closed_is_told_from_one_that_says_nothing(ends):
    one, other = ends
    one.send("last")
    one.close()
    assert other.receive() == ["last"]
    assert other.receive() is None
    assert other.receive(0.01) is None


@pytest.mark.parametrize("patience_s", [0.0, 0.01])
def test_patience_ends(ends, patience_s, monkeypatch):
    monkeypatch.setattr(channel, "LOOK_S", 0.003)
    with pytest.raises(TimeoutError, match=f"nothing has come in {patience_s:g} s"):
        ends[0].receive(patience_s)


def test_what_is_too_long_is_never_sent_in_part(ends):
    one, other = ends
    one.send("x" * (MOST_BYTES - len('[""]')))
    assert len(other.receive()[0]) == MOST_BYTES - 4
    with pytest.raises(ValueError, match="a message of 4097 bytes: 4096 at most are heard"):
        one.send("x" * (MOST_BYTES - 3))
    with pytest.raises(TimeoutError):
        other.receive(0.0)
