"""Periodic task: evaluate open gates; idempotent, because a verdict follows from the match log."""

import logging
from collections.abc import Callable
from datetime import datetime

from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.gates import sprt as gate_sprt
from league.settings import Settings

log = logging.getLogger(__name__)


class GateTask(PeriodicTask):
    """Evaluates open gates every `aggregation_interval_s`."""

    name = "evaluating gates"

    def __init__(self, database: Database, settings: Settings, clock: Callable[[], datetime]) -> None:
        super().__init__(settings.aggregation_interval_s, settings.aggregation_interval_s)
        self._database, self._clock = database, clock

    def run_once(self) -> None:
        """Close the gates that have a verdict."""
        for gate in gate_sprt.close_decided(self._database, self._clock()):
            log.info("gate %d of %s: %s", gate.gate_id, gate.environment, gate.reason)
