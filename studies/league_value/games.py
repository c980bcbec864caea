"""Games small enough for exact values: what policies win of each other, and what a best response wins of one."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from arena.environments.adapters.openspiel.declare import tree_of
from arena.environments.adapters.openspiel.tree import AWAY, HOME
from arena.environments.classic.matrix_game import RPS_PAYOFF
from arena.environments.registry import split_rounds
from arena.exploitability import (
    SequenceForm,
    best_response,
    expected_returns,
    exploitability,
    mix_policies,
    sequence_form,
)
from arena.exploitability.tabular_policy import to_tabular_policy
from arena.policies import ActorCritic

FloatArray = NDArray[np.float64]


class Game(Protocol):
    """What is asked of a game. A policy is a table of probabilities.

    Attributes:
        largest: Largest return of a match, in the game's units.
    """

    largest: float

    def tabulate(self, network: ActorCritic) -> FloatArray:
        """Return a network's policy."""

    def returns(self, policies: ArrayLike) -> FloatArray:
        """Return (M, M) what policy i wins at home of policy j."""

    def exploitability(self, policy: FloatArray) -> float:
        """Return what best responses win of a policy, the mean of both sides."""

    def best_response(self, policy: FloatArray) -> FloatArray:
        """Return the policy that wins most of another one, on both sides."""

    def mix(self, policies: ArrayLike, weights: FloatArray) -> FloatArray:
        """Return the policy of one who draws a policy before every match."""


@dataclass(frozen=True)
class TreeGame:
    """A game of OpenSpiel."""

    name: str
    form: SequenceForm
    largest: float

    def tabulate(self, network: ActorCritic) -> FloatArray:
        """Return a network's policy (I, K)."""
        return to_tabular_policy(network, self.name)

    def returns(self, policies: ArrayLike) -> FloatArray:
        """Return (M, M) what policy i wins at home of policy j."""
        return expected_returns(self.form, policies)

    def exploitability(self, policy: FloatArray) -> float:
        """Return what best responses win of a policy, the mean of both sides."""
        return exploitability(self.form, policy)

    def best_response(self, policy: FloatArray) -> FloatArray:
        """Return the policy that wins most of another one, on both sides."""
        home, away = (best_response(self.form, policy, side).policy for side in (HOME, AWAY))
        states = self.form.sides[AWAY].states
        home[states] = away[states]
        return home

    def mix(self, policies: ArrayLike, weights: FloatArray) -> FloatArray:
        """Return the policy of one who draws a policy before every match."""
        return mix_policies(self.form, policies, weights)


class RockPaperScissors:
    """The biased one of `arena.environments.classic.matrix_game`; a policy is (3,)."""

    def __init__(self) -> None:
        self._payoff = np.array(RPS_PAYOFF)
        self.largest = float(abs(self._payoff).max())

    @torch.inference_mode()
    def tabulate(self, network: ActorCritic) -> FloatArray:
        """Return a network's policy (3,), which sees nothing but the constant 1."""
        yes = torch.ones(1, dtype=torch.bool)
        output = network.step(torch.ones(1, 1), network.initial_state(1), yes, yes)
        return np.asarray(output.parameters.double().softmax(dim=-1).squeeze(0))

    def returns(self, policies: ArrayLike) -> FloatArray:
        """Return (M, M) what policy i wins at home of policy j."""
        tables = np.asarray(policies)
        return np.asarray(tables @ self._payoff @ tables.T)

    def exploitability(self, policy: FloatArray) -> float:
        """Return what a best response wins of a policy; both sides have the same choices."""
        return float((self._payoff @ policy).max())

    def best_response(self, policy: FloatArray) -> FloatArray:
        """Return the pure policy that wins most of another one."""
        response: FloatArray = np.eye(len(policy))[(self._payoff @ policy).argmax()]
        return response

    def mix(self, policies: ArrayLike, weights: FloatArray) -> FloatArray:
        """Return the policy of one who draws a policy before every match."""
        return np.asarray(weights @ np.asarray(policies))


def game_of(name: str) -> Game:
    """Return the game that an environment is; of matches of several rounds, one round.

    Raises:
        ValueError: It is none with exact values.
        ArenaError: OpenSpiel's game cannot be unrolled, or a side forgets what it did.
    """
    game, _ = split_rounds(name)
    if game == "rps":
        return RockPaperScissors()
    if not game.startswith("openspiel:"):
        raise ValueError(f"{name} has no exact values: take rps or a game of OpenSpiel, such as openspiel:kuhn_poker")
    return TreeGame(game, sequence_form(game), float(abs(tree_of(game).home_return).max()))
