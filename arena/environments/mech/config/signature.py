"""Rules that the signature of a mech environment covers, under keys that survive a renaming in the code.

Players are rated together, and checkpoints stay usable, only while the signature stays. Besides the layout that
`EnvironmentSpec.signature` hashes for every game, it covers everything that decides how a match goes: the composition,
its classes, all weapons and loadouts, all constants, the edition of the maps and the names of features. A
changed value is another game and changes it. A changed name is not: see `STABLE_KEYS`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from arena.environments.mech.config import constants
from arena.environments.mech.config.rules import STANDARD_RULES
from arena.environments.mech.config.scenario import MechConfig
from arena.environments.mech.config.weapons import LOADOUTS, SMOKE

STABLE_KEYS: Mapping[str, str] = MappingProxyType({})
"""Key of a constant or field that was renamed, by its new name in lower case; all others are hashed by their name."""


def covered_rules(config: MechConfig, *, maps_edition: int, features: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return the rules that the signature covers.

    Args:
        config: The composition.
        maps_edition: Edition of the maps.
        features: Names of the observed features, in their order, by block.
    """
    composition = asdict(config, dict_factory=_keyed)
    if config.rules == STANDARD_RULES:
        del composition["rules"]  # signatures are older than these rules
    return {
        "config": composition,
        "classes": {mech.name: asdict(mech, dict_factory=_keyed) for mech in config.team},
        "weapons": [asdict(weapon, dict_factory=_keyed) for weapon in (*config.weapons, SMOKE)],
        "loadouts": LOADOUTS,
        "rules": _keyed([item for item in vars(constants).items() if item[0].isupper()]),
        "maps_edition": maps_edition,
        "features": features,
    }


def _keyed(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dictionary by stable keys."""
    return {STABLE_KEYS.get(name.lower(), name.lower()): value for name, value in items}
