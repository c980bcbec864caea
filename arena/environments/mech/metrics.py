"""Behaviour measures of a side of mechs: weapons, positions, heat and electronic warfare.

All are means over living mechs: rates per second, and shares of the decisions, of mechs that began the decision alive.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from jaxtyping import Float
from torch import Tensor

from arena.environments.base import Actions, Measure, Observation, StepResult
from arena.environments.mech.config.constants import DECISION_S, EWAR_OPTIONS
from arena.environments.mech.config.scenario import MechConfig
from arena.environments.mech.config.weapons import PAINTER, WEAPONS
from arena.environments.mech.replay.recorder import MechMatches
from arena.environments.metrics import RatioAccumulator

Ratio = tuple[Tensor, Tensor]
"""Numerator and denominator of a measure, each (E, N), for one decision."""


class MechMetrics:
    """Computes behaviour measures of mech matches from the arrays of each decision.

    Args:
        env: The matches.
        hulls: Constant rows (N,) of the mechs, by their names in `kernels.state.Hulls`.
    """

    def __init__(self, env: MechMatches, hulls: Mapping[str, Tensor]) -> None:
        self._env, self._hulls = env, hulls
        readers = _readers(env.config)
        self.measures, self._readers = tuple(readers), tuple(readers.values())
        self._ratios = RatioAccumulator(env.spec, env.num_envs, len(self.measures), env.device)
        env.on_decided.append(self._keep)

    def opened(self, observation: Observation) -> None:
        """See `Meter.opened`."""

    def stepped(self, actions: Actions, step: StepResult) -> Float[Tensor, "E 2 B"]:
        """See `Meter.stepped`."""
        return self._last

    def _keep(self) -> None:
        """Read a decision before matches that ended are reopened."""
        decision = _Decision(self._env.arrays, self._hulls)
        ratios = [read(decision) for read in self._readers]
        parts, wholes = (torch.stack(each, dim=-1) for each in zip(*ratios, strict=True))
        self._ratios.add(parts, wholes)
        self._last = self._ratios.take(self._env.arrays["ended"])


@dataclass(frozen=True, eq=False)
class _Decision:
    """Arrays of the state after a decision."""

    arrays: Mapping[str, Tensor]
    hulls: Mapping[str, Tensor]

    @cached_property
    def acted(self) -> Float[Tensor, "E N"]:
        """1 for mechs that were alive at the start of the decision."""
        return self.arrays["acted"].float()

    @cached_property
    def seconds(self) -> Float[Tensor, "E N"]:
        """Time of the living."""
        return DECISION_S * self.acted

    @cached_property
    def damage(self) -> Float[Tensor, "E N"]:
        """Of all weapons."""
        return self.arrays["raw_damage"].sum(dim=-1)

    @cached_property
    def hot(self) -> Float[Tensor, "E N"]:
        """Heat as a share of the capacity."""
        return self.arrays["heat"] / self.hulls["heat_capacity"]


Reader = Callable[[_Decision], Ratio]


def _readers(config: MechConfig) -> dict[Measure, Reader]:
    """Return the measures that apply to a composition; measures of missing equipment are left out."""
    fastest = max(config.with_build(mech, build).max_speed for mech in config.team for build in range(config.builds))
    readers: dict[Measure, Reader] = {
        Measure("damage_per_s", 0.0, math.inf): _damage,
        Measure("engagement_range_m", 0.0, 2.0 * config.map_side): _engagement_range,
        Measure("zone_share", 0.0, 1.0): _zone,
        Measure("speed_m_per_s", 0.0, fastest): _speed,
        Measure("heat_share", 0.0, math.inf): _heat,
        Measure("shutdown_share", 0.0, 1.0): _shutdown,
        Measure("fallen_share", 0.0, 1.0): _fallen,
    }
    carried = {name for mech in config.team for name in config.weapons_of(mech.name)}
    hurting = [weapon for weapon in config.weapons if weapon.damage > 0.0 and weapon.name in carried]
    if len(hurting) > 1:
        shares = {weapon.name: partial(_weapon, weapon=config.weapons.index(weapon)) for weapon in hurting}
        readers |= {Measure(f"{name}_damage_share", 0.0, 1.0): read for name, read in shares.items()}
    if PAINTER.name in carried:
        readers[Measure("paints_per_s", 0.0, 1.0 / DECISION_S)] = _paints
    if any(mech.ewar for mech in config.team):
        options = {name: partial(_ewar, option=EWAR_OPTIONS.index(name)) for name in EWAR_OPTIONS if name != "off"}
        readers |= {Measure(f"{name}_share", 0.0, 1.0): read for name, read in options.items()}
    if any(mech.ams for mech in config.team):
        readers[Measure("intercepts_per_s", 0.0, math.inf)] = _intercepts
    return readers


def _damage(decision: _Decision) -> Ratio:
    """Damage of hits on enemies, before it is limited to the remaining hit points."""
    return decision.damage, decision.seconds


def _weapon(decision: _Decision, weapon: int) -> Ratio:
    """Share of a side's damage that a weapon did."""
    return decision.arrays["raw_damage"][..., weapon], decision.damage


def _engagement_range(decision: _Decision) -> Ratio:
    """Distance to the enemies that it hurt, weighted with the hit points that they lost."""
    side, position = decision.hulls["side"], decision.arrays["position"]
    dealt = decision.arrays["dealt"] * (side[:, None] != side)
    return (dealt * torch.cdist(position, position)).sum(dim=-1), dealt.sum(dim=-1)


def _zone(decision: _Decision) -> Ratio:
    """Share of the time within the zone's radius, at any height."""
    reach = decision.arrays["position"][..., :2].norm(dim=-1)
    return (reach <= decision.arrays["zone_radius"].unsqueeze(-1)) * decision.acted, decision.acted


def _speed(decision: _Decision) -> Ratio:
    """Speed over the ground."""
    return decision.arrays["velocity"][..., :2].norm(dim=-1) * decision.acted, decision.acted


def _heat(decision: _Decision) -> Ratio:
    """Heat as a share of the capacity."""
    return decision.hot * decision.acted, decision.acted


def _shutdown(decision: _Decision) -> Ratio:
    """Share of the time too hot to do anything."""
    return (decision.hot > 1.0) * decision.acted, decision.acted


def _fallen(decision: _Decision) -> Ratio:
    """Share of the time on the ground."""
    return (decision.arrays["fallen_ticks"] > 0) * decision.acted, decision.acted


def _paints(decision: _Decision) -> Ratio:
    """Decisions with a hit of the painter."""
    painted = decision.arrays["hitscan_hits"][..., WEAPONS.index(PAINTER)] >= 0
    return painted * decision.acted, decision.seconds


def _ewar(decision: _Decision, option: int) -> Ratio:
    """Share of the time that mechs which carry it had it on."""
    carrying = decision.acted * decision.hulls["ewar"]
    return (decision.arrays["ewar"] == option) * carrying, carrying


def _intercepts(decision: _Decision) -> Ratio:
    """Missiles shot down by mechs that carry an anti-missile system."""
    carrying = decision.acted * decision.hulls["ams"]
    return decision.arrays["intercepted"] * carrying, DECISION_S * carrying
