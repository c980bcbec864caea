"""How many rating matches an evaluator plays: pair by pair, or of many pairs at once.

    python -m studies.evaluators

Players are networks as a trainer makes them, untrained unless checkpoints are given; everybody meets somebody else, on
both sides. Leasing and reporting are left out.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from arena.environments import declare
from arena.play.runner import play, play_pairs
from arena.play.series import resolve_policy
from arena.policies import ActorCritic, Architecture, NetworkPolicy
from arena.policies.protocol import Policy
from trainer.config.loading import resolve

Pair = tuple[Policy, Policy]


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", default="mech-duel")
    parser.add_argument("--players", type=int, default=20, help="untrained ones, where no checkpoints are given")
    parser.add_argument("--checkpoints", nargs="+", default=[], help="players")
    parser.add_argument("--pairs", type=int, default=64, help="a batch of them: two matches each")
    parser.add_argument("--budget", type=int, default=8, help="matches of a pair on a side, where pairs are alone")
    parser.add_argument("--seconds", type=float, default=5.0, help="processor seconds of a row, at least")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    players = [resolve_policy(arguments.environment, each) for each in arguments.checkpoints] or [
        beginner(arguments.environment, seed) for seed in range(arguments.players)
    ]
    pairs = [(players[n % len(players)], players[(n + 1) % len(players)]) for n in range(arguments.pairs)]
    ways: dict[str, Callable[[], int]] = {
        f"pair by pair, {arguments.budget} matches a side": partial(
            one_by_one, arguments.environment, pairs, arguments.budget
        ),
        f"{arguments.pairs} pairs at once, a match a side": partial(together, arguments.environment, pairs),
    }
    print(f"rating matches of {len(players)} players in {arguments.environment}, one thread, processor seconds")
    for name, way in ways.items():
        print(f"{name:40}{matches_per_s(way, arguments.seconds):>8.1f} matches/s", flush=True)


def beginner(environment: str, seed: int) -> NetworkPolicy:
    """Return an untrained player with the network of the environment's preset."""
    spec, network = declare(environment), resolve(environment, None, []).network
    torch.manual_seed(seed)
    architecture = Architecture.of(spec, encoder_sizes=network.encoder_sizes, recurrent_size=network.recurrent_size)
    return NetworkPolicy(ActorCritic(architecture), environment, spec.signature)


def one_by_one(environment: str, pairs: Sequence[Pair], budget: int) -> int:
    """Play some matches of a pair on each side; return how many."""
    home, away = pairs[0]
    rng = torch.Generator().manual_seed(0)
    return sum(len(play(environment, *pair, range(budget), rng)) for pair in ((home, away), (away, home)))


def together(environment: str, pairs: Sequence[Pair]) -> int:
    """Play a match of every pair on each side, all at once; return how many."""
    swapped = [(away, home) for home, away in pairs]
    seeds = [*range(len(pairs))] * 2
    return len(play_pairs(environment, [*pairs, *swapped], seeds, torch.Generator().manual_seed(0)))


def matches_per_s(way: Callable[[], int], least_s: float) -> float:
    """Repeat for so many processor seconds, after once for warming up."""
    way()
    start_s, matches = time.process_time(), 0
    while (used_s := time.process_time() - start_s) < least_s:
        matches += way()
    return matches / used_s


if __name__ == "__main__":
    main()
