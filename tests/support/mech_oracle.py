"""A duel of two mediums, one match at a time and number by number, written from the rules and not from the kernels.

Double precision but for heat: its steps add up to the capacity exactly, where the last bit decides over a shutdown.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from arena.seeding import derive

TICK_S, TICKS = 0.05, 5
HALF_MAP, BOX = 20.0, 2.5
TOP_SPEED, TOP_YAW_RATE, DRAG = 5.5, 1.0, 0.98
HP, HEAT_CAPACITY = 150.0, 100.0
COOLING, VENTING = np.float32(11.0) * np.float32(TICK_S), np.float32(3.0)
LASER_RANGE, LASER_DAMAGE, LASER_WAIT = 8.0, 14.0, 12
GUN_RANGE, GUN_DAMAGE, GUN_WAIT, GUN_SPEED, GUN_CONE = 12.0, 8.0, 4, 25.0, 0.1
COLD = np.float32(0.0)
LASER_HEAT, LASER_TARGET_HEAT, GUN_HEAT = np.float32(22.0), np.float32(6.0), np.float32(6.0)
HIT_RADIUS = 1.5
ZONE_GOAL_S, LIMIT = 30.0, 240


def drawn(seed: int, purpose: int) -> float:
    """The number in [0, 1) that a match's seed holds for a purpose of its map."""
    return (derive(seed, purpose, 0, 0) >> 39) / 2**24


@dataclass
class Shell:
    x: float
    y: float
    direction: tuple[float, float]
    reach: float = GUN_RANGE


@dataclass
class Mech:
    x: float
    y: float
    yaw: float
    hp: float = HP
    heat: np.float32 = COLD
    laser_wait: int = 0
    gun_wait: int = 0
    zone_s: float = 0.0
    shells: list[Shell] = field(default_factory=list)

    @property
    def facing(self) -> tuple[float, float]:
        return math.cos(self.yaw), math.sin(self.yaw)

    def bearing(self, other: "Mech") -> float:
        """Angle between the heading and the other, in [0, pi]."""
        off = math.atan2(other.y - self.y, other.x - self.x) - self.yaw
        return abs(math.remainder(off, math.tau))

    def distance(self, other: "Mech") -> float:
        return math.hypot(other.x - self.x, other.y - self.y)


class Duel:
    """One match from its seed. `result` is None while it runs, then (home's score, reason, truncated)."""

    def __init__(self, seed: int) -> None:
        self.zone_radius = 7.5 * (0.5 + drawn(seed, 0))
        angle, distance = math.tau * drawn(seed, 1), HALF_MAP * (0.65 + 0.2 * drawn(seed, 2))
        x, y = distance * math.cos(angle), distance * math.sin(angle)
        yaw = angle + math.pi + 0.15 * (2.0 * drawn(seed, 3) - 1.0)
        self.mechs = [Mech(x, y, yaw), Mech(-x, -y, yaw + math.pi)]
        self.decision = 0
        self.result: tuple[float, str, bool] | None = None

    def step(self, moves: list[list[float]], triggers: list[list[bool]]) -> None:
        """Play one decision: (forward, strafe, vertical, yaw rate) and five switches of each side."""
        for _ in range(TICKS):
            self._tick(moves, triggers)
        self._score()

    def _tick(self, moves: list[list[float]], triggers: list[list[bool]]) -> None:
        powered = [mech.hp > 0.0 and mech.heat <= HEAT_CAPACITY for mech in self.mechs]
        self._drive(moves, [trigger[1] for trigger in triggers], powered)
        wounds = [self._fly(mech, self.mechs[1 - side]) for side, mech in enumerate(self.mechs)]
        for side, mech in enumerate(self.mechs):
            enemy, (laser, _, _, gun, _) = self.mechs[1 - side], triggers[side]
            if powered[side] and laser and mech.laser_wait == 0 and self._in_laser_arc(mech, enemy):
                wounds[side] = (wounds[side][0] + self._laser_damage(mech, enemy), LASER_TARGET_HEAT)
                mech.heat += LASER_HEAT
                mech.laser_wait = LASER_WAIT
            if powered[side] and gun and mech.gun_wait == 0:
                self._fire_gun(mech, enemy)
        for side, (damage, heat) in enumerate(wounds):
            self.mechs[1 - side].hp = max(self.mechs[1 - side].hp - damage, 0.0)
            self.mechs[1 - side].heat += heat

    def _drive(self, moves: list[list[float]], vents: list[bool], powered: list[bool]) -> None:
        proposals = []
        for mech, (forward, strafe, _, turn), vent, on in zip(self.mechs, moves, vents, powered, strict=True):
            mech.heat = max(mech.heat - COOLING * (VENTING if vent and on else np.float32(1.0)), COLD)
            mech.laser_wait, mech.gun_wait = max(mech.laser_wait - 1, 0), max(mech.gun_wait - 1, 0)
            x, y = mech.x, mech.y
            if on:
                mech.yaw += turn * TOP_YAW_RATE * TICK_S
                scale = TOP_SPEED * DRAG * TICK_S / max(math.hypot(forward, strafe), 1.0)
                ahead, left = mech.facing, (-mech.facing[1], mech.facing[0])
                x += scale * (forward * ahead[0] + strafe * left[0])
                y += scale * (forward * ahead[1] + strafe * left[1])
            edge = HALF_MAP - BOX / 2.0
            proposals.append((min(max(x, -edge), edge), min(max(y, -edge), edge)))
        (x0, y0), (x1, y1) = proposals
        overlap = abs(x1 - x0) < BOX and abs(y1 - y0) < BOX
        closer = math.hypot(x1 - x0, y1 - y0) < self.mechs[0].distance(self.mechs[1])
        both_alive = all(mech.hp > 0.0 for mech in self.mechs)
        if not (both_alive and overlap and closer):
            for mech, (x, y) in zip(self.mechs, proposals, strict=True):
                mech.x, mech.y = x, y

    def _fly(self, shooter: Mech, enemy: Mech) -> tuple[float, np.float32]:
        damage, flying = 0.0, []
        for shell in shooter.shells:
            step = min(GUN_SPEED * TICK_S, shell.reach)
            apart = (enemy.x - shell.x, enemy.y - shell.y)
            along = min(max(apart[0] * shell.direction[0] + apart[1] * shell.direction[1], 0.0), step)
            miss = math.hypot(apart[0] - along * shell.direction[0], apart[1] - along * shell.direction[1])
            if enemy.hp > 0.0 and miss <= HIT_RADIUS:
                damage += GUN_DAMAGE * rear_factor(shell.direction, enemy)
                continue
            shell.x += step * shell.direction[0]
            shell.y += step * shell.direction[1]
            shell.reach -= step
            if shell.reach > 0.0:
                flying.append(shell)
        shooter.shells = flying
        return damage, COLD

    def _in_laser_arc(self, mech: Mech, enemy: Mech) -> bool:
        return enemy.hp > 0.0 and mech.distance(enemy) <= LASER_RANGE and mech.bearing(enemy) <= math.radians(60.0)

    def _laser_damage(self, mech: Mech, enemy: Mech) -> float:
        distance = mech.distance(enemy)
        return LASER_DAMAGE * rear_factor(((enemy.x - mech.x) / distance, (enemy.y - mech.y) / distance), enemy)

    def _fire_gun(self, mech: Mech, enemy: Mech) -> None:
        direction, distance = mech.facing, mech.distance(enemy)
        if enemy.hp > 0.0 and distance <= GUN_RANGE and mech.bearing(enemy) <= GUN_CONE:
            direction = ((enemy.x - mech.x) / distance, (enemy.y - mech.y) / distance)
        mech.shells.append(Shell(mech.x, mech.y, direction))
        mech.heat += GUN_HEAT
        mech.gun_wait = GUN_WAIT

    def _score(self) -> None:
        inside = [mech.hp > 0.0 and math.hypot(mech.x, mech.y) <= self.zone_radius for mech in self.mechs]
        for mech, here, there in zip(self.mechs, inside, inside[::-1], strict=True):
            mech.zone_s += 0.25 * (0.25 if here and there else float(here))
        self.decision += 1
        home, away = self.mechs
        if home.hp <= 0.0 or away.hp <= 0.0:
            score = 0.5 if home.hp <= 0.0 and away.hp <= 0.0 else float(home.hp > 0.0)
            self.result = (score, "elimination", False)
        elif max(home.zone_s, away.zone_s) >= ZONE_GOAL_S:
            self.result = (leader(home, away), "zone", False)
        elif self.decision == LIMIT:
            self.result = (leader(home, away), "time", True)


def rear_factor(direction: tuple[float, float], target: Mech) -> float:
    return 1.5 if direction[0] * target.facing[0] + direction[1] * target.facing[1] > 0.707 else 1.0


def leader(home: Mech, away: Mech) -> float:
    for ours, theirs in ((home.zone_s, away.zone_s), (home.hp, away.hp)):
        if abs(ours - theirs) > 1e-3:
            return float(ours > theirs)
    return 0.5
