"""Rating periods."""

from datetime import datetime
from typing import Any

from league.wire.base import Answer, EnvironmentName, Request, Text


class PeriodCreate(Request):
    """Close a period now; without an environment, that of the league's only one."""

    environment: EnvironmentName | None = None
    reason: Text = "by hand"


class RatingPeriod(Answer):
    """A closed rating period: how many matches it took in, and of how many players.

    `config` is the rule it was rated under, `config_id` the beginning of a hash of it. Rating everything again under
    another rule makes a new `version` of all periods, numbered on from the last. `refitted` says that the whole history
    of the frozen players was fitted at the period's end.
    """

    id: int
    version: int
    number: int
    environment: str
    matches: int
    players: int
    config_id: str
    config: dict[str, Any]
    refitted: bool
    closed_at: datetime
    reason: str
