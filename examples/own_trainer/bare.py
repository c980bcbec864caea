"""Play connect four in a league with a linear policy of random weights, and publish it."""

import sys

import numpy as np
from pettingzoo.classic import connect_four_v3
from safetensors.numpy import load, save

from league.client import attach
from league.wire import LearnerCreate

LEARNER = LearnerCreate(name="bare", role="main", environment="linear-four", signature="linear-four-1")


def act(weights, seen):
    scores = seen["observation"].reshape(-1) @ weights
    return int(np.where(seen["action_mask"], scores, -np.inf).argmax())


def play(match, own, other):
    game = connect_four_v3.env()
    game.reset(seed=match.seed % 2**31)
    sides = {"player_0": own, "player_1": other} if match.side == "home" else {"player_0": other, "player_1": own}
    for moves, agent in enumerate(game.agent_iter()):  # noqa: B007
        seen, reward, terminated, truncated, _ = game.last()
        if terminated or truncated:
            break
        game.step(act(sides[agent], seen))
    return (1 + (reward if sides[agent] is own else -reward)) / 2, moves


with attach(LEARNER, worker="bare-1") as session:
    rng = np.random.default_rng()
    own = rng.normal(size=(84, 7)).astype(np.float32)
    session.publish(save({"weights": own}), step=1)
    for _, match in zip(range(int(sys.argv[1])), session.matches(), strict=False):
        checkpoint = session.weights(match.opponent)
        other = rng.normal(size=(84, 7)) if checkpoint is None else load(checkpoint)["weights"]
        session.report(match, *play(match, own, other))
