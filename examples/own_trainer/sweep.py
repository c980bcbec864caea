"""Sweep the settings of a small trainer with Optuna: the objective is the rating, and gates prune weak trials."""

import sys
import time
from functools import lru_cache
from itertools import islice

import numpy as np
import optuna
import pettingzoo
from safetensors.numpy import load, save

from league.client import LeagueClient, Match, RunInfo
from league.wire import GateCreate, LearnerCreate, RatingLeases, Result, ResultBatch, WorkerCreate

GAME, SIGNATURE = "tictactoe-sweep", "tictactoe-sweep-1"
ROUNDS, MATCHES, BATCH, GATE_GAMES, DEVIATION = 3, 150, 64, 256, 50
game = pettingzoo.make("aec", "classic/tictactoe-v3")
RANDOM = np.zeros((18, 9))


def play(seed, players):
    """Play a match of home's and away's weights; return home's score, and the agent and gradient of each move."""
    rng, moves = np.random.default_rng(seed), []
    game.reset(seed=seed % 2**31)
    while True:
        seen, reward, terminated, truncated, _ = game.last()
        if terminated or truncated:
            return (1 + (reward if game.agent_selection == "player_1" else -reward)) / 2, moves
        number, features = len(moves) % 2, seen["observation"].reshape(-1)
        odds = np.exp(features @ players[number]) * seen["action_mask"]
        probabilities = odds / odds.sum()
        action = rng.choice(9, p=probabilities)
        moves.append((number, np.outer(features, np.eye(9)[action] - probabilities)))
        game.step(action)


@lru_cache(256)
def frozen(checkpoint):
    return RANDOM if checkpoint.startswith("baseline:") else load(league.download(checkpoint))["weights"]


def train(session, weights, rate):
    """REINFORCE: make the moves of won matches more likely, and those of lost ones less."""
    for match in islice(session.matches(), MATCHES):
        other = weights if match.opponent.checkpoint is None else frozen(match.opponent.checkpoint)
        score, moves = play(match.seed, (weights, other) if match.side == "home" else (other, weights))
        score, own = (score, 0) if match.side == "home" else (1 - score, 1)
        session.report(match, score, len(moves))
        weights += rate * (2 * score - 1) * sum((gradient for number, gradient in moves if number == own), RANDOM)


def evaluate():
    """Play a batch of leased matches of frozen players: those of gates, else those that ratings need most."""
    request = RatingLeases(kind="rating", worker_id=evaluator.id, environment=GAME, count=BATCH // 2, budget=2)
    results = []
    for match in [Match(lease, number) for lease in league.lease(request).items for number in range(2)]:
        score, moves = play(match.seed, (frozen(match.lease.home.checkpoint), frozen(match.lease.away.checkpoint)))
        fields = {"score": score, "decisions": len(moves), "reason": "finished", "seed": match.seed}
        results.append(Result(lease_id=match.lease.lease_id, sequence=match.sequence, **fields))
    league.report(ResultBatch(worker_id=evaluator.id, results=results))


def is_weaker(candidate, champion):
    """Return whether a gate finds that the candidate is weaker than the champion."""
    gate = league.open_gate(GateCreate(candidate_id=candidate, champion_id=champion, elo0=-100, elo1=0))
    while gate.state == "open" and gate.games < GATE_GAMES:
        evaluate()
        gate = league.gate(gate.id)
    if gate.state == "open":
        league.cancel_gate(gate.id, "no verdict")
    return gate.state == "rejected"


def objective(trial):
    rate = trial.suggest_float("learning_rate", 1e-3, 1.0, log=True)
    spread = trial.suggest_float("initial_spread", 0.0, 1.0)
    weights = np.random.default_rng(trial.number).normal(0.0, spread, (18, 9))
    name = f"{trial.study.study_name}-{trial.number}"
    learner = LearnerCreate(name=name, role="main", environment=GAME, signature=SIGNATURE)
    for step in range(MATCHES, (ROUNDS + 1) * MATCHES, MATCHES):
        with league.attach(learner, worker=name, run=RunInfo(trial.params, seed=trial.number)) as session:
            train(session, weights, rate)
            session.publish(save({"weights": weights}), step)
        player = league.player(f"{name}@{step}").id
        completed = trial.study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
        if completed and is_weaker(player, max(completed, key=lambda each: each.value).user_attrs["player"]):
            raise optuna.TrialPruned(f"{name}@{step} is weaker than the best trial")
    trial.set_user_attr("player", player)
    while league.player(player).deviation > DEVIATION:
        evaluate()
        league.close_period(GAME)
    return league.player(player).rating


league = LeagueClient()
evaluator = league.register_worker(WorkerCreate(name="sweep", kind="evaluator", version="1", signatures=[SIGNATURE]))
study = optuna.create_study(study_name=time.strftime("sweep-%H%M%S"), direction="maximize")
study.optimize(objective, n_trials=int(sys.argv[1]))
print(f"best: {study.best_trial.value:.0f} points with {study.best_params}")
