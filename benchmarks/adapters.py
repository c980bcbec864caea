"""What it costs to play PettingZoo's games as environments of the arena, and what processes bring.

    python -m benchmarks.adapters

The first table: the same decisions of the same matches, played by the loop of PettingZoo's documentation and by the
environment, in this process, with one torch thread. Actions are drawn before. CPU seconds; both take turns, medians of
the repeats are printed. The second: decisions a second by the wall clock, played here and by processes, in two halves:
one is played while actions of the other are drawn, as a trainer does it. How many times one process two are is the
median of what each turn says, and its quartiles: clocks of shared machines change meanwhile.

`--table jax` compares games of pgx with one compiled JAX call per decision that steps the same matches and opens the
next ones, without torch. Process CPU seconds, because JAX computes in threads of its own.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from arena.environments import make
from arena.environments.adapters.pettingzoo.library import find_game
from arena.environments.adapters.pettingzoo.matches import LARGEST_SEED
from arena.environments.base import AwaitedEnvironment, Environment, supports
from arena.policies.scripted import RandomPolicy
from benchmarks import record

JAX_GAMES = ("pgx:connect_four", "pgx:tic_tac_toe")
JAX_MATCHES_AT_ONCE = 1024
JAX_STEPS = 100
GAMES = ("pettingzoo:connect_four_v3", "pettingzoo:tictactoe_v3", "mpe2:simple_tag_v3")
PROCESSES = (1, 2, 4)
MATCHES_AT_ONCE = 64
STEPS = 60
POOL_STEPS = 60
WARM_UP_STEPS = 10


@dataclass(frozen=True)
class Script:
    """Matches to play: the actions of every decision for the environment, and match by match for the plain loop.

    Attributes:
        name: Of the game.
        seed: Of the environment.
        actions: (E, N) of every decision.
        matches: Seed and actions of every match; those of all agents in a parallel game.
        sequential: Whether agents move one at a time.
    """

    name: str
    seed: int
    actions: list[Tensor]
    matches: list[tuple[int, list[Any]]]
    sequential: bool

    @property
    def decisions(self) -> int:
        """Of all matches together."""
        return len(self.actions) * MATCHES_AT_ONCE


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="at least 2")
    parser.add_argument("--table", choices=("cost", "processes", "both", "jax"), default="both")
    parser.add_argument("--games", nargs="+", default=GAMES, metavar="GAME")
    record.add_json_option(parser)
    arguments, rows = parser.parse_args(), []
    torch.set_num_threads(1)
    if arguments.table == "jax":
        compare_with_jax(arguments.repeats)
        return
    if arguments.table != "processes":
        print("| us per decision of a match | plain loop | environment | more |")
        print("|---|---|---|---|")
        for name in arguments.games:
            script = write_script(name, seed=0)
            plain, ours = medians(arguments.repeats, partial(play_plainly, script), partial(play_batched, script))
            print(f"| `{name}` | {plain:.1f} | {ours:.1f} | {100 * (ours / plain - 1):+.0f} % |")
            rows.append(
                {
                    "work": f"`{name}`, one decision by the adapter",
                    "measured": f"{ours:.1f} us",
                    "reference": f"its plain loop: {plain:.1f} us, {100 * (ours / plain - 1):+.0f} %",
                    "aim": "at most 15 % more",
                }
            )
        print()
    if arguments.table != "cost":
        print(
            f"| decisions/s in processes | in this one | {' | '.join(f'by {count}' for count in PROCESSES)} | 2 to 1 |"
        )
        print("|---|---|---|---|---|---|")
        for name in arguments.games:
            turns = in_turns(arguments.repeats, *(in_processes(name, count) for count in (0, *PROCESSES)))
            rates = " | ".join(f"{statistics.median(column):,.0f}" for column in zip(*turns, strict=True))
            low, middle, high = statistics.quantiles((turn[2] / turn[1] for turn in turns), n=4, method="inclusive")
            print(f"| `{name}` | {rates} | {middle:.2f} ({low:.2f} to {high:.2f}) |", flush=True)
            rows.append(
                {
                    "work": f"`{name}`, two processes to one",
                    "measured": f"{middle:.2f} ({low:.2f} to {high:.2f})",
                    "aim": "1.6",
                }
            )
    record.write(arguments.json, "adapters", rows)


def compare_with_jax(repeats: int) -> None:
    """Print decisions a second of the environment and of bare JAX."""
    print(f"| decisions/s, {JAX_MATCHES_AT_ONCE:,} matches at once | bare JAX | environment | ratio |")
    print("|---|---|---|---|")
    for name in JAX_GAMES:
        script = write_jax_script(name)
        plain, ours = medians(repeats, partial(play_bare_jax, script), partial(play_jax_environment, script))
        print(f"| `{name}` | {plain:,.0f} | {ours:,.0f} | {ours / plain:.2f} |", flush=True)


@dataclass(frozen=True)
class JaxScript:
    """Legal random actions (E, 2) of every decision, and the seeds of the matches that open behind it."""

    name: str
    env: Environment
    first_seeds: Tensor
    actions: list[Tensor]
    seeds: list[Tensor]


def write_jax_script(name: str) -> JaxScript:
    """Draw legal random actions."""
    env, rng = make(name, num_envs=JAX_MATCHES_AT_ONCE), torch.Generator().manual_seed(0)
    player, first = RandomPolicy(env.spec.heads), torch.arange(JAX_MATCHES_AT_ONCE)
    observation, actions, seeds = env.reset(first), [], []
    for _ in range(JAX_STEPS):
        rows = observation.side(slice(0, env.spec.num_agents))
        chosen, _ = player.act(rows, (), rows.active, rng)
        actions.append(chosen["action"].unflatten(0, (JAX_MATCHES_AT_ONCE, -1)))
        observation = env.step({"action": actions[-1]}).observation
        seeds.append(env.seeds.clone())
    return JaxScript(name, env, first, actions, seeds)


def play_jax_environment(script: JaxScript) -> float:
    """Decisions a second of CPU time in the environment, which opens its matches by the same seeds."""
    script.env.reset(script.first_seeds)
    start = time.process_time()
    for actions, seeds in zip(script.actions, script.seeds, strict=True):
        script.env.next_seeds.copy_(seeds)
        script.env.step({"action": actions})
    return JAX_STEPS * JAX_MATCHES_AT_ONCE / (time.process_time() - start)


def play_bare_jax(script: JaxScript) -> float:
    """Decisions a second of CPU time of one compiled JAX function."""
    import jax
    import jax.numpy as jnp

    init, advance = _bare_jax(script.name.partition(":")[2])

    def words(seeds: Tensor) -> Any:  # noqa: ANN401
        return jnp.asarray(seeds.view(torch.int32).reshape(-1, 2).numpy().view("uint32"))

    actions = [jnp.asarray(each.int().numpy()) for each in script.actions]
    keys = [words(each) for each in script.seeds]
    states = init(words(script.first_seeds))
    jax.block_until_ready(advance(states, actions[0], keys[0]))
    start = time.process_time()
    for taken, opening in zip(actions, keys, strict=True):
        states = jax.block_until_ready(advance(states, taken, opening))
    return JAX_STEPS * JAX_MATCHES_AT_ONCE / (time.process_time() - start)


@cache
def _bare_jax(game: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the compiled opening and step of a batch."""
    import jax
    import jax.numpy as jnp
    import pgx

    env = pgx.make(game)

    def advance(states: Any, actions: Any, keys: Any) -> Any:  # noqa: ANN401
        taken = jnp.take_along_axis(actions, states.current_player[:, None], 1)[:, 0]
        after, opened = jax.vmap(env.step)(states, taken), jax.vmap(env.init)(keys)

        def choose(one: Any, other: Any) -> Any:  # noqa: ANN401
            return jnp.where(after.terminated.reshape(-1, *(1,) * (one.ndim - 1)), one, other)

        return jax.tree.map(choose, opened, after)

    return jax.jit(jax.vmap(env.init)), jax.jit(advance)


def in_turns(repeats: int, *works: Callable[[], float]) -> list[list[float]]:
    """What all works say, turn by turn."""
    return [[work() for work in works] for _ in range(repeats)]


def medians(repeats: int, *works: Callable[[], float]) -> list[float]:
    """Median of what each work says; they take turns."""
    return [statistics.median(column) for column in zip(*in_turns(repeats, *works), strict=True)]


def write_script(name: str, seed: int) -> Script:
    """Draw legal random actions, and note whose they are."""
    env, rng = make(name, num_envs=MATCHES_AT_ONCE, seed=seed), torch.Generator().manual_seed(seed)
    player, observation = RandomPolicy(env.spec.heads), env.reset()
    script = Script(name, seed, [], [], env.spec.turn_based)
    open_matches: list[list[Any]] = [[] for _ in range(MATCHES_AT_ONCE)]
    for _ in range(STEPS):
        rows = observation.side(slice(0, env.spec.num_agents))
        chosen, _ = player.act(rows, (), rows.active, rng)
        actions = chosen["action"].unflatten(0, (MATCHES_AT_ONCE, -1))
        script.actions.append(actions)
        for match, active, taken in zip(open_matches, observation.active, actions, strict=True):
            match.append(int(taken[active]) if script.sequential else taken.tolist())
        seeds, step = env.seeds.clone(), env.step({"action": actions})
        for row in step.over.nonzero().flatten().tolist():
            script.matches.append((int(seeds[row]) & LARGEST_SEED, open_matches[row]))
            open_matches[row] = []
        observation = step.observation
    rest = zip(env.seeds.tolist(), open_matches, strict=True)
    script.matches.extend((seed & LARGEST_SEED, match) for seed, match in rest if match)
    return script


def play_batched(script: Script) -> float:
    """CPU microseconds of a decision of a match in the environment."""
    env = make(script.name, num_envs=MATCHES_AT_ONCE, seed=script.seed)
    start = time.thread_time()
    env.reset()
    for actions in script.actions:
        env.step({"action": actions})
    return 1e6 * (time.thread_time() - start) / script.decisions


def play_plainly(script: Script) -> float:
    """CPU microseconds of a decision of a match in the plain loop."""
    game = find_game(script.name).make()
    play = _play_in_turns if script.sequential else _play_at_once
    start = time.thread_time()
    for seed, actions in script.matches:
        play(game, seed, actions)
    return 1e6 * (time.thread_time() - start) / script.decisions


def _play_in_turns(game: Any, seed: int, actions: list[int]) -> None:  # noqa: ANN401  whatever has PettingZoo's interface
    game.reset(seed=seed)
    ahead = iter(actions)
    for _ in game.agent_iter():
        _, _, terminated, truncated, _ = game.last()
        if terminated or truncated:
            game.step(None)
            continue
        action = next(ahead, None)
        if action is None:
            return
        game.step(action)


def _play_at_once(game: Any, seed: int, actions: list[list[int]]) -> None:  # noqa: ANN401
    game.reset(seed=seed)
    for taken in actions:
        game.step(dict(zip(game.agents, taken, strict=True)))


def in_processes(name: str, processes: int) -> Callable[[], float]:
    """Says how many decisions of matches a second so many processes play, by the wall clock."""
    env, rng = make(name, num_envs=MATCHES_AT_ONCE, processes=processes), torch.Generator().manual_seed(0)
    batches = env.halves() if supports(env, AwaitedEnvironment) else [env]
    return partial(play_in_turn, [Batch(each, rng) for each in batches])


class Batch:
    """Matches that are played by legal random actions, a decision at a time, as a trainer's are.

    Args:
        env: Their environment.
        rng: Where actions come from.
    """

    def __init__(self, env: Environment, rng: torch.Generator) -> None:
        self._env, self._rng, self._player = env, rng, RandomPolicy(env.spec.heads)
        self._awaited = env if supports(env, AwaitedEnvironment) else None
        self._shown = env.reset()

    def decide(self) -> None:
        """Draw actions, and have them played where others do that."""
        rows = self._shown.side(slice(0, self._env.spec.num_agents))
        chosen, _ = self._player.act(rows, (), rows.active, self._rng)
        self._actions = {name: taken.unflatten(0, (self._env.num_envs, -1)) for name, taken in chosen.items()}
        if self._awaited is not None:
            self._awaited.send(self._actions)

    def conclude(self) -> None:
        """Take what came of it."""
        step = self._env.step(self._actions) if self._awaited is None else self._awaited.receive()
        self._shown = step.observation


def play_in_turn(batches: Sequence[Batch]) -> float:
    """Decisions of matches a second, drawn actions included: one batch is played while actions of another are drawn."""
    for batch in batches:
        batch.decide()
    for _ in range(WARM_UP_STEPS):
        _go_on(batches)
    start = time.perf_counter()
    for _ in range(POOL_STEPS):
        _go_on(batches)
    took_s = time.perf_counter() - start
    for batch in batches:
        batch.conclude()
    return POOL_STEPS * MATCHES_AT_ONCE / took_s


def _go_on(batches: Sequence[Batch]) -> None:
    for batch in batches:
        batch.conclude()
        batch.decide()


if __name__ == "__main__":
    main()
