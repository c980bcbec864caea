"""Report of a results file: ratings, payoffs, cyclic components and Nash weights from one file."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused
from scipy.special import expit

from arena.evaluation import components_svg, results_file
from arena.evaluation.components_svg import draw_components
from arena.evaluation.report import Report, evaluate
from arena.evaluation.results_file import PairResults
from arena.ratings.bradley_terry import NO_PARENT
from arena.ratings.glicko2 import Results

SVG = "{http://www.w3.org/2000/svg}"


def pair_results(games: Results, players: int, anchors: tuple[int, ...] = ()) -> PairResults:
    return PairResults(
        environment="rps",
        names=tuple(f"<{index}>" for index in range(players)),
        start=np.full(players, 1500.0),
        anchor=np.isin(np.arange(players), anchors),
        parent=np.full(players, NO_PARENT),
        games=games,
        source={"seed": 7},
    )


def disc_game(players: int, matches: int, spread: float) -> PairResults:
    """Players around a circle: each beats those up to half a turn ahead."""
    angle = 2.0 * np.pi * np.arange(players) / players
    u, v = spread * np.cos(angle), spread * np.sin(angle)
    first, second = np.triu_indices(players, 1)
    score = np.rint(expit(u[first] * v[second] - v[first] * u[second]) * matches) / matches
    return pair_results(Results(first, second, score, np.full(first.size, matches)), players)


@pytest.fixture(scope="module")
def cyclic() -> Report:
    return evaluate(disc_game(9, 400, 2.0), components=1)


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 1000)), min_size=3, max_size=3), st.integers(-1, 0))
def test_file_restores_the_results_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]], parent: int
) -> None:
    games = np.array([count for count, _ in rows])
    points = np.array([min(half, 2 * count) / 2.0 for count, half in rows])
    first, second = np.triu_indices(3, 1)
    given_results = pair_results(Results(first, second, points / games, games), 3, anchors=(0,))
    given_results = replace(given_results, parent=np.array([NO_PARENT, NO_PARENT, parent]))
    path = tmp_path_factory.mktemp("results") / "results.json"
    results_file.write(path, given_results)
    once = path.read_bytes()
    found = results_file.read(path)
    results_file.write(path, found)
    assert path.read_bytes() == once
    for name in ("start", "anchor", "parent"):
        assert getattr(found, name).tolist() == getattr(given_results, name).tolist()
    assert found.games.score.tolist() == given_results.games.score.tolist()
    assert (found.names, found.source, found.config) == (given_results.names, {"seed": 7}, given_results.config)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"format": 2}, 2),
        ({"players": []}, "results.json"),
        ({"settings": {"tau": 1.0}}, "tau"),
        ({"pairs": [{"first": 0, "second": 1, "games": 0, "points": 0.0}]}, "games"),
        ({"pairs": [{"first": 0, "second": 1, "games": 1}]}, "points"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, change: dict[str, object], named: object) -> None:
    path = tmp_path / "results.json"
    results_file.write(path, disc_game(3, 10, 1.0))
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with refused("invalid-results-file", named):
        results_file.read(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("[]")
    with refused("invalid-results-file", "results.json"):
        results_file.read(tmp_path / "results.json")


def test_cyclic_game_has_even_ratings_a_component_and_even_nash_weights(cyclic: Report) -> None:
    assert cyclic.rating == pytest.approx(np.full(9, cyclic.rating.mean()), abs=30.0)
    assert len(cyclic.components) == 1
    assert cyclic.nash.sum() == pytest.approx(1.0)
    assert cyclic.nash == pytest.approx(np.full(9, 1 / 9), abs=0.05)
    assert cyclic.cycle is not None
    assert min(cyclic.cycle.win_rates) > 0.9
    met = ~np.isnan(cyclic.score)
    assert cyclic.predicted[met] == pytest.approx(cyclic.score[met], abs=0.05)


def test_held_out_pairs_choose_the_number_of_components() -> None:
    assert len(evaluate(disc_game(25, 100, 2.0)).components) == 1


def test_scores_and_intervals_are_those_of_the_games(cyclic: Report) -> None:
    met = ~np.eye(9, dtype=bool)
    assert (cyclic.games == np.where(met, 400.0, 0.0)).all()
    assert np.isnan(cyclic.score.diagonal()).all()
    assert (cyclic.score + cyclic.score.T)[met] == pytest.approx(1.0)
    assert (cyclic.score_low < cyclic.score)[met].all()
    assert (cyclic.score < cyclic.score_high)[met].all()


def test_ladder_has_no_cycle_and_its_best_player_is_the_nash_mixture() -> None:
    first, second = np.triu_indices(5, 1)
    score = np.rint(1000 * expit(0.5 * (second - first))) / 1000
    found = evaluate(pair_results(Results(first, second, score, np.full(first.size, 1000)), 5))
    assert found.order == [0, 1, 2, 3, 4]
    assert (len(found.components), found.cycle) == (0, None)
    assert found.nash == pytest.approx([1.0, 0.0, 0.0, 0.0, 0.0], abs=1e-6)
    assert (found.low < found.rating).all()
    assert (found.rating < found.high).all()


def test_anchors_fix_the_scale() -> None:
    results = disc_game(4, 100, 0.5)
    anchored = replace(results, start=np.array([2000.0, 1500.0, 1500.0, 1500.0]), anchor=np.eye(4, dtype=bool)[0])
    found = evaluate(anchored)
    assert found.rating[0] == found.low[0] == found.high[0] == 2000.0
    assert found.rating[1:].mean() > 1900.0


def test_json_has_no_missing_number(cyclic: Report) -> None:
    found = json.loads(json.dumps(cyclic.to_dict(), allow_nan=False))
    assert found["scores"][0][0] is None
    assert found["strongest_cycle"]["players"] == [cyclic.names[index] for index in cyclic.cycle.players]


def test_picture_has_a_point_for_each_player_and_arrows_of_the_cycle(cyclic: Report) -> None:
    root = ET.fromstring(draw_components(cyclic))
    circles = list(root.iter(f"{SVG}circle"))
    assert [circle.find(f"{SVG}title").text for circle in circles] == list(cyclic.names)
    assert sum(path.get("class") == "cycle" for path in root.iter(f"{SVG}path")) == 3
    assert min(float(circle.get("cx")) for circle in circles) >= 0.0
    assert max(float(circle.get("cy")) for circle in circles) <= components_svg.SIDE
    labels = [text for text in root.iter(f"{SVG}text") if text.get("class") == "label"]
    assert {text.text for text in labels} == set(cyclic.names)


def test_labels_that_would_overlap_are_left_out(cyclic: Report) -> None:
    together = replace(cyclic, components=np.ones_like(cyclic.components))
    root = ET.fromstring(draw_components(together))
    assert sum(text.get("class") == "label" for text in root.iter(f"{SVG}text")) == 1
