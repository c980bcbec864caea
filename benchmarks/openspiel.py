"""How fast OpenSpiel's games are as environments, and their exact values, beside OpenSpiel itself in the same run.

    python -m benchmarks.openspiel

One core, one torch thread, CPU seconds. Both sides step with legal random actions, drawn outside the timed part. Timed
is what a learner needs: apply the actions, let chance act, and tell whoever acts then its information state (as
a tensor) and its legal actions. Every repeat measures all rows one after the other; medians are printed.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pyspiel
import torch

from arena.environments import declare, make
from arena.environments.adapters.openspiel.declare import tree_of
from arena.environments.adapters.openspiel.library import load_game
from arena.environments.adapters.openspiel.tree import unroll
from arena.exploitability import SequenceForm, exploitability, uniform
from arena.exploitability.tabular_policy import to_tabular_policy
from arena.play.throughput import measure
from arena.policies import ActorCritic, Architecture
from benchmarks import record

GAMES = ("openspiel:kuhn_poker", "openspiel:leduc_poker", "openspiel:liars_dice(dice_sides=4)")
MATCHES_AT_ONCE = 1024
STEPS = 200
LIBRARY_STEPS = 20_000
RECURRENT_SIZE = 64


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    record.add_json_option(parser)
    arguments = parser.parse_args()
    repeats, rows = arguments.repeats, []
    torch.set_num_threads(1)

    print(f"| decisions/s | {MATCHES_AT_ONCE:,} matches at once | OpenSpiel, one after the other | ratio |")
    print("|---|---|---|---|")
    for name in GAMES:
        ours, theirs = medians(repeats, partial(batched, name), partial(one_by_one, name))
        print(f"| `{name}` | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.1f} |")
        rows.append(
            {
                "work": f"`{name}`, {MATCHES_AT_ONCE:,} at once, decisions/s",
                "measured": f"{ours:,.0f}",
                "reference": f"OpenSpiel: {theirs:,.0f}, {ours / theirs:.1f}",
            }
        )
    print()
    print(
        "| ms | unrolling | sequence form | table of a network | exploitability | OpenSpiel's exploitability | ratio |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in GAMES:
        row = [1000.0 * each for each in medians(repeats, *exact_values(name))]
        print(f"| `{name}` | {' | '.join(f'{each:.2f}' for each in row)} | {row[-1] / row[-2]:.0f} |")
        rows.append(
            {
                "work": f"`{name}`, exact exploitability",
                "measured": f"{row[-2]:.2f} ms",
                "reference": f"OpenSpiel: {row[-1]:.2f} ms, {row[-1] / row[-2]:.0f}",
            }
        )
    record.write(arguments.json, "openspiel", rows)


def medians(repeats: int, *works: Callable[[], float]) -> list[float]:
    """Median of what each work says; they take turns."""
    return [
        statistics.median(column) for column in zip(*([work() for work in works] for _ in range(repeats)), strict=True)
    ]


def batched(name: str) -> float:
    """Decisions a second of the environment."""
    env, rng = make(name, num_envs=MATCHES_AT_ONCE), torch.Generator().manual_seed(0)
    return measure(env, steps=STEPS, repeats=1, clock=time.thread_time, rng=rng).env_steps_per_s


def one_by_one(name: str) -> float:
    """Decisions a second of OpenSpiel's own states, from Python."""
    game, rng, seconds = load_game(name), random.Random(0), 0.0
    state, legal = perceive(game.new_initial_state(), rng)
    for _ in range(LIBRARY_STEPS):
        action = rng.choice(legal)
        start = time.thread_time()
        state.apply_action(action)
        if state.is_terminal():
            state.returns()
            state = game.new_initial_state()
        state, legal = perceive(state, rng)
        seconds += time.thread_time() - start
    return LIBRARY_STEPS / seconds


def perceive(state: pyspiel.State, rng: random.Random) -> tuple[pyspiel.State, list[int]]:
    """Let chance act, then tell whoever acts what it knows and may do."""
    while state.is_chance_node():
        outcomes, probabilities = zip(*state.chance_outcomes(), strict=True)
        state.apply_action(rng.choices(outcomes, probabilities)[0])
    state.information_state_tensor()
    return state, state.legal_actions()


def exact_values(name: str) -> list[Callable[[], float]]:
    """Seconds that each part takes once."""
    game, tree = load_game(name), tree_of(name)
    form = SequenceForm.of(tree)
    policy, theirs = uniform(form), pyspiel.UniformRandomPolicy(game)
    network = ActorCritic(Architecture.of(declare(name), recurrent_size=RECURRENT_SIZE))
    assert np.isclose(exploitability(form, policy), pyspiel.exploitability(game, theirs))
    works: list[Callable[[], object]] = [
        lambda: unroll(name, game),
        lambda: SequenceForm.of(tree),
        lambda: to_tabular_policy(network, name),
        lambda: exploitability(form, policy),
        lambda: pyspiel.exploitability(game, theirs),
    ]
    return [partial(timed, work) for work in works]


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


if __name__ == "__main__":
    main()
