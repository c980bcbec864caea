"""Decoding of the parts of an observation that scripted players use, for all rows at once."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.mech.config.chassis import CLASSES
from arena.environments.mech.config.constants import LOCAL_MAP_CELLS, QUALITY_RANGE
from arena.environments.mech.config.scenario import MechConfig
from arena.environments.mech.observation_spec import (
    CONDITION_FEATURES,
    CONTACT_FEATURES,
    HULL_FEATURES,
    SENSOR_FEATURES,
    ZONE_FEATURES,
    make_spec,
)

HEEDED_CONTACTS = 5
"""Number of nearest contacts that scripted players consider."""

LAVA_ON_MAP = -0.9
"""Values below this on the local map are lava."""

OWN = (
    ("hull", HULL_FEATURES, tuple(CLASSES)),
    ("heat", ("heat",), ("heat",)),
    ("zone", ZONE_FEATURES, ("ahead", "left", "radius", "route_ahead", "route_left", "route")),
    ("sensors", SENSOR_FEATURES, ("quality",)),
    ("condition", CONDITION_FEATURES, ("in_zone",)),
)
"""Blocks, their features, and the features in use."""

OF_CONTACTS = ("ahead", "left", "distance", "hostile", "in_sight", "painted")


@dataclass(frozen=True)
class Percept:
    """Perception of R mechs, in metres and in their own frames (ahead, left); K contacts, nearest enemies first.

    `variant` counts the builds of all classes, and `builds` are the known ones of contacts, of B.
    Everything is 0 for destroyed mechs and for empty contact slots.
    """

    kind: Int[Tensor, " R"]
    variant: Int[Tensor, " R"]
    heat: Float[Tensor, " R"]
    zone: Float[Tensor, "2 R"]
    zone_radius: Float[Tensor, " R"]
    route: Float[Tensor, "2 R"]
    remaining: Float[Tensor, " R"]
    quality: Float[Tensor, " R"]
    in_zone: Bool[Tensor, " R"]
    ahead: Float[Tensor, "K R"]
    left: Float[Tensor, "K R"]
    distance: Float[Tensor, "K R"]
    hostile: Bool[Tensor, "K R"]
    in_sight: Bool[Tensor, "K R"]
    painted: Bool[Tensor, "K R"]
    builds: Bool[Tensor, "K B R"]

    def by_class(self, table: Float[Tensor, "numbers classes"]) -> Float[Tensor, "numbers R"]:
        """Select every mech's column of a table with a column per class."""
        return table.to(self.kind.device).index_select(1, self.kind)


class Reader:
    """Decodes the observations of a composition's mechs."""

    def __init__(self, config: MechConfig) -> None:
        self._layout = make_spec(config).layout
        self._contacts = min(HEEDED_CONTACTS, config.contacts)
        self._side, self._diagonal = float(config.map_side), config.map_side * math.sqrt(2.0)
        self._builds = config.builds if config.builds > 1 else 0
        builds = self._build_columns()
        self._build_rows = len(builds)
        self._columns = torch.tensor([*self._own_columns(), *self._contact_columns(), *builds])

    def read(self, values: Float[Tensor, "R D"]) -> Percept:
        """Select the features in use and convert them to their units."""
        rows = values.t().index_select(0, self._columns.to(values.device))
        rows, builds = rows[: len(rows) - self._build_rows], rows[len(rows) - self._build_rows :]
        own = len(rows) - len(OF_CONTACTS) * self._contacts
        hull, heat, zone, radius, route, remaining, quality, in_zone = torch.split(rows[:own], [4, 1, 2, 1, 2, 1, 1, 1])
        contacts = rows[own:].view(len(OF_CONTACTS), self._contacts, -1)
        ahead, left, distance = (contacts[:3] * self._diagonal).unbind()
        hostile, in_sight, painted = (contacts[3:] > 0.5).unbind()
        kind = (hull[1] + 2.0 * hull[2] + 3.0 * hull[3]).long()
        build, contact_builds = builds[: self._builds], builds[self._builds :]
        return Percept(
            kind=kind,
            variant=kind if not len(build) else kind * self._builds + build.argmax(dim=0),
            heat=heat[0],
            zone=zone * self._side,
            zone_radius=radius[0] * self._side,
            route=route,
            remaining=remaining[0] * (2.0 * self._side),
            quality=quality[0] * QUALITY_RANGE[1],
            in_zone=in_zone[0] > 0.5,
            ahead=ahead,
            left=left,
            distance=distance,
            hostile=hostile,
            in_sight=in_sight,
            painted=painted,
            builds=contact_builds.view(self._contacts, self._builds, len(values)) > 0.5,
        )

    def lava_towards(self, values: Float[Tensor, "R D"], direction: Float[Tensor, "2 R"]) -> Bool[Tensor, " R"]:
        """Return whether the next point of the local map in a direction is lava, starting from safe ground."""
        if "local_map" not in self._layout:
            return torch.zeros(len(values), dtype=torch.bool, device=values.device)
        middle = self._layout["local_map"].start + LOCAL_MAP_CELLS * LOCAL_MAP_CELLS // 2
        ahead, left = direction.round().long().unbind()
        there = values.gather(1, (middle + LOCAL_MAP_CELLS * ahead + left).unsqueeze(-1))[:, 0]
        return (there < LAVA_ON_MAP) & (values[:, middle] > LAVA_ON_MAP)

    def _own_columns(self) -> list[int]:
        return [self._layout[block].start + features.index(name) for block, features, heeded in OWN for name in heeded]

    def _build_columns(self) -> list[int]:
        """Own build, then those of the contacts; none if there is one build only."""
        if not self._builds:
            return []
        own, contacts = (self._layout[name].start for name in ("build", "contact_builds"))
        return [*range(own, own + self._builds), *range(contacts, contacts + self._contacts * self._builds)]

    def _contact_columns(self) -> list[int]:
        start = self._layout["contacts"].start
        return [
            start + slot * len(CONTACT_FEATURES) + CONTACT_FEATURES.index(name)
            for name in OF_CONTACTS
            for slot in range(self._contacts)
        ]


def length(vector: Float[Tensor, "2 R"]) -> Float[Tensor, " R"]:
    """Return the lengths of plane vectors."""
    return torch.hypot(vector[0], vector[1])
