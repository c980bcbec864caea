"""The pages of matches: which are listed, what is said of each, who may load a recording."""

import re
from collections.abc import Callable
from importlib.resources import files

import pytest
import sqlalchemy
from fastapi.testclient import TestClient
from league_scene import Scene, result
from recorded_match import play_recorded
from recordings import make_recording, make_steps

from arena.replay.mech.battlefield import MATERIALS
from arena.replay.mech.frames import Flag
from arena.replay.render import palette
from arena.replay.render.image import shapes as hulls
from league.client import LeagueClient
from league.db.engine import Database
from league.services.matches import queries as match_queries
from league.services.matches.queries import MatchFilter
from league.settings import Settings
from league.web.cookies import COOKIE

PAGE = {"Accept": "text/html"}
SCRIPTS = files("league.web").joinpath("static", "replay")


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def played(scene: Scene) -> Scene:
    """Two snapshots, some training matches, some rating matches, a period, and a match of each kind after it."""
    for step in (1, 2):
        scene.publish(step)
    scene.train(3)
    scene.evaluate(4, scene.baseline().id)
    scene.client.close_period()
    scene.train(1)
    scene.evaluate(2, scene.baseline().id)
    return scene


def ids(text: str) -> list[int]:
    return [int(each) for each in re.findall(r'<th scope="row"><a href="/matches/(\d+)"', text)]


def listed(http: TestClient, query: str = "") -> list[int]:
    answer = http.get(f"/matches{query}", headers=PAGE)
    assert answer.status_code == 200, answer.text
    return ids(answer.text)


def every_match(scene: Scene) -> list[int]:
    players = scene.client.players(scene.environment).items
    return sorted({match.id for player in players for match in scene.client.matches(player.id).items}, reverse=True)


def test_matches_are_listed_newest_first(played: Scene, http: TestClient) -> None:
    assert listed(http) == every_match(played)


def test_matches_are_filtered_by_kind_player_pair_and_replay(played: Scene, http: TestClient) -> None:
    client, baseline = played.client, played.baseline().id
    own = {match.id for match in client.matches(baseline).items}
    rival = next(match for match in client.matches(baseline).items if match.kind == "rating")
    pair = {rival.home.player_id, rival.away.player_id}
    kinds = {each: client.match(each).kind for each in every_match(played)}
    recorded = play_recorded(played, make_steps())
    assert set(listed(http, "?kind=training")) == {each for each, kind in kinds.items() if kind == "training"}
    assert set(listed(http, f"?player={baseline}")) - {recorded.id} == own
    expected = {each for each in own if {client.match(each).home.player_id, client.match(each).away.player_id} == pair}
    one, other = sorted(pair)
    for query in (f"?pair={one},{other}", f"?pair={other},{one}", f"?player={one}&opponent={other}"):
        assert set(listed(http, query)) - {recorded.id} == expected
    assert listed(http, "?recorded=true") == [recorded.id]
    assert listed(http, "?recorded=true&kind=training") == []


def test_a_script_gets_the_part_below_the_filters(played: Scene, http: TestClient) -> None:
    part = http.get("/matches", headers={"HX-Request": "true"}).text
    assert part.lstrip().startswith('<section id="matches"')
    assert ids(part) == every_match(played)


def test_older_matches_are_a_page_away(played: Scene, http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("league.web.matches.PAGE", 4)
    seen, address = [], "/matches"
    while address:
        text = http.get(address, headers=PAGE).text
        seen += ids(text)
        older = re.search(r'rel="next" href="([^"]+)"', text)
        address = older[1].replace("&amp;", "&") if older else ""
    assert seen == every_match(played)


def test_a_rare_kind_is_looked_for_among_so_many_matches_at_once(
    played: Scene, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest, *_ = every_match(played)
    monkeypatch.setattr(match_queries, "SEARCHED", 3)
    wanted, found, before, pages = MatchFilter(played.environment, "training", (), recorded=False), [], None, 0
    with database.read() as session:
        while pages == 0 or before is not None:
            page = match_queries.list_matches(session, Settings(), wanted, 50, None if before is None else int(before))
            found += [match.id for match in page.items]
            before, pages = page.next_cursor, pages + 1
    assert found == [each for each in every_match(played) if played.client.match(each).kind == "training"]
    assert pages == -(-newest // 3)


def plan(database: Database, wanted: MatchFilter) -> list[str]:
    """Return how SQLite goes about listing matches."""
    with database.read() as session:
        chosen = match_queries.last_ids(wanted, 0, 100, 50)
        query = chosen.compile(session.get_bind(), compile_kwargs={"literal_binds": True})
        return [row.detail for row in session.execute(sqlalchemy.text(f"EXPLAIN QUERY PLAN {query}"))]


@pytest.mark.parametrize("players", [(), (1,), (1, 2)])
def test_few_recordings_are_not_looked_for_among_all_matches(database: Database, players: tuple[int, ...]) -> None:
    scanned, *rest = plan(database, MatchFilter("rps", "training", players, recorded=True))
    assert "replays" in scanned
    assert [step for step in rest if "matches" in step] == ["SEARCH matches USING INTEGER PRIMARY KEY (rowid=?)"]


@pytest.mark.parametrize(
    ("players", "ways"), [((1,), ["home_id=?", "away_id=?"]), ((1, 2), ["home_id=?", "home_id=?"])]
)
def test_matches_of_a_player_use_an_index(database: Database, players: tuple[int, ...], ways: list[str]) -> None:
    searches = [step for step in plan(database, MatchFilter("rps", None, players, recorded=False)) if "matches" in step]
    assert [search.partition("(")[2] for search in searches] == [f"{way} AND id>? AND id<?)" for way in ways]


def test_ratings_are_those_before_the_match(played: Scene, database: Database) -> None:
    with database.read() as session:
        wanted = MatchFilter(played.environment, None, (), recorded=False)
        matches = match_queries.list_matches(session, Settings(), wanted, 100).items
    (period,) = played.client.periods().items
    checked = 0
    for match in matches:
        own = played.client.match(match.id)
        for seat in (match.home, match.away):
            player = played.client.player(seat.player_id)
            points = played.client.ratings(seat.player_id).items
            if own.period_id is None and points:
                assert (seat.rating, seat.deviation) == (points[-1].rating, points[-1].deviation)
                checked += 1
            elif own.period_id == period.id and player.kind != "baseline":
                assert (seat.rating, seat.deviation) == (1500.0, 350.0), "which everybody begins with"
    assert checked > 0


def test_a_match_is_shown_with_its_facts(played: Scene, http: TestClient) -> None:
    newest, *_ = every_match(played)
    match = played.client.match(newest)
    text = http.get(f"/matches/{newest}", headers=PAGE).text
    for fact in (match.home.name, match.away.name, str(match.seed), match.worker_id, match.reason):
        assert fact in text
    assert "There is no replay" in text
    assert "view.js" not in text


def test_a_recorded_match_is_played_by_the_page(played: Scene, http: TestClient) -> None:
    match = play_recorded(played, make_recording())
    text = http.get(f"/matches/{match.id}", headers=PAGE).text
    address = re.search(r'data-recording="([^"]+)"', text)
    assert address is not None
    answer = http.get(address[1])
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.json()["header"]["players"] == [match.home.name, match.away.name]
    again = http.get(address[1], headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    ("address", "status", "value"),
    [
        ("/matches/12345", 404, "12345"),
        ("/matches?player=12345", 404, "12345"),
        ("/matches?pair=1,x", 422, "query.pair"),
        ("/matches?kind=friendly", 422, "friendly"),
        ("/matches/1/recording", 404, "recordings"),
    ],
)
def test_missing_match_player_or_recording_has_an_error_page(
    played: Scene, http: TestClient, address: str, status: int, value: str
) -> None:
    answer = http.get(address, headers=PAGE)
    assert answer.status_code == status
    assert value in answer.text


def test_match_list_without_matches_has_an_empty_state(scene: Scene, http: TestClient) -> None:
    text = http.get("/matches", headers=PAGE).text
    assert f"trainer evaluate --environment {scene.environment}" in text
    assert "No match fits these filters" in http.get("/matches?kind=gate", headers=PAGE).text


def test_replay_list_without_replays_explains_recording(played: Scene, http: TestClient) -> None:
    told = f"trainer evaluate --environment {played.environment} --record-every 60"
    assert told in http.get("/matches?recorded=true", headers=PAGE).text
    play_recorded(played, make_steps())
    text = http.get("/matches?recorded=true&kind=gate", headers=PAGE).text
    assert told not in text
    assert "No match fits these filters" in text


def test_partial_match_list_is_marked_for_scripts(played: Scene, http: TestClient) -> None:
    assert "data-filtered" not in http.get("/matches", headers=PAGE).text
    assert "data-filtered" in http.get("/matches?kind=rating", headers=PAGE).text


def test_replays_of_a_closed_league_require_a_session(
    played: Scene, http: TestClient, connect: Callable[..., LeagueClient]
) -> None:
    match = play_recorded(played, make_steps())
    reader = connect("read")
    address = f"/matches/{match.id}/recording"
    assert http.get(address, headers=PAGE, follow_redirects=False).status_code == 303
    secret = reader._headers["Authorization"].removeprefix("Bearer ")
    http.cookies.set(COOKIE, secret)
    assert http.get(address).json()["kind"] == "steps"
    assert http.get(f"/api/v1{address.replace('recording', 'replay')}").status_code == 401


def test_late_and_uncounted_matches_are_labelled(scene: Scene, http: TestClient, time: object) -> None:
    scene.publish(1)
    (lease,) = scene.opponent_leases(1)
    time.advance(1000.0)  # type: ignore[attr-defined]
    scene.report(result(lease))
    scene.client.quarantine_worker(scene.trainer.id, time.now.replace(year=2029), "odd")  # type: ignore[attr-defined]
    text = http.get("/matches", headers=PAGE).text
    assert ">late<" in text
    assert "does not count" in text


# --- scripts and pictures agree ----------------------------------------------------------------------------------


def script(name: str) -> str:
    return SCRIPTS.joinpath(name).read_text()


def test_replays_have_the_colours_of_films() -> None:
    told = dict(re.findall(r"(\w+)(?: =|:) \"(#[0-9a-f]{6})\"", script("palette.js")))
    assert len(told) > 20
    known = {**vars(palette), **palette.WEAPONS, **palette.MATERIALS}
    for name, colour in told.items():
        assert colour == "#{:02x}{:02x}{:02x}".format(*known[name]), name
    teams = re.search(r'TEAMS = \["(.+)", "(.+)"\]', script("palette.js"))
    assert teams is not None
    assert list(teams.groups()) == ["#{:02x}{:02x}{:02x}".format(*each) for each in palette.TEAMS]


def test_replays_have_the_shapes_of_films() -> None:
    numbers = [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", script("hulls.js").partition("OUTLINES")[2])]
    for shape in hulls.SHAPES.values():
        for x, y in (shape.hull[0], shape.cockpit):
            assert {x, y} <= {*numbers}
    assert [*re.findall(r"^  (\w+): \{$", script("hulls.js"), flags=re.MULTILINE)] == list(hulls.SHAPES)


def test_replays_read_flags_and_materials_as_they_are_recorded() -> None:
    flags = [int(each) for each in re.findall(r"^  \w+: (\d+),$", script("decode.js"), flags=re.MULTILINE)]
    assert flags == [int(flag) for flag in Flag]
    materials = re.search(r"MATERIAL_NAMES = \[(.+)\]", script("decode.js"))
    assert materials is not None
    assert tuple(re.findall(r"\"(\w+)\"", materials[1])) == MATERIALS


def test_script_imports_resolve() -> None:
    modules = {each.name: each.read_text() for each in SCRIPTS.iterdir() if each.name.endswith(".js")}
    assert "view.js" in modules
    for name, text in modules.items():
        for imported, source in re.findall(r'import \{([^}]+)\} from "\./(\w+\.js)"', text):
            for each in imported.split(","):
                assert re.search(rf"export .*\b{each.strip()}\b", modules[source]), f"{name}: {each} of {source}"
