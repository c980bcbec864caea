r"""How many steps an exploiter needs to find what can be won of fixed weights.

    python -m studies.league_value.finding var/runs/openspiel+kuhn_poker/main --game openspiel:kuhn_poker \
        --set environment.num_envs=64

It begins with fresh weights and meets nobody else; no league is asked. Printed is the share of what a best response
wins that it wins after so many steps.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from arena.environments import make
from arena.play.series import resolve_policy
from arena.policies import NetworkPolicy
from studies.league_value.games import game_of
from studies.league_value.measures import lead
from fake_games import ScriptedDealer, never
from trainer.config.loading import resolve
from trainer.opponents.pool import Opponent
from trainer.ppo.learner import Learner
from trainer.rollout.collector import RolloutCollector

MARKS = (50_000, 100_000, 200_000, 400_000)


def main() -> None:
    """Train an exploiter and print what it wins at every mark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("player", type=Path, help="checkpoint or run folder of whom to exploit")
    parser.add_argument("--game", default="openspiel:kuhn_poker", help="rps, or a game of OpenSpiel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="setting of the exploiter; repeatable"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    target = resolve_policy(arguments.game, str(arguments.player))
    if not isinstance(target, NetworkPolicy):
        parser.error(f"{arguments.player} is no network: give the path of a checkpoint or of a run folder")
    print("| steps | found |\n|---|---|")
    settings = ["environment.self_play=0.0", f"run.seed={arguments.seed}", *arguments.set]
    for steps, share in findings(target, arguments.game, settings, MARKS):
        print(f"| {steps:,} | {share:.0%} |", flush=True)


def findings(
    target: NetworkPolicy, name: str, settings: list[str], marks: Sequence[int]
) -> Iterator[tuple[int, float]]:
    """Train against a target; yield steps and the share of its best response's gain, once past every mark."""
    config, game = resolve(name, None, settings), game_of(name)
    env = make(name, num_envs=config.environment.num_envs, seed=config.run.seed)
    learner, dealer = Learner(config, env.spec), ScriptedDealer([Opponent("target", "target", target)])
    collector = RolloutCollector(
        [env],
        learner.network,
        dealer,
        lambda _episode: None,
        learner.rng,
        self_play=config.environment.self_play_rows,
        device_cache_bytes=0,
    )
    policy, rollout, steps = game.tabulate(target.network), learner.allocate(), 0
    best = game.exploitability(policy)
    for mark in marks:
        while steps < mark:
            collector.collect(rollout, never)
            learner.learn(rollout, never)
            steps += config.environment.num_envs * config.rollout.num_steps
        yield steps, lead(game, np.stack([game.tabulate(learner.network), policy]))[0, 1] / best


if __name__ == "__main__":
    main()
