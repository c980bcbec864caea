"""Head-to-head page: one player against another, with predictions, matches and behaviour."""

from dataclasses import dataclass

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, JSONResponse

from league import wire
from league.api.dependencies import Id, Running
from league.player_names import display_name
from league.services.leaderboard import head_to_head, standings
from league.services.matches import queries as match_queries
from league.services.matches.queries import MatchFilter
from league.services.promotion import behaviour_profiles
from league.services.ratings import rated_players
from league.web.cookies import Visitor
from league.web.layout import PageRoute, Visiting

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MATCHES, REPLAYS = 12, 6

_PAIR = "/players/{player_id}/against/{opponent_id}"


@dataclass(frozen=True)
class BehaviourDifference:
    """A measure of two players, and their difference in standard deviations of the population; None if unknown."""

    name: str
    one: wire.MeasuredBehaviour
    other: wire.MeasuredBehaviour

    @property
    def deviations(self) -> float | None:
        """The first player's mean less the other's; None if the measure does not tell players apart."""
        means = self.one.mean, self.other.mean
        if means[0] is None or means[1] is None or not self.one.spread:
            return None
        return (means[0] - means[1]) / self.one.spread


@router.get(_PAIR)
def show(player_id: Id, opponent_id: Id, league: Running, visit: Visiting) -> HTMLResponse:
    """Show a player against an opponent."""
    pair = player_id, opponent_id
    with league.database.read() as session:
        found = head_to_head.compare(session, league.population, *pair)
        environment = league.population.of_player(session, player_id).environment
        table = standings.get_standings(session, league.settings, league.population, environment)
        one, other = (table.find(each) for each in pair)
        wanted = MatchFilter(None, players=pair)
        matches = match_queries.list_matches(session, league.settings, wanted, MATCHES).items
        recorded = MatchFilter(None, players=pair, recorded=True)
        replays = match_queries.list_matches(session, league.settings, recorded, REPLAYS).items
    return visit.of(environment).page(
        "head_to_head.html",
        "standings",
        f"{display_name(one)} v {display_name(other)}",
        found=found,
        one=one,
        other=other,
        sides=table.sides or ("", ""),
        matches=matches,
        replays=replays,
    )


@router.get(f"{_PAIR}/curve")
def curve(player_id: Id, opponent_id: Id, league: Running, _: Visitor) -> JSONResponse:
    """Return the player's score over time as columns of a chart."""
    with league.database.read() as session:
        points = head_to_head.compare(session, league.population, player_id, opponent_id).results.over_time()
    columns = {
        "at": [at.timestamp() for at, _ in points],
        "score": [score.score for _, score in points],
        "low": [score.low for _, score in points],
        "high": [score.high for _, score in points],
        "matches": [score.matches for _, score in points],
    }
    return JSONResponse(columns, headers={"Cache-Control": "no-store"})


@router.get(f"{_PAIR}/behaviour")
def behaviour(player_id: Id, opponent_id: Id, league: Running, visit: Visiting) -> HTMLResponse:
    """Compare the behaviour of two players, which is known for players of one signature."""
    with league.database.read() as session:
        one, other = (rated_players.show(session, league.settings, each) for each in (player_id, opponent_id))
        found = distance = None
        if one.signature == other.signature:
            found = behaviour_profiles.beside(session, league.population, player_id, opponent_id)
            turned = behaviour_profiles.beside(session, league.population, opponent_id, player_id)
            distance = next(iter(found.nearest), None)
    theirs = {} if found is None else {each.name: each for each in turned.measures}
    rows = [
        BehaviourDifference(each.name, each, theirs[each.name])
        for each in (found.measures if found else ())
        if each.name in theirs and not (each.mean is None and theirs[each.name].mean is None)
    ]
    return visit.of(one.environment).part(
        "_behaviour_difference.html", one=one, other=other, rows=rows, distance=distance
    )
