"""How many promotions of a league are confirmed by a long replay, and how often it promotes.

    python -m benchmarks.promotions league.db --matches 2000 --json promotions.json

Every player that the rules promoted, or made champion, plays so many matches against the player that it had to beat:
the opponent of its gate, or the former champion. A promotion without a gate claims a score above 1/2 against the frozen
players of that time, so that its matches are spread evenly over them. Two matches share a seed with sides swapped.
A replay confirms the change if the mean score, less 1.645 standard errors over pairs, is above 1/2 (a one-sided test at
5 %), and refutes it if the mean score plus 1.645 standard errors is below 1/2.

Only the database and the checkpoints are read. Checkpoints of retired players may have been deleted: then the replay is
missing. The database may be a copy of a running league's.
"""

import argparse
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import torch
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from arena.play.series import play_series, resolve_policy
from arena.seeding import derive
from benchmarks import record
from league.db.engine import Database
from league.db.models import Event, Gate, Period, Player, Rating
from league.player_names import display_name
from league.services.audit.log import RULE

Z_95 = 1.644854
"""One-sided 95 % quantile of the normal distribution."""

AIM = 0.95
HOUR_S = 3600.0
_GATE = re.compile(r"gate (\d+): ")
_TITLES = {"promote": "promotion", "champion": "champion"}


@dataclass(frozen=True, eq=False)
class Change:
    """A promotion, or a change of the champion, by rule.

    Attributes:
        title: `promotion` or `champion`.
        player: The promoted player.
        rivals: The players that it had to beat; empty for the first champion.
        games: Rated games of the player at that time.
        at: Time of the change.
    """

    title: str
    player: Player
    rivals: tuple[Player, ...]
    games: int
    at: datetime


@dataclass(frozen=True)
class Replay:
    """Mean score of the promoted player in a replay, and its standard error."""

    score: float
    error: float

    @property
    def verdict(self) -> str:
        """Return `confirmed`, `refuted` or `undecided`."""
        if self.score - Z_95 * self.error > 0.5:
            return "confirmed"
        return "refuted" if self.score + Z_95 * self.error < 0.5 else "undecided"


def main() -> None:
    """Replay and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("database", help="SQLite file, or URL of a database")
    parser.add_argument("--checkpoints", type=Path, help="folder of the store; by default beside the SQLite file")
    parser.add_argument("--matches", type=int, default=2_000, help="matches of a replay")
    parser.add_argument("--seed", type=int, default=0)
    record.add_json_option(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    url = arguments.database if "://" in arguments.database else f"sqlite:///{arguments.database}"
    store = arguments.checkpoints or Path(arguments.database).parent / "checkpoints"
    rows: list[record.Row] = []
    with Database(url).read() as session:
        for environment in session.scalars(select(Player.environment).distinct().order_by(Player.environment)):
            changes = list(read_changes(session, environment))
            replays = [_replay_and_print(change, store, arguments) for change in changes]
            found = summary(changes, replays, hours(session, environment))
            for title, measured, aim in found:
                print(f"{environment}: {title}: {measured}", flush=True)
                rows.append({"work": f"{environment}: {title}", "measured": measured, "aim": aim})
    record.write(arguments.json, "promotions", rows)


def read_changes(session: Session, environment: str) -> Iterator[Change]:
    """Read the promotions and the changes of the champion by rule, in their order."""
    by_rule = Event.environment == environment, Event.kind.in_(_TITLES), Event.actor == RULE
    players = {player.id: player for player in session.scalars(select(Player).where(Player.environment == environment))}
    for event in session.scalars(select(Event).where(*by_rule).order_by(Event.id)):
        if event.player_id is None or (event.kind == "champion" and event.details["to"] is None):
            continue
        ratings = _ratings(session, environment, event.created_at)
        rivals = tuple(players[each] for each in _rivals(session, event, ratings, players))
        games = ratings[event.player_id].games if event.player_id in ratings else 0
        yield Change(_TITLES[event.kind], players[event.player_id], rivals, games, event.created_at)


def hours(session: Session, environment: str) -> float:
    """Return the time between the first and the last rating period, in hours."""
    ends = select(func.min(Period.closed_at), func.max(Period.closed_at)).where(Period.environment == environment)
    first, last = session.execute(ends).one()
    return 0.0 if first is None else (last - first).total_seconds() / HOUR_S


def summary(
    changes: Sequence[Change], replays: Sequence[Replay | None], hours: float
) -> Iterator[tuple[str, str, str]]:
    """Yield title, value and aim of each number of an environment."""
    for title in _TITLES.values():
        own = [(change, replay) for change, replay in zip(changes, replays, strict=True) if change.title == title]
        rate = f"{len(own) / hours:.1f}" if hours else "-"
        yield f"{title}s per hour", f"{rate} ({len(own)} in {hours:.2f} h)", ""
        if title == "promotion" and own:
            yield "median games at promotion", f"{np.median([change.games for change, _ in own]):.0f}", ""
        verdicts = [replay.verdict for _, replay in own if replay is not None]
        if verdicts:
            confirmed = verdicts.count("confirmed")
            counts = f"{verdicts.count('undecided')} undecided, {verdicts.count('refuted')} refuted"
            missing = f"{len(own) - len(verdicts)} not replayed"
            measured = f"{confirmed / len(verdicts):.0%} ({confirmed} of {len(verdicts)}; {counts}; {missing})"
            yield f"{title}s that a replay confirms", measured, f"{AIM:.0%}"


def replay(environment: str, player: str, rivals: Sequence[str], matches: int, seed: int) -> Replay:
    """Play about so many matches of one player, a baseline or a file, divided evenly among its rivals."""
    one = resolve_policy(environment, player)
    each = 2 * math.ceil(matches / (2 * len(rivals)))
    pairs = []
    for place, rival in enumerate(rivals):
        other = resolve_policy(environment, rival)
        series = play_series(environment, one, other, matches=each, seed=derive(seed, "rival", place))
        pairs.append(np.array([match.score for match in series.matches]).reshape(-1, 2).mean(axis=1))
    variance = sum(scores.var(ddof=1) / scores.size for scores in pairs) / len(pairs) ** 2
    return Replay(float(np.mean(pairs)), float(np.sqrt(variance)))


def _replay_and_print(change: Change, store: Path, arguments: argparse.Namespace) -> Replay | None:
    player = change.player
    shown = f"{change.at:%H:%M:%S} {change.title} of {display_name(player)} after {change.games} games"
    name = _policy_name(player, store)
    rivals = [name for name in (_policy_name(rival, store) for rival in change.rivals) if name is not None]
    if name is None or not rivals:
        print(f"{shown}: {'a checkpoint is missing' if change.rivals else 'no player to beat'}", flush=True)
        return None
    seed = derive(arguments.seed, change.title, player.id)
    found = replay(player.environment, name, rivals, arguments.matches, seed)
    against = display_name(change.rivals[0]) if len(change.rivals) == 1 else f"{len(rivals)} frozen players"
    print(f"{shown} against {against}: {found.score:.3f} ± {Z_95 * found.error:.3f}, {found.verdict}", flush=True)
    return found


def _rivals(session: Session, event: Event, ratings: Mapping[int, Rating], players: Mapping[int, Player]) -> list[int]:
    gate = _GATE.search(event.reason)
    if gate is not None:
        return list(session.scalars(select(Gate.champion_id).where(Gate.id == int(gate[1]))))
    if event.kind == "champion":
        return [] if event.details["from"] is None else [event.details["from"]]
    frozen = (player_id for player_id in ratings if players[player_id].kind in ("snapshot", "baseline"))
    return sorted(player_id for player_id in frozen if player_id != event.player_id)


def _ratings(session: Session, environment: str, at: datetime) -> dict[int, Rating]:
    """Return the ratings after the last period until a time, by player."""
    past = Period.environment == environment, Period.current_version(), Period.closed_at <= at
    last = (
        select(func.max(Rating.id))
        .join(Period, Period.id == Rating.period_id)
        .where(*past, Rating.side.is_(None))
        .group_by(Rating.player_id)
    )
    return {rating.player_id: rating for rating in session.scalars(select(Rating).where(Rating.id.in_(last)))}


def _policy_name(player: Player, store: Path) -> str | None:
    """Return the name by which the arena opens a player; None if its checkpoint is missing."""
    if player.kind == "baseline":
        return player.name
    path = store / str(player.checkpoint)[:2] / str(player.checkpoint)
    return str(path) if path.is_file() else None


if __name__ == "__main__":
    main()
