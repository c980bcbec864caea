"""Results file: games and points of all pairs of a population, from which ratings and payoffs can be recomputed.

`arena tournament --output` and `league export --results` write it, and `arena report` reads it. It is JSON:

    format        1
    environment   name of the game
    source        origin of the results, for the reader: command, seed, versions
    settings      of the rating fit, see `arena.ratings.bradley_terry_config.RefitConfig`
    players       name, rating in points, whether it is anchored there, index of the parent (or null)
    pairs         indices of both players, games, points of the first one
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from arena.arrays import BoolArray, FloatArray, IntArray
from arena.atomic_files import write_atomically
from arena.errors import ArenaError
from arena.ratings.bradley_terry import NO_PARENT, require_history
from arena.ratings.bradley_terry_config import RefitConfig
from arena.ratings.glicko2 import Results

FORMAT = 1


class ResultsFileError(ArenaError):
    """A results file cannot be read."""

    code = "invalid-results-file"


@dataclass(frozen=True, eq=False)
class PairResults:
    """Results of P players.

    Attributes:
        environment: Name of the game.
        names: (P,) names of the players.
        start: (P,) ratings in points: fixed for anchors, where the fit begins for the others.
        anchor: (P,) true for players that keep their rating.
        parent: (P,) index of the player that each descends from; -1 for none.
        games: Rows of pairs with the mean score of the first player.
        config: Settings of the fit.
        source: Origin of the results.
    """

    environment: str
    names: tuple[str, ...]
    start: FloatArray
    anchor: BoolArray
    parent: IntArray
    games: Results
    config: RefitConfig = field(default_factory=RefitConfig)
    source: Mapping[str, Any] = field(default_factory=dict)


def write(path: Path, results: PairResults) -> None:
    """Write a results file, one player and one pair per line."""
    head = {
        "format": FORMAT,
        "environment": results.environment,
        "source": results.source,
        "settings": asdict(results.config),
    }
    parents = [None if parent == NO_PARENT else parent for parent in results.parent.tolist()]
    players = [
        {"name": name, "rating": rating, "anchor": anchor, "parent": parent}
        for name, rating, anchor, parent in zip(
            results.names, results.start.tolist(), results.anchor.tolist(), parents, strict=True
        )
    ]
    games = results.games
    columns = games.home.tolist(), games.away.tolist(), games.games.tolist(), (games.score * games.games).tolist()
    pairs = [dict(zip(("first", "second", "games", "points"), row, strict=True)) for row in zip(*columns, strict=True)]
    lines = [f'"{name}": {json.dumps(value)}' for name, value in head.items()]
    for name, rows in (("players", players), ("pairs", pairs)):
        listed = ",\n".join(json.dumps(row) for row in rows)
        lines.append(f'"{name}": [\n{listed}\n]')
    write_atomically(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def read(path: Path) -> PairResults:
    """Read a results file.

    Raises:
        ResultsFileError: The file is not a results file of this format, or its values contradict each other.
        OSError: The file cannot be read.
    """
    content = path.read_bytes()
    try:
        found = json.loads(content)
        return _parse(found)
    except (ValueError, TypeError, KeyError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise ResultsFileError(
            f"results file {path}: {reason}; write it with `arena tournament --output` or `league export --results`"
        ) from error


def _parse(found: Mapping[str, Any]) -> PairResults:
    if found["format"] != FORMAT:
        raise ValueError(f"its format is {found['format']}, this version reads {FORMAT}")
    players, pairs = found["players"], found["pairs"]
    count = np.array([pair["games"] for pair in pairs], dtype=np.int64)
    if (count < 1).any():
        raise ValueError("a pair has no games")
    points = np.array([pair["points"] for pair in pairs], dtype=np.float64)
    games = Results(
        home=np.array([pair["first"] for pair in pairs], dtype=np.int64),
        away=np.array([pair["second"] for pair in pairs], dtype=np.int64),
        score=points / count,
        games=count,
    )
    results = PairResults(
        environment=found["environment"],
        names=tuple(player["name"] for player in players),
        start=np.array([player["rating"] for player in players], dtype=np.float64),
        anchor=np.array([player["anchor"] for player in players], dtype=np.bool_),
        parent=np.array(
            [NO_PARENT if player["parent"] is None else player["parent"] for player in players], dtype=np.int64
        ),
        games=games,
        config=RefitConfig(**found["settings"]),
        source=found["source"],
    )
    require_history(results.games, results.start, results.anchor, results.parent)
    return results
