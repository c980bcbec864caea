"""`arena match`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from arena.cli.options import (
    ANSWER_S,
    PLAYER_HELP,
    AnswerSeconds,
    AsJson,
    EnvironmentName,
    Matches,
    Seed,
    patience,
    tell_faults,
)
from arena.cli.output import make_table, prepare_torch, print_json, progress, stdout

if TYPE_CHECKING:
    from arena.match import MatchSeries
    from arena.replay.recorder import FirstMatch

app = typer.Typer()

Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FILE",
        dir_okay=False,
        help="Record the first match, with A at home, for `arena replay`; such as first.replay.json.gz.",
    ),
]

Processes = Annotated[
    int,
    typer.Option("--processes", min=0, max=256, help="Processes that step a game which plays one match at a time."),
]
Greedy = Annotated[
    bool, typer.Option("--greedy", help="Networks do what they hold for best, and draw nothing; others play on.")
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
    as_json: AsJson = False,
) -> None:
    """Play A against B, each seed once on either side, and print A's mean score with its 95 % interval."""
    # Imported here, as in every command: torch would cost `--help` its start-up time.
    from arena.match import FORFEIT, NOBODY, play_series, seated
    from arena.policies.greedy import greedy
    from arena.replay.recorder import FirstMatch

    prepare_torch(threads=1)
    film = None if record is None else FirstMatch()
    with (
        seated(environment, (a, b), patience(answer_s), tell_faults()) as players,
        progress(f"{a} v {b}", matches) as on,
    ):
        start = time.perf_counter()
        series = play_series(
            environment,
            *(map(greedy, players) if without_chance else players),
            matches=matches,
            seed=seed,
            processes=processes,
            on_finished=on,
            watcher=film or NOBODY,
        )
    decisions_per_s = series.decisions / (time.perf_counter() - start)
    if as_json:
        _print_as_json(environment, (a, b), series, decisions_per_s)
    else:
        stdout().print(_tabulate((a, b), series, decisions_per_s))
    if record is not None and film is not None:
        if series.matches[0].reason == FORFEIT:
            typer.echo(f"the first match was forfeited and is not recorded: {record} is not written", err=True)
        else:
            _save(record, film, (a, b))


def _print_as_json(environment: str, players: tuple[str, str], series: "MatchSeries", decisions_per_s: float) -> None:
    low, high = series.interval
    print_json(
        {
            "environment": environment,
            "home": players[0],
            "away": players[1],
            "matches": len(series.matches),
            "score": series.score,
            "low": low,
            "high": high,
            "reasons": series.reasons,
            "decisions_per_s": decisions_per_s,
        }
    )


def _tabulate(players: tuple[str, str], series: "MatchSeries", decisions_per_s: float) -> Table:
    low, high = series.interval
    table = make_table("A v B", "matches", "score\nof A", "95 % interval", "ended by", "decisions\na second")
    reasons = "\n".join(f"{reason} {count}" for reason, count in series.reasons.items())
    count, interval = str(len(series.matches)), f"{low:.3f} to {high:.3f}"
    table.add_row(" v\n".join(players), count, f"{series.score:.3f}", interval, reasons, f"{decisions_per_s:,.0f}")
    return table


def _save(path: Path, film: "FirstMatch", players: tuple[str, str]) -> None:
    """Write the recording and say so on stderr, where it does not mix with what scripts read."""
    from arena.replay import write_recording

    recording = film.finish(players)
    size = write_recording(path, recording)
    decisions = recording.header.outcome.decisions
    length = f"{decisions} decision{'s' * (decisions != 1)}, {size / 1000:.1f} kB"
    where = f"recorded the first match, {players[0]} at home, to {path}"
    typer.echo(f"{where}: {length}; watch it with: arena replay {path}", err=True)
