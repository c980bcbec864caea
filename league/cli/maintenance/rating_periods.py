"""`league close-period` and `league rebuild`: close and recompute rating periods."""

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from league.cli.connection import AnyEnvironment, AsJson, Environment, Token, Url, connect
from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home
from league.cli.output import tables
from league.cli.output.grid import Grid
from league.client import DEFAULT_URL
from league.db.engine import Database
from league.errors import ConfigurationError, RebuildMismatchError
from league.services.environments import lookup as environments
from league.services.rating_periods import rebuild as rebuilding
from league.services.rating_periods import what_if
from league.services.ratings.period import RatingConfig
from league.settings import Settings

app = typer.Typer()


@app.command("close-period", epilog="Example: league close-period --environment mech-duel")
def close_period(
    environment: Environment = None,
    reason: Annotated[str, typer.Option("--reason", help="Reason, stored with the period.")] = "by hand",
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Close the rating period now.

    The server closes periods on its own when enough results have come in.
    """
    with connect(url, token) as client:
        period = client.close_period(environment, reason)
    if as_json:
        tables.show_json(period)
    else:
        tables.show(f"{period.environment}: {tables.period_line(period)}")


@app.command(epilog="Example: league rebuild --config new.toml --dry-run --environment mech-duel")
def rebuild(
    environment: AnyEnvironment = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="TOML file with parameters: tau, burst_games, ..., period_games, [refit]."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes without making them.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Reason, stored with the periods.")] = "rated again",
    as_json: AsJson = False,
    home: Home = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Recompute all ratings and payoffs from the match log.

    The result must equal the stored ratings bit for bit. If it does not, because the tables were modified, the result
    replaces them and the command exits with 1. The server may run.

    With --config all matches are rated with other parameters and compared with the current ratings. Without --dry-run
    the result becomes the league's ratings, as a new version. Parameters that the file omits keep their values.
    """
    settings = Settings.load(home=home, database_url=database_url)
    with database.current(settings) as connection:
        database.require_environment(connection, environment)
        if config is None:
            _rebuild(connection, environment, dry_run, as_json)
        else:
            _rerate(connection, settings, environment, config, dry_run, reason, as_json)


def _rebuild(connection: Database, environment: str | None, dry_run: bool, as_json: bool) -> None:
    if dry_run:
        with connection.read() as session:
            chosen = [environment] if environment else environments.names(session)
            outcome = [rebuilding.inspect(session, each) for each in chosen]
    else:
        outcome = rebuilding.rebuild(connection, datetime.now(UTC), environment)
    if as_json:
        tables.show_json({"items": outcome, "next_cursor": None})
    else:
        lines = [_report(one) for one in outcome]
        tables.show(*(lines or ["nothing to rebuild: no matches yet"]))
    mismatched = [one.environment for one in outcome if one.differing]
    if mismatched:
        rule = "stored ratings or payoffs differ from the match log"
        remedy = "run it without --dry-run to correct them" if dry_run else "they have been corrected; check the cause"
        raise RebuildMismatchError(", ".join(mismatched), rule, remedy)


def _rerate(
    connection: Database,
    settings: Settings,
    environment: str | None,
    config: Path,
    dry_run: bool,
    reason: str,
    as_json: bool,
) -> None:
    changes = _toml(config)
    with connection.read() as session:
        environment = environment or environments.only(session)
    proposal = what_if.propose(connection, settings, environment, changes)
    if dry_run:
        outcome = what_if.compare(connection, environment, proposal)
    else:
        outcome = what_if.apply(
            connection, environment, proposal, actor="league rebuild", reason=reason, now=datetime.now(UTC)
        )
    if as_json:
        tables.show_json({**vars(outcome), "applied": not dry_run, "next_cursor": None})
    else:
        tables.show(comparison_grid(outcome), *_verdict(outcome, settings, proposal, applied=not dry_run))


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigurationError(f"--config {path}", str(error.strerror), "name a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--config {path}", f"it is not valid TOML ({error})", "correct it") from error


def _verdict(
    outcome: what_if.Comparison, settings: Settings, proposal: what_if.Proposal, *, applied: bool
) -> list[str]:
    """Return the log loss of both rating configurations and the state of the league's ratings as lines of text."""
    lines = [
        f"{word}: rating config {test.config_id}, periods {test.periods}, "
        f"log loss of the next period's matches {tables.NONE if test.log_loss is None else f'{test.log_loss:.4f}'}"
        for word, test in (("present", outcome.present), ("proposed", outcome.proposed))
    ]
    if not applied:
        return [*lines, "nothing changed; run without --dry-run to apply the proposed ratings"]
    lines.append("applied the proposed ratings; the old ones remain as history")
    if RatingConfig.of(settings, unlike_sides=proposal.rule.unlike_sides) != proposal.rule:
        lines.append(
            "the server rates further periods with its own settings: restart it with the same parameters (LEAGUE_...)"
        )
    return lines


def _report(outcome: rebuilding.Rebuilt) -> str:
    mismatch = f"{outcome.differing} ratings or payoffs differed; first: {outcome.first}"
    verdict = mismatch if outcome.differing else "bit-identical"
    return f"{outcome.environment}: {outcome.periods} periods, {outcome.ratings} ratings: {verdict}"


def comparison_grid(one: what_if.Comparison) -> Grid:
    """Return a table of players with their present and proposed ratings."""
    return Grid(
        [["rank", "was", "id"], ["player", "kind"], ["rating ± 2 RD", "was", "change", "games"]],
        [
            [
                *(str(line.proposed.rank), str(line.present.rank), str(line.player_id), line.name, line.kind),
                *(tables.interval(rated.rating, rated.deviation) for rated in (line.proposed, line.present)),
                *(_change(line.proposed.rating - line.present.rating), str(line.proposed.games)),
            ]
            for line in one.items
        ],
        "no rated players",
    )


def _change(points: float) -> str:
    """Format a rating difference in whole points, zero without a sign."""
    return f"{round(points):+d}" if round(points) else "0"
