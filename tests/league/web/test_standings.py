"""The standings: what it says, how it filters and sorts, and what it is told anew."""

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene, result

from league import wire
from league.client import LeagueClient
from league.web import standings
from league.web.filters import points

PIECE = {"HX-Request": "true"}
NONE = "\N{EN DASH}"


@pytest.fixture
def backend() -> str:
    return "sqlite"


def unbroken(page: str) -> str:
    """A page without the places where a long name may break."""
    return page.replace("<wbr>", "")


def names(page: str) -> list[str]:
    """Who is in the table, in order."""
    return re.findall(r'<th scope="row"><span class="named"><a href="/players/\d+">([^<]+)</a>', unbroken(page))


def ids(page: str) -> list[int]:
    return [int(each) for each in re.findall(r'data-id="(\d+)"', page)]


@pytest.fixture
def snapshots(scene: Scene) -> list[wire.Player]:
    return [scene.publish(step) for step in (1, 2, 3)]


def test_the_table_is_that_of_the_league(http: TestClient, league: LeagueClient, snapshots: list[wire.Player]) -> None:
    assert ids(http.get("/standings").text) == [item.id for item in league.standings("rps").items]


def test_a_reader_may_filter_search_and_sort(
    http: TestClient, league: LeagueClient, snapshots: list[wire.Player]
) -> None:
    league.retire(snapshots[0].id)

    def found(**asked: str) -> list[str]:
        return names(http.get("/standings", params=asked).text)

    assert "main@1" not in found()
    assert found(show="retired") == ["main@1"]
    assert found(kind="baseline") == ["random"]
    assert found(q="MAIN@", sort="name", order="descending") == ["main@3", "main@2"]
    assert found(q="", kind="", role="", lineage="") == found()
    assert "Remove a filter" in http.get("/standings", params={"q": "nobody"}).text


@pytest.mark.parametrize(
    "asked", [{"sort": "strength"}, {"kind": "king"}, {"lineage": "0"}, {"order": "up"}, {"q": "x" * 201}, {"q": "\0"}]
)
def test_invalid_standings_query_is_rejected(http: TestClient, scene: Scene, asked: dict[str, str]) -> None:
    answer = http.get("/standings", params=asked)
    assert answer.status_code == 422
    assert next(iter(asked)) in answer.text


def test_headings_lead_to_the_table_sorted_so_and_then_the_other_way_round(http: TestClient, scene: Scene) -> None:
    page = http.get("/standings", params={"q": "main", "sort": "games"}).text
    leads = dict(re.findall(r'id="sort-(\w+)" href="([^"]+)"', page))
    assert leads["games"] == "/standings?q=main&amp;sort=games&amp;order=ascending"
    assert leads["name"] == "/standings?q=main&amp;sort=name"
    assert 'aria-sort="descending"' in page
    back = http.get("/standings", params={"sort": "games", "order": "ascending"}).text
    assert dict(re.findall(r'id="sort-(\w+)" href="([^"]+)"', back))["games"].endswith("order=descending")


def cells(line: str) -> list[str]:
    """What a line of the table says, cell by cell."""
    found = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line, re.DOTALL)
    return [re.sub(r"\s+", " ", re.sub("<[^>]+>", "", each)).strip() for each in found]


def test_side_ratings_are_sortable_columns_for_asymmetric_games(
    http: TestClient, league: LeagueClient, scene: Scene, snapshots: list[wire.Player]
) -> None:
    assert not {"home", "away"} & set(re.findall(r'id="sort-(\w+)"', http.get("/standings").text))
    kept = wire.LearnerCreate(name="main", role="main", environment="rps", signature=scene.signature)
    league.register_learner(kept.model_copy(update={"sides": ("wolf", "sheep")}))
    scene.report(*(result(lease, score=1.0) for lease in scene.rating_leases(16)), worker=scene.evaluator)
    league.close_period()
    page = http.get("/standings", params={"sort": "away"}).text
    assert re.findall(r">((?:Home|Away), \w+)</a>", page) == ["Home, wolf", "Away, sheep"]
    lines = re.findall(r'<tr id="player-\d+".*?</tr>', page, re.DOTALL)
    rated = {one.id: {each.side: each for each in one.sides} for one in league.players("rps").items}
    for line, player_id in zip(lines, ids(page), strict=True):
        for cell, side in zip(cells(line)[6:8], ("home", "away"), strict=True):
            each = rated[player_id].get(side)
            assert cell == (NONE if each is None else f"{points(each.rating)} ± {points(2 * each.deviation)}")
    away = [rated[each]["away"].rating for each in ids(page) if "away" in rated[each]]
    assert len(away) >= 3
    assert away == sorted(away, reverse=True)
    assert scene.learner.player_id == ids(page)[-1], "it has played on neither side yet"
    wanted = ",".join(map(str, ids(page)))
    assert re.findall(r'<tr id="player-\d+".*?</tr>', http.get(f"/standings/now?ids={wanted}").text, re.DOTALL)


def test_long_table_is_paginated(
    http: TestClient, snapshots: list[wire.Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standings, "PAGE", 2)
    page = http.get("/standings", params={"sort": "name"}).text
    seen = ids(page)
    while (more := re.search(r'class="more" hx-get="([^"]+)"', page)) is not None:
        page = http.get(more[1].replace("&amp;", "&"), headers=PIECE).text
        seen += ids(page)
    monkeypatch.undo()
    assert seen == ids(http.get("/standings", params={"sort": "name"}).text)
    assert len(seen) == 5


def test_page_has_a_row_limit_and_links_to_its_neighbours(
    http: TestClient, snapshots: list[wire.Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = ids(http.get("/standings", params={"sort": "name"}).text)
    assert len(everybody) == 5
    monkeypatch.setattr(standings, "PAGE", 2)
    monkeypatch.setattr(standings, "SHEET", 4)
    page = http.get("/standings", params={"sort": "name"}).text
    assert "previous" not in page
    assert 'href="/standings?sort=name&amp;offset=2">3 more</a>' in page  # for who has no scripts
    piece = http.get("/standings/rows", params={"sort": "name", "offset": 2}, headers=PIECE).text
    assert ids(piece) == everybody[2:4]
    assert "hx-get" not in piece[piece.index('class="more"') :]
    assert 'href="/standings?sort=name&amp;offset=4">1 more</a>' in piece
    last = http.get("/standings", params={"sort": "name", "offset": 4}).text
    assert ids(last) == everybody[4:]
    assert "from row\n      5 on" in last
    assert 'href="/standings?sort=name">previous</a>' in last
    assert 'data-page="/standings?sort=name&amp;offset=4"' in last
    assert 'class="more"' not in last


def test_offset_beyond_the_end_returns_the_first_page(http: TestClient, scene: Scene) -> None:
    page = http.get("/standings", params={"offset": 100}).text
    assert ids(page) == ids(http.get("/standings").text) != []
    assert "previous" not in page
    assert http.get("/standings", params={"offset": -1}).status_code == 422


def test_a_script_gets_the_table_alone(http: TestClient, snapshots: list[wire.Player]) -> None:
    piece = http.get("/standings", headers=PIECE).text
    assert piece.lstrip().startswith('<section id="standings"')
    assert "<html" not in piece


def test_rows_of_an_open_page_are_updated(
    http: TestClient, league: LeagueClient, scene: Scene, snapshots: list[wire.Player]
) -> None:
    page = http.get("/standings").text
    shown = ids(page)
    scene.evaluate(20, winner=snapshots[2].id)
    league.close_period()
    answer = http.get("/standings/now", params={"ids": ",".join(map(str, shown))}, headers=PIECE).text
    assert ids(answer) == [item.id for item in league.standings("rps").items]
    assert f'data-total="{len(shown)}"' in answer
    assert "· 0 games" not in http.get("/standings/highlights").text
    assert http.get("/standings/now", params={"ids": "1,two"}).status_code == 422


def test_champion_strongest_and_newest_player_are_highlighted(
    http: TestClient, league: LeagueClient, snapshots: list[wire.Player]
) -> None:
    assert http.get("/standings").text.count("none yet") == 1
    league.set_champion(snapshots[1].id, "first", expected=None)
    sign = league.player(snapshots[1].id).call_sign
    page = http.get("/standings").text
    above = unbroken(page[: page.index("<form class")])
    assert sign is not None
    assert sign in above
    assert "main@3" in above[above.index("Newest") :]
    assert page.count("★ champion") == 1


def test_only_provisional_ratings_are_marked(http: TestClient, snapshots: list[wire.Player]) -> None:
    page = http.get("/standings", params={"sort": "age"}).text
    rows = {int(row[0]): row[1] for row in re.findall(r'data-id="(\d+)"(.*?)</tr>', page, re.DOTALL)}
    assert {own for own, row in rows.items() if "Provisional:" in row} == {player.id for player in snapshots}
    assert len(rows) > len(snapshots)
    assert "Provisional:" in http.get(f"/players/{snapshots[0].id}").text


def test_bands_stay_within_their_picture(http: TestClient, snapshots: list[wire.Player]) -> None:
    for left, width in re.findall(r'class="span" x="([\d.-]+)" y="2" width="([\d.-]+)"', http.get("/standings").text):
        assert 0.0 <= float(left) <= float(left) + float(width) <= 100.1


def test_times_are_machine_readable_and_utc(http: TestClient, scene: Scene, time: Any) -> None:
    page = http.get("/standings").text
    assert f'datetime="{time.now:%Y-%m-%dT%H:%M:%SZ}"' in page
    assert f'title="{time.now:%Y-%m-%d %H:%M} UTC"' in page
