"""What the hits of a tick do."""

from mech_oracle import chance
from mech_oracle.firing import Hit
from mech_oracle.space import distance, unit, way
from mech_oracle.state import NOBODY, Mech, State, single

from arena.environments.mech.config.constants import FALLEN_TICKS, PAINT_TICKS, SUPPRESSED_TICKS


def resolve(state: State, hits: list[Hit]) -> None:
    """Hurt, heat, shake and paint everybody who was alive when the tick began."""
    for hit in hits:
        if hit.target.hull.side != hit.shooter.hull.side:
            state.books.raw_damage[hit.shooter.hull.index, hit.weapon] += hit.damage
    for target in [mech for mech in state.mechs if mech.alive]:
        mine = [hit for hit in hits if hit.target is target]
        if mine or target.burn:
            _hurt(state, target, mine)
            _shake(state, target, sum(hit.shake for hit in mine))
            _paint(state, target, [hit.shooter for hit in mine if hit.paints])
        if not target.alive:
            target.velocity = (0.0, 0.0, 0.0)


def _hurt(state: State, target: Mech, hits: list[Hit]) -> None:
    books, j = state.books, target.hull.index
    total = sum(hit.damage for hit in hits) + target.burn
    taken = min(total, target.hp)
    destroyed = total > 0.0 and state.edges.at_most(target.hp, total, "destroyed")
    for hit in hits:
        share = hit.damage / total if total > 0.0 else 0.0
        books.dealt[hit.shooter.hull.index, j] += share * taken
        books.killed[hit.shooter.hull.index, j] += share * destroyed
        toward = unit(way(target.position, hit.shooter.position)[:2])
        books.hurt_from[j] += [part * hit.damage for part in toward]
    if total > 0.0:
        books.terrain_damage[j] += target.burn / total * taken
    books.hurt[j] += taken
    if destroyed:
        _destroy(state, target)
    else:
        target.hp -= taken
    target.leg_hp = max(target.leg_hp - sum(hit.leg_damage for hit in hits), 0.0)
    target.heat = single(target.heat + sum(hit.heat for hit in hits))
    if any(hit.pins for hit in hits):
        target.suppressed_ticks = SUPPRESSED_TICKS


def _destroy(state: State, target: Mech) -> None:
    books, j = state.books, target.hull.index
    target.hp = 0.0
    target.wreck = (
        chance.uniform(state.seed, chance.WRECK, state.tick, target.hull.stream) < target.hull.type.wreck_chance
    )
    painter = target.painted_by
    if painter != NOBODY:
        pack = state.mechs[painter].hull.pack
        mates = [m.hull.index for m in state.mechs if m.hull.pack == pack and m.hull.index != painter]
        books.assists[painter, j] += books.killed[mates, j].sum()


def _shake(state: State, target: Mech, shake: float) -> None:
    if target.fallen or shake == 0.0:
        return
    target.stability -= shake
    if state.edges.at_most(target.stability, 0.0, "fall"):
        target.stability, target.fallen_ticks, target.velocity = 0.0, FALLEN_TICKS, (0.0, 0.0, 0.0)


def _paint(state: State, target: Mech, painters: list[Mech]) -> None:
    if not painters:
        return
    far = [(distance(painter.centre, target.centre), painter.hull.index) for painter in painters]
    nearest = state.edges.first(far, "nearest painter")
    if target.painted_by == NOBODY:
        state.books.paints[nearest] += 1
        state.books.paints[target.hull.index] -= 1
    target.painted_by, target.painted_ticks = nearest, PAINT_TICKS
