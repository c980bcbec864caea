"""Lineages that are trained."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from league.wire.bodies import Answer, Request
from league.wire.fields import PLAIN, EnvironmentName, Name, Signature

Role = Literal["main", "main_exploiter", "league_exploiter"]


class LearnerCreate(Request):
    """A lineage to train, found or made by (environment, name).

    `max_decisions` is the environment's longest match; results of longer ones are then refused.
    """

    name: Name
    role: Role
    environment: EnvironmentName
    signature: Signature
    max_decisions: Annotated[int, Field(ge=1, lt=2**53), PLAIN] | None = None


class Learner(Answer):
    """A trained lineage. `player_id` is the learner as a rated player."""

    id: int
    player_id: int
    name: str
    role: Role
    environment: str
    signature: str
    step: int | None
    metrics: dict[str, float | None]
    metrics_at: datetime | None
    latest_snapshot: int | None
    created_at: datetime
