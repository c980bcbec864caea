"""A family of scripted tactics: parameters, their values, and the mechanics that each can do without."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from arena.environments.mech.config.rules import STANDARD_RULES
from arena.environments.mech.config.scenario import MechConfig
from arena.environments.mech.config.weapons import Guidance

FAR = 11.5
"""Distance in metres from builds that a tactic avoids."""

NEVER = 9.0
"""A share of heat that is not reached: no limit, or no venting."""


@dataclass(frozen=True)
class Tactic:
    """Parameters of a scripted player. The default fights in the zone like the lieutenant.

    Attributes:
        distance: Distance in metres to the target that it keeps.
        strafe: Throttle sideways while the target is in sight, in [0, 1].
        weave_s: Mean time between two changes of the strafing direction.
        hunts: Goes to the known enemy instead of the zone.
        wait_s: Time for which it waits outside the zone.
        retreats_below: Share of hit points below which it moves away from the target.
        heat_limit: Highest share of the heat capacity that firing may lead to.
        vent_above: Share of the heat capacity above which it vents.
        leads: Aims guns at the place where the target will be, without a focus.
        primary: Uses the weapons of this trigger.
        secondary: The same.
        tertiary: The same.
        smoke_within: Launches smoke if the target is in sight within this distance; 0 for never.
        focuses: Chooses its target.
        jams: Uses ECM and ECCM.
        build: Build that it chooses.
        closes_on: Build of a target to which it keeps no distance once it knows it; -1 for none.
        avoids: Build of a target from which it keeps FAR once it knows it; -1 for none.
    """

    distance: float = 5.5
    strafe: float = 0.0
    weave_s: float = 3.0
    hunts: bool = False
    wait_s: float = 0.0
    retreats_below: float = 0.0
    heat_limit: float = 1.0
    vent_above: float = 0.75
    leads: bool = False
    primary: bool = True
    secondary: bool = True
    tertiary: bool = True
    smoke_within: float = 0.0
    focuses: bool = True
    jams: bool = True
    build: int = 0
    closes_on: int = -1
    avoids: int = -1

    def __str__(self) -> str:
        """Return the parameters that differ from the default."""
        parts = []
        for name, value in asdict(self).items():
            if value != getattr(PLAIN, name):
                words = name.replace("_", " ")
                parts.append(f"{'' if value else 'not '}{words}" if isinstance(value, bool) else f"{words} {value:g}")
        return ", ".join(parts) or "plain"

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the tactic of `to_dict`."""
        return cls(**values)


PLAIN = Tactic()

STRAFER = Tactic(strafe=1.0, vent_above=0.4)
"""Strafes in the zone."""

MARGIN = 1.5
"""Metres by which a lieutenant is nearer than the shortest range of its weapons."""

OPENING = (
    PLAIN,
    Tactic(strafe=1.0),
    Tactic(distance=11.0, hunts=True, strafe=0.5, primary=False),
    Tactic(distance=0.0, hunts=True),
    Tactic(wait_s=15.0),
)
"""Tactics with which the search begins: lieutenant, strafer, kiter, brawler and waiter."""

STYLES = (
    STRAFER,
    Tactic(distance=0.0, strafe=0.5, vent_above=0.4, hunts=True),
    Tactic(distance=9.5, strafe=0.5, vent_above=0.4, hunts=True),
)
"""Tactics with which the search begins with every build: strafer, brawler and kiter."""

CHOICES: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "distance": (0.0, 3.0, 5.5, 7.5, 9.5, 11.5, 14.0),
        "strafe": (0.0, 0.5, 1.0),
        "weave_s": (1.0, 3.0, 60.0),
        "hunts": (False, True),
        "wait_s": (0.0, 8.0, 15.0, 30.0),
        "retreats_below": (0.0, 0.3, 0.6),
        "heat_limit": (0.6, 1.0, NEVER),
        "vent_above": (0.4, 0.75, NEVER),
        "leads": (False, True),
        "primary": (True, True, False),
        "secondary": (True, True, False),
        "tertiary": (True, True, False),
        "smoke_within": (0.0, 0.0, 8.0, 14.0, 25.0),
        "focuses": (True, True, False),
        "jams": (True, True, False),
        "build": (0, 1, 2),
        "closes_on": (-1, -1, 0, 1, 2),
        "avoids": (-1, -1, 0, 1, 2),
    }
)
"""Values of every parameter; those that are more likely to help are there twice."""

LEFT_OUT: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "keeping a distance": {"distance": 0.0},
        "strafing": {"strafe": 0.0},
        "zone": {"hunts": True},
        "waiting": {"wait_s": 0.0},
        "retreat": {"retreats_below": 0.0},
        "heat discipline": {"heat_limit": NEVER},
        "vent": {"vent_above": NEVER},
        "lead": {"leads": False},
        "primary": {"primary": False},
        "secondary": {"secondary": False},
        "tertiary": {"tertiary": False},
        "smoke": {"smoke_within": 0.0},
        "target choice": {"focuses": False, "leads": False},
        "ECM and ECCM": {"jams": False},
        "choice of builds": {"build": 0},
        "recognition of builds": {"closes_on": -1, "avoids": -1},
    }
)
"""Parameters without each mechanic."""


def parameters_of(config: MechConfig) -> list[str]:
    """Return the parameters that matter in a composition."""
    idle = {trigger for trigger in ("primary", "secondary", "tertiary") if not _weapons_on(config, trigger)}
    if not any(mech.ewar for mech in config.team):
        idle.add("jams")
    if config.builds == 1:
        idle |= {"build", "closes_on", "avoids"}
    return [name for name in CHOICES if name not in idle]


def weavers(config: MechConfig) -> tuple[Tactic, ...]:
    """Return the tactics of a lieutenant whose rules reward moving, one per build.

    All of its weapons reach the target, and it leads straight shells.
    """
    found = []
    for build in range(config.builds):
        carried = {name for mech in config.team for name in config.loadout(mech.name, build)}
        weapons = [weapon for weapon in config.weapons if weapon.name in carried and weapon.damage > 0.0]
        leads = any(weapon.guidance is Guidance.STRAIGHT for weapon in weapons)
        reach = min((weapon.range for weapon in weapons), default=math.inf)
        distance = min(STRAFER.distance, reach - MARGIN)
        found.append(replace(STRAFER, distance=distance, leads=leads, build=build))
    return tuple(found)


def opening_of(config: MechConfig) -> tuple[Tactic, ...]:
    """Return the tactics with which the search begins; the lieutenant's is among them."""
    if config.rules == STANDARD_RULES:
        return OPENING
    styles = (replace(each, build=build) for each in STYLES for build in range(config.builds))
    return tuple(dict.fromkeys((*OPENING, *weavers(config), *styles)))


def random_tactic(names: Sequence[str], rng: np.random.Generator) -> Tactic:
    """Draw these parameters."""
    return Tactic(**{name: _choose(name, rng) for name in names})


def mutate(tactic: Tactic, names: Sequence[str], rng: np.random.Generator) -> Tactic:
    """Draw one to three of these parameters again."""
    chosen = rng.permutation(len(names))[: int(rng.integers(1, 4))]
    return replace(tactic, **{names[index]: _choose(names[index], rng) for index in chosen})


def ablations(config: MechConfig) -> dict[str, Mapping[str, Any]]:
    """Return the mechanics of a composition that tactics can leave out, with the parameters that do so.

    A trigger is named after its weapons.
    """
    known, found = set(parameters_of(config)), {}
    for name, parameters in LEFT_OUT.items():
        if known.issuperset(parameters):
            found[", ".join(_weapons_on(config, name)) or name] = parameters
    return found


def as_rows(tactics: Sequence[Tactic]) -> Float[Tensor, "R fields"]:
    """Return one row of numbers for each tactic, in the order of the fields."""
    names = [field.name for field in fields(Tactic)]
    return torch.tensor([[float(getattr(each, name)) for name in names] for each in tactics]).view(-1, len(names))


def _choose(name: str, rng: np.random.Generator) -> Any:  # noqa: ANN401  a parameter's value
    return CHOICES[name][int(rng.integers(len(CHOICES[name])))]


def _weapons_on(config: MechConfig, trigger: str) -> list[str]:
    """Return the weapons that a trigger fires in any class of the composition."""
    carried = [item for mech in config.team for item in config.weapons_of(mech.name).items()]
    return list(dict.fromkeys(weapon for weapon, triggers in carried if trigger in triggers))
