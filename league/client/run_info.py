"""Description of this training process, which the league stores as a run."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from league import wire
from league.client.origin import origin
from league.errors import InvalidRequestError


@dataclass(frozen=True)
class RunInfo:
    """Description of this training process for the league.

    Attributes:
        settings: Settings of the training as JSON values, nested by section.
        seed: Random seed; None if unknown.
        key: Identifies the process, so that a repeated registration stores one run.
        origin: Command, packages, git revision and machine.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    origin: Mapping[str, Any] = field(default_factory=origin)

    def request(self, learner: wire.Learner) -> wire.RunCreate:
        """Return the request that stores this process as a run of a learner.

        Raises:
            InvalidRequestError: The seed is negative, or the settings are no JSON values or more than 64 kB.
        """
        try:
            return wire.RunCreate(
                learner_id=learner.id,
                key=self.key,
                seed=self.seed,
                step=learner.step or 0,
                settings=dict(self.settings),
                origin=dict(self.origin),
            )
        except ValidationError as error:
            raise InvalidRequestError.of_field(dict(error.errors()[0]), "pass JSON values of at most 64 kB") from error
