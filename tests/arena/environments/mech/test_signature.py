"""The signature of a mech environment follows the values of its rules, and not the names in the code."""

from types import MappingProxyType

import pytest

from arena.environments import declare
from arena.environments.mech.config import constants, signature
from arena.environments.mech.config.scenario import PRESETS
from arena.environments.mech.observation_spec import declare_preset


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mech-duel", "bac99271b070d516"),
        ("mech-duel-2", "204d9605ffbe2271"),
        ("mech-pack", "d44101dae4594315"),
        ("mech-company", "1769a673c2a34eef"),
    ],
)
def test_presets_have_the_signatures_of_their_ratings_and_checkpoints(name, expected):
    """A rename that changes one needs a row in `STABLE_KEYS`; a new rule needs new numbers here."""
    assert declare(name).signature == expected


def test_a_renamed_constant_with_its_stable_key_leaves_the_signature(monkeypatch):
    before = declare_preset("mech-duel").signature
    monkeypatch.setattr(constants, "NEW_NAME", constants.MOVES, raising=False)
    monkeypatch.delattr(constants, "MOVES")
    assert declare_preset("mech-duel").signature != before
    monkeypatch.setattr(signature, "STABLE_KEYS", MappingProxyType({"new_name": "moves"}))
    assert declare_preset("mech-duel").signature == before


def test_a_changed_constant_is_another_game(monkeypatch):
    before = declare_preset("mech-duel").signature
    monkeypatch.setattr(constants, "MOVES", constants.MOVES[:-1])
    assert declare_preset("mech-duel").signature != before


def test_fields_are_covered_under_their_stable_keys(monkeypatch):
    config = PRESETS["mech-duel"]
    field = next(iter(vars(config)))
    monkeypatch.setattr(signature, "STABLE_KEYS", MappingProxyType({field: "former"}))
    covered = signature.covered_rules(config, maps_edition=1, features=())
    assert "former" in covered["config"]
    assert field not in covered["config"]
