"""Gates: sequential tests of two frozen players on attached evaluators."""

from typing import Annotated

from fastapi import APIRouter, Query

from league import wire
from league.api.dependencies import ID_LIMIT, Admin, Before, Filter, Id, Limit, Now, Reader, Running
from league.api.responses import page
from league.api.routes import ApiRoute
from league.services.gates import service as gates
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/gates", tags=["gates"])


@router.post("")
def enter(body: wire.GateCreate, league: Running, now: Now, caller: Admin) -> wire.Gate:
    """Find the gate of this test of these two, or open it; evaluators play it before anything else."""
    with league.database.write() as session:
        return gates.enter(session, league.settings, league.judge, body, caller.name, now)


@router.get("")
def listing(
    league: Running,
    now: Now,
    _: Reader,
    environment: Filter = None,
    state: wire.GateState | None = None,
    player: Annotated[int | None, Query(ge=1, lt=ID_LIMIT, description="either of the two")] = None,
    limit: Limit = 100,
    cursor: Before = None,
) -> wire.Page[wire.Gate]:
    """List gates, newest first."""
    given = {"environment": environment, "state": state}
    filters = {name: value for name, value in given.items() if value is not None}
    with league.database.read() as session:
        found = gates.listing(session, league.settings, league.judge, filters, player, limit + 1, cursor, now)
    return page(found, limit, lambda gate: gate.id)


@router.get("/{gate_id}")
def show(gate_id: Id, league: Running, now: Now, _: Reader) -> wire.Gate:
    """Show a gate and where it stands."""
    with league.database.read() as session:
        return gates.show(session, league.settings, league.judge, gate_id, now)


@router.post("/{gate_id}/cancel")
def cancel(gate_id: Id, body: wire.GateCancel, league: Running, now: Now, caller: Admin) -> wire.Gate:
    """Give an open gate up without a verdict."""
    with league.database.write() as session:
        return gates.cancel(
            session, league.settings, league.judge, gate_id, actor=caller.name, reason=body.reason, now=now
        )
