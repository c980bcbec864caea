"""Endpoints of gates: sequential tests of two frozen players."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from league import wire
from league.api.dependencies import Admin, Before, Filter, Id, Limit, Now, PlayerFilter, Reader, Running
from league.api.responses import created
from league.api.routes import ApiRoute
from league.pagination import Page
from league.services.gates import predictions
from league.services.gates import service as gates
from league.services.gates.service import GateFilter
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/gates", tags=["gates"])


@router.post("", status_code=201, response_model=wire.Gate)
def create_gate(body: wire.GateCreate, league: Running, now: Now, caller: Admin) -> Response:
    """Return the gate for this test of these two players, or open it; evaluators play it first."""
    with league.database.write() as session:
        gate = gates.open_gate(session, league.settings, body, caller.name, now)
    with league.database.read() as session:
        (gate,) = predictions.add_predictions(session, league.population, [gate])
    return created(gate, f"/gates/{gate.id}", is_new=gate.opened_at == now)


@router.get("", response_model=wire.Page[wire.Gate])
def list_gates(
    league: Running,
    now: Now,
    _: Reader,
    environment: Filter = None,
    state: Annotated[wire.GateState | None, Query(description="Only gates in this state")] = None,
    player: PlayerFilter = None,
    limit: Limit = 100,
    cursor: Before = None,
) -> Page[wire.Gate]:
    """List gates, newest first; `player` is either of the two."""
    wanted = GateFilter(environment, state, player)
    with league.database.read() as session:
        page = gates.list_gates(session, league.settings, wanted, limit, cursor, now)
        return Page(predictions.add_predictions(session, league.population, page.items), page.next_cursor)


@router.get("/{gate_id}")
def get_gate(gate_id: Id, league: Running, now: Now, _: Reader) -> wire.Gate:
    """Return a gate and its progress."""
    with league.database.read() as session:
        gate = gates.show(session, league.settings, gate_id, now)
        return predictions.add_predictions(session, league.population, [gate])[0]


@router.post("/{gate_id}/cancel")
def cancel_gate(gate_id: Id, body: wire.GateCancel, league: Running, now: Now, caller: Admin) -> wire.Gate:
    """Cancel an open gate without a verdict."""
    with league.database.write() as session:
        return gates.cancel(session, league.settings, gate_id, actor=caller.name, reason=body.reason, now=now)
