"""`arena match`."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from arena.cli.options import (
    ANSWER_S,
    PLAYER_HELP,
    AnswerSeconds,
    AsJson,
    EnvironmentName,
    Matches,
    Modules,
    Seed,
    open_players,
    trust,
)
from arena.cli.output import game_stdout_to_stderr, make_table, prepare_torch, print_json, progress, stdout
from arena.environments.spec import SIDES

if TYPE_CHECKING:
    from arena.play.recording import RecordFirstMatch
    from arena.play.series import MatchSeries

app = typer.Typer()

Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FILE",
        dir_okay=False,
        help="Record the first match, with A at home, for `arena replay`.",
    ),
]

Processes = Annotated[
    int,
    typer.Option(
        "--processes", min=0, max=256, help="Number of processes for an environment that plays one match at a time."
    ),
]
Greedy = Annotated[
    bool, typer.Option("--greedy", help="Networks take the most probable action (argmax). Other players do not change.")
]


@app.command(epilog="Example: arena match lieutenant random --environment mech-duel --matches 200")
def match(
    a: Annotated[str, typer.Argument(metavar="A", help=PLAYER_HELP)],
    b: Annotated[str, typer.Argument(metavar="B", help=PLAYER_HELP)],
    environment: EnvironmentName,
    matches: Matches = 200,
    seed: Seed = 0,
    answer_s: AnswerSeconds = ANSWER_S,
    processes: Processes = 0,
    without_chance: Greedy = False,
    record: Record = None,
    modules: Modules = None,
    as_json: AsJson = False,
) -> None:
    """Play A against B, each seed on both sides, and print A's mean score with its 95 % interval.

    If the sides differ, the command also prints A's score on each side. If neither the game nor a player is random, it
    plays one match per side.
    """
    # Imported here, as in every command: torch would cost `--help` its start-up time.
    from arena.environments import declare, make
    from arena.play.recording import RecordFirstMatch
    from arena.play.runner import FORFEIT, NOBODY
    from arena.play.series import play_series
    from arena.policies.greedy import GreedyPolicy, greedy

    prepare_torch(threads=1)
    trust(modules)
    film = None if record is None else RecordFirstMatch()
    with game_stdout_to_stderr():
        spec = declare(environment)
        make(environment, num_envs=1)  # the first instance loads assets, which would count as playing time
    with game_stdout_to_stderr(), open_players(environment, (a, b), answer_s) as opened:
        players = [greedy(each) if without_chance else each for each in opened]
        drawn = spec.chance is not False or not all(isinstance(each, GreedyPolicy) for each in players)
        certain = matches >= SIDES and not drawn
        if certain and matches > SIDES:
            typer.echo(f"the match is deterministic: {SIDES} matches, one per side, are enough", err=True)
            matches = SIDES
        with progress(f"{a} v {b}", matches) as on:
            start = time.perf_counter()
            series = play_series(
                environment,
                *players,
                matches=matches,
                seed=seed,
                processes=processes,
                on_finished=on,
                watcher=film or NOBODY,
            )
    rate = series.decisions / (time.perf_counter() - start)
    played = _Played(environment, (a, b), series, certain, _by_side(series, spec.unlike_sides), rate)
    if as_json:
        print_json(_describe(played))
    else:
        stdout().print(_tabulate(played))
    if record is not None and film is not None:
        if series.matches[0].reason == FORFEIT:
            typer.echo(f"the first match was forfeited, so {record} is not written", err=True)
        else:
            _save(record, film, (a, b))


@dataclass(frozen=True)
class _Played:
    """Result of a series of matches.

    Attributes:
        environment: Name of the environment.
        players: Names of A and B.
        series: All matches.
        certain: Whether game and players are deterministic, so that the score is exact.
        sides: A's results on each side; empty unless the sides are unlike.
        rate: Decisions of all parallel matches per second.
    """

    environment: str
    players: tuple[str, str]
    series: "MatchSeries"
    certain: bool
    sides: list[dict[str, Any]]
    rate: float

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of A's expected score."""
        return (self.series.score, self.series.score) if self.certain else self.series.interval


def _by_side(series: "MatchSeries", sides: tuple[str, str] | None) -> list[dict[str, Any]]:
    """Return A's results on each side; empty if the sides are alike."""
    scores = [[match.score for match in series.matches if match.a_is_home is home] for home in (True, False)]
    return [
        {"side": side, "role": role, "matches": len(own), "score": sum(own) / len(own)}
        for side, role, own in zip(("home", "away"), sides or (), scores, strict=False)
        if own
    ]


def _describe(played: _Played) -> dict[str, Any]:
    low, high = played.interval
    return {
        "environment": played.environment,
        "home": played.players[0],
        "away": played.players[1],
        "matches": len(played.series.matches),
        "score": played.series.score,
        "low": low,
        "high": high,
        "reasons": played.series.reasons,
        "decisions_per_s": played.rate,
        **({"sides": played.sides} if played.sides else {}),
    }


def _tabulate(played: _Played) -> Table:
    series, (low, high) = played.series, played.interval
    table = make_table("A v B", "matches", "score\nof A", "95 % interval", "ended by", "decisions\na second")
    reasons = "\n".join(f"{reason} {count}" for reason, count in series.reasons.items())
    count, within = str(len(series.matches)), f"{low:.3f} to {high:.3f}" if low < high else "certain"
    table.add_row(" v\n".join(played.players), count, f"{series.score:.3f}", within, reasons, f"{played.rate:,.0f}")
    for each in played.sides:
        table.add_row(f"A {each['side']}, as {each['role']}", str(each["matches"]), f"{each['score']:.3f}", "", "", "")
    return table


def _save(path: Path, film: "RecordFirstMatch", players: tuple[str, str]) -> None:
    """Write the recording; the message goes to stderr, because scripts read stdout."""
    from arena.replay import write_recording

    recording = film.finish(players)
    size = write_recording(path, recording)
    decisions = recording.header.outcome.decisions
    length = f"{decisions} decision{'s' * (decisions != 1)}, {size / 1000:.1f} kB"
    where = f"recorded the first match, {players[0]} at home, to {path}"
    typer.echo(f"{where}: {length}; watch it with: arena replay {path}", err=True)
