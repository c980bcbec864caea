"""Opponent distributions: PFSP and other weightings, league roles, and the pairing of rating matches. Torch-free."""

from arena.matchmaking.distribution import (
    SELF,
    Branch,
    Distribution,
    MatchmakingConfig,
    OpponentSample,
    draw,
    effective_opponents,
    opponent_distribution,
)
from arena.matchmaking.pfsp import WinRateWeighting, pfsp_weights, rating_kernel
from arena.matchmaking.rules import Candidates

__all__ = [
    "SELF",
    "Branch",
    "Candidates",
    "Distribution",
    "MatchmakingConfig",
    "OpponentSample",
    "WinRateWeighting",
    "draw",
    "effective_opponents",
    "opponent_distribution",
    "pfsp_weights",
    "rating_kernel",
]
