"""Errors of the three packages have codes that programs can rely on."""

import copy
import importlib
import pickle
import re

import pytest
from refused import refused

from arena.errors import ArenaError, UnknownPolicyError
from league.errors import RateLimitedError
from trainer.errors import TrainerError


def codes(base):
    """Codes of an error and of all that derive from it, by class."""
    found = {base: base.code}
    for kind in base.__subclasses__():
        found |= codes(kind)
    return found


@pytest.mark.parametrize(
    ("base", "module"),
    [
        (ArenaError, "arena.agents.errors"),
        (ArenaError, "arena.replay.file"),
        (ArenaError, "arena.environments.mech.config.scenario"),
        (ArenaError, "arena.environments.adapters.openspiel.library"),
        (TrainerError, "trainer.fleet.members"),
    ],
)
def test_every_class_has_a_code_of_its_own_in_kebab_case(base, module):
    importlib.import_module(module)
    found = {kind: code for kind, code in codes(base).items() if kind.__module__.startswith(("arena", "trainer"))}
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in found.values())
    assert len(set(found.values())) == len(found)


def test_a_league_error_can_be_copied():
    error = RateLimitedError("gpu-3", "the limit is 10 calls a second", "wait")
    error.retry_after_s = 2
    copied = pickle.loads(pickle.dumps(copy.copy(error)))
    assert (type(copied), str(copied), copied.retry_after_s) == (RateLimitedError, str(error), 2)


def test_refused_asks_for_the_code_and_each_value_as_a_word():
    with refused("unknown-policy", "bot", 3):
        raise UnknownPolicyError("'bot' is none of 3 policies")
    with pytest.raises(AssertionError, match="12"), refused("unknown-policy", 1):
        raise UnknownPolicyError("12 policies")
    with pytest.raises(AssertionError), refused("no-run"):
        raise UnknownPolicyError("bot")


def test_refused_passes_other_errors_on_and_fails_where_nothing_is_refused():
    with pytest.raises(ZeroDivisionError), refused("no-run"):
        1 / 0  # noqa: B018
    with pytest.raises(pytest.fail.Exception), refused("no-run"):
        pass
