"""Periodic task: judge open gates. Every server runs it: a verdict follows from the log, and one writes it."""

import logging
from collections.abc import Callable
from datetime import datetime

from league.background.task import PeriodicTask
from league.db.engine import Database
from league.services.gates import sprt as gate_sprt
from league.services.gates.sprt import GateEvaluator
from league.settings import Settings

log = logging.getLogger(__name__)


class GateTask(PeriodicTask):
    """Looks every `aggregation_interval_s` whether a gate has its verdict."""

    name = "judging gates"

    def __init__(self, database: Database, settings: Settings, clock: Callable[[], datetime]) -> None:
        super().__init__(settings.aggregation_interval_s, settings.aggregation_interval_s)
        self._database, self._judge, self._clock = database, GateEvaluator(), clock

    def run_once(self) -> None:
        """Close the gates whose verdict has fallen."""
        for gate in gate_sprt.judge_open(self._database, self._judge, self._clock()):
            log.info("gate %d of %s: %s", gate.gate_id, gate.environment, gate.reason)
