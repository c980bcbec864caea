"""Does a league's learner of tic-tac-toe lose to a perfect player?

    python -m studies.perfect --seeds 3

A league server and one trainer for each seed, one after the other, with the preset as it is, until the trainer has had
so many CPU seconds. Every while its newest weights play 200 side-swapped matches, without chance of their own, against
a player that draws evenly among all moves that keep what a perfect player has, and every line of play that can be met
is counted in which they lose to anybody at all.
"""

import argparse
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from arena.environments.adapters.openspiel.declare import HEAD, observations, tree_of
from arena.environments.adapters.openspiel.tree import AWAY, HOME, NONE, GameTree
from arena.environments.base import Actions, Observation
from arena.errors import ArenaError
from arena.play.series import MatchSeries, play_series, resolve_policy
from arena.policies.greedy import greedy
from arena.policies.network_policy import NetworkPolicy
from arena.policies.protocol import State
from studies.league_value.conditions import Condition
from studies.league_value.training import Training
from league.cli.up.plan import trainees

GAME = "openspiel:tic_tac_toe"
MATCHES = 200
POLL_S = 1.0
LOOK_EVERY_S = 20.0


def main() -> None:
    """Train, play and print a line for every look."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--cpu-s", type=float, default=600.0, help="CPU seconds of each trainer")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="of the trainer")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and what was started with it
    torch.set_num_threads(1)
    tree = tree_of(GAME)
    perfect = PerfectPlayer(tree)
    print("| seed | CPU s | wall s | M steps | home: won, drawn, lost | away: won, drawn, lost | lines lost |")
    print("|---|---|---|---|---|---|---|")
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            watch(Path(folder), seed, arguments.cpu_s, arguments.set, perfect)


def watch(folder: Path, seed: int, most_cpu_s: float, settings: list[str], perfect: "PerfectPlayer") -> None:
    """Train with one seed, and look every while."""
    run = Training(
        GAME, Condition("main", trainees("main", league=False)), lambda _: [f"run.seed={seed}", *settings], folder
    )
    begun_s = time.monotonic()
    look_at_s, cpu_s, steps = begun_s + LOOK_EVERY_S, 0.0, 0

    def tell() -> None:
        look(run, perfect, f"{seed} | {cpu_s:.0f} | {time.monotonic() - begun_s:.0f} | {steps / 1e6:.2f}")

    run.start()
    try:
        while cpu_s < most_cpu_s and not run.finished():
            time.sleep(POLL_S)
            cpu_s, steps = max(cpu_s, cpu_seconds(run.processes["main"])), run.steps().get("main", 0)
            if time.monotonic() >= look_at_s:
                look_at_s = time.monotonic() + LOOK_EVERY_S
                tell()
    finally:
        run.stop()
    tell()


def look(run: Training, perfect: "PerfectPlayer", when: str) -> None:
    """Play with the newest weights, if there are any yet, and print what came of it."""
    try:
        learner = resolve_policy(GAME, str(run.run_folder("main")))
    except ArenaError:
        return
    assert isinstance(learner, NetworkPolicy)
    series = play_series(GAME, greedy(learner), perfect, matches=MATCHES, seed=0)
    lost = sum(lines_lost(perfect.tree, learner, side) for side in (HOME, AWAY))
    print(f"| {when} | {told(series, home=True)} | {told(series, home=False)} | {lost} |", flush=True)


def told(series: MatchSeries, *, home: bool) -> str:
    """Matches won, drawn and lost on a side."""
    scores = [match.score for match in series.matches if match.a_is_home is home]
    return ", ".join(str(scores.count(score)) for score in (1.0, 0.5, 0.0))


def cpu_seconds(process: int) -> float:
    """CPU seconds that a process has had; 0 when it has gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / 100.0


class PerfectPlayer:
    """Draws evenly among the moves after which it can still have what it could have before.

    Attributes:
        tree: Of the game; its two sides move one at a time, and chance does not.
    """

    def __init__(self, tree: GameTree) -> None:
        self.tree = tree
        seen, good = observations(tree), best_moves(tree)
        self._good = {row.tobytes(): torch.from_numpy(moves) for row, moves in zip(seen, good, strict=True)}
        self._any = torch.ones(good.shape[1], dtype=torch.bool)

    def initial_state(self, rows: int) -> State:
        """Nothing."""
        return ()

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Choose; see `Policy.act`."""
        rows = zip(observation.values.numpy(), observation.active.tolist(), strict=True)
        good = torch.stack([self._good[row.tobytes()] if active else self._any for row, active in rows])
        return {HEAD: torch.multinomial(good.float(), 1, generator=rng).squeeze(1)}, state


@dataclass(frozen=True)
class _Moves:
    """The move that leads to each node but the root: from where, who made it, in which information state, and which."""

    parent: NDArray[np.int64]
    mover: NDArray[np.int64]
    known: NDArray[np.int64]
    action: NDArray[np.int64]

    @classmethod
    def of(cls, tree: GameTree) -> "_Moves":
        mover = np.where(tree.acting[:, HOME], HOME, np.where(tree.acting[:, AWAY], AWAY, NONE))
        made_by = mover[tree.parent]
        choice = np.take_along_axis(tree.choice, made_by[:, None], axis=1)[:, 0]
        return cls(tree.parent, made_by, *np.divmod(choice, tree.legal.shape[1]))


def best_moves(tree: GameTree) -> NDArray[np.bool_]:
    """Of every information state (I, K) the moves after which its side can still have what it could have before."""
    moves = _Moves.of(tree)
    value = tree.home_return.copy()
    best = np.where(tree.acting[:, HOME], -np.inf, np.inf)
    for node in range(len(value) - 1, 0, -1):  # parents come before their children
        if not tree.terminal[node]:
            value[node] = best[node]
        parent = moves.parent[node]
        best[parent] = (max if moves.mover[node] == HOME else min)(best[parent], value[node])
    good = np.zeros(tree.legal.shape, dtype=np.bool_)
    keeps = value[1:] == best[moves.parent[1:]]
    good[moves.known[1:][keeps], moves.action[1:][keeps]] = True
    return good


@torch.inference_mode()
def lines_lost(tree: GameTree, learner: NetworkPolicy, side: int) -> int:
    """How many lines of play there are in which a learner without chance loses, whatever the other side does."""
    network, seen = learner.network, torch.from_numpy(observations(tree))
    nobody = torch.zeros(len(seen), dtype=torch.bool)
    parameters = network.step(seen, network.initial_state(len(seen)), nobody, ~nobody).parameters
    chosen = parameters.masked_fill(~torch.from_numpy(tree.legal), -torch.inf).argmax(dim=1).numpy()
    moves, met = _Moves.of(tree), np.ones(len(tree.parent), dtype=np.bool_)
    own = (moves.mover != side) | (moves.action == chosen[moves.known])
    for node in range(1, len(met)):
        met[node] = met[moves.parent[node]] and own[node]
    lost = (tree.home_return if side == HOME else -tree.home_return) < 0.0
    return int((met & tree.terminal & lost).sum())


if __name__ == "__main__":
    main()
