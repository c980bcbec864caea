"""Bodies of runs: the settings and the origin of each training process of a learner."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue

from league.wire.base import PLAIN, Answer, Id, Request, Step
from league.wire.players import Metadata

RunKey = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class RunCreate(Request):
    """A training process of a learner; idempotent by (learner, key)."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "learner_id": 1,
                "key": "9e" * 16,
                "seed": 7,
                "settings": {"ppo": {"learning_rate": 0.0003}},
                "origin": {"command": ["python", "train.py"]},
            }
        }
    )

    learner_id: Id
    """Id of the learner."""
    key: RunKey
    """Chosen at random by the process."""
    seed: Annotated[int, Field(ge=0, lt=2**63), PLAIN] | None = None
    """Random seed."""
    step: Step = 0
    """Steps of the learner at the start."""
    settings: Metadata = {}
    """Settings of the training, nested by section."""
    origin: Metadata = {}
    """Command, versions, revision and machine."""


class Run(Answer):
    """One training process of a learner."""

    id: int
    """Its id."""
    learner_id: int
    """Id of the learner."""
    learner: str
    """Name of the learner."""
    player_id: int
    """Player id of the learner."""
    environment: str
    """Name of the environment."""
    seed: int | None
    """Random seed."""
    step: int
    """Steps of the learner at the start."""
    started_at: datetime
    """Time of the start."""
    snapshots: int
    """Number of its snapshots."""
    settings: dict[str, JsonValue]
    """Settings of the training, nested by section."""
    origin: dict[str, JsonValue]
    """Command, versions, revision and machine."""


class RunDifference(Answer):
    """One difference between two runs."""

    name: str
    """Its path, for example `settings.ppo.learning_rate`."""
    first: JsonValue
    """Value in the first run, or null."""
    second: JsonValue
    """Value in the second run, or null."""


class RunComparison(Answer):
    """Differences between two runs."""

    differences: list[RunDifference]
    """Sorted by name."""
