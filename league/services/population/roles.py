"""Roles of learners (main agent, main exploiter, league exploiter) and their win rates against a population.

Pure functions; `league.services.population.rule_inputs` reads their inputs. After a reset, a learner has new weights.
Only its matches since then count, and because its rating is still that of the old weights, its prior expected score is
0.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena.evaluation import payoff as arithmetic
from arena.matchmaking.roles import MainExploiter, OpponentTable, RoleRules
from arena.matchmaking.rules import NO_LINEAGE, Need
from league.services.matches import pair_records
from league.services.matches.pair_records import PairRecords
from league.services.population.cache import Member, Population

EXPLOITERS = ("main_exploiter", "league_exploiter")

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class LearnerRole:
    """A learner with its effective rules.

    Attributes:
        member: The learner as a player.
        id: Id of the learner.
        name: Name of the learner.
        rules: Rules of its role.
        failure: Reason if they differ from the requested ones, else empty.
        reset_step: First step of its current weights; 0 for the initial ones.
    """

    member: Member
    id: int
    name: str
    rules: RoleRules
    failure: str
    reset_step: int

    def needs(self, games: int) -> frozenset[Need]:
        """Return the inputs that matchmaking needs beyond ratings and win rates, after a number of games."""
        return frozenset() if isinstance(self.rules, MainExploiter) else self.rules.matchmaking.needs(games)


@dataclass(frozen=True, eq=False)
class Matchups:
    """Record of a learner against K others.

    Attributes:
        win_rates: (K,) estimated win probability against each.
        matches: (K,) number of matches behind each estimate.
        against: The same with the opponents' roles, for rules of roles.
    """

    win_rates: NDArray[np.float64]
    matches: IntArray
    against: OpponentTable


@dataclass(frozen=True, eq=False)
class _Lineages:
    """Lineage, role and step of P players, as columns of `OpponentTable`."""

    lineage: IntArray
    main: BoolArray
    exploiter: BoolArray
    step: IntArray


def matchups(population: Population, own: LearnerRole, records: PairRecords, indices: IntArray) -> Matchups:
    """Return a learner's record against the players at K indices of its population.

    Args:
        population: Population of the learner's environment.
        own: The learner.
        records: Its pair records up to the last closed period, since its last reset.
        indices: (K,) of the others.
    """
    if own.reset_step == 0:
        expected = population.expected(np.full(indices.size, population.index(own.member.id)), indices)
    else:
        expected = np.full(indices.size, 0.5)
    counts, matches = pair_records.against(records, own.member.id, population.ids[indices])
    win_rates = arithmetic.win_rates(counts, expected)
    lineages = population.cached("lineages", lambda: _lineages(population.members))
    lineage, step = lineages.lineage[indices], lineages.step[indices]
    recent = arithmetic.win_rates(arithmetic.pool_recent(counts, matches, lineage, step), expected)
    against = OpponentTable(
        win_rates=win_rates,
        recent_win_rates=np.where(lineage == NO_LINEAGE, win_rates, recent),
        lineage=lineage,
        main=lineages.main[indices],
        exploiter=lineages.exploiter[indices],
        step=step,
        own=own.id,
    )
    return Matchups(win_rates, matches, against)


def _lineages(members: Sequence[Member]) -> _Lineages:
    lineages = [NO_LINEAGE if member.learner_id is None else member.learner_id for member in members]
    return _Lineages(
        lineage=np.array(lineages, dtype=np.int64),
        main=np.array([member.role == "main" for member in members], dtype=np.bool_),
        exploiter=np.array([member.role in EXPLOITERS for member in members], dtype=np.bool_),
        step=np.array([member.step or 0 for member in members], dtype=np.int64),
    )
