"""Which error `league up` ends with because of a part that is not started again."""

from pathlib import Path

import pytest

from league.cli.up.failures import GaveUpError, PartRefusedError, error_of
from league.process.supervised_process import UnexpectedExit

OWN = "trainer: run folder var/runs/rps/main has the signature a, but rps has b: choose another --run"


def death(status: int, *lines: str) -> UnexpectedExit:
    return UnexpectedExit("trainer", status, 3.0, None, lines, Path("trainer.log"))


@pytest.mark.parametrize("status", [2, 78])
def test_a_permanent_error_is_shown_in_the_words_of_its_part(status: int) -> None:
    error = error_of(death(status, "compiling", OWN, ""))
    assert isinstance(error, PartRefusedError)
    assert error.exit_status == status
    assert OWN.removeprefix("trainer: ") in str(error)


@pytest.mark.parametrize(
    ("status", "line"), [(1, OWN), (-11, OWN), (75, OWN), (2, "Traceback (most recent call last)")]
)
def test_any_other_end_is_given_up_with_its_cause_and_its_log(status: int, line: str) -> None:
    error = error_of(death(status, line))
    assert isinstance(error, GaveUpError)
    assert "trainer.log" in str(error)
