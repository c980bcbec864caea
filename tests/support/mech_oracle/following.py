"""Following a batch decision by decision: the oracle sets out from every row, and must arrive where the row does."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from mech_oracle.comparing import look_differences, state_differences, view_differences
from mech_oracle.loading import load
from mech_oracle.match import Decided, decide, perceive, start
from mech_oracle.orders import Order
from mech_oracle.state import State
from mech_oracle.world import World
from numpy.typing import NDArray

from arena.environments.base import Actions, Observation, StepResult
from arena.environments.mech.config.constants import COMM_SIZE
from arena.environments.mech.env import MechEnvironment

Arrays = dict[str, NDArray[Any]]


@dataclass
class Tally:
    """What came of following a batch.

    Attributes:
        decisions: Match decisions compared.
        on_edges: Those of them that hold a comparison on an edge.
        excused: Those of them that differ, but hold a comparison on an edge.
        differences: What differs without such an excuse.
        seen: How often things happened that the rules speak of.
    """

    decisions: int = 0
    on_edges: int = 0
    excused: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)


class Follower:
    """Steps a batch and compares every row of it with the oracle."""

    def __init__(self, env: MechEnvironment, world: World) -> None:
        self.env, self.world, self.tally = env, world, Tally()
        self.after: Arrays = {}
        env.on_decided.append(self._keep)

    def _keep(self) -> None:
        self.after = snapshot(self.env)

    def step(self, actions: Actions) -> StepResult:
        """Play one decision and compare."""
        before = snapshot(self.env)
        step = self.env.step(actions)
        opened = snapshot(self.env)
        ended = (step.terminated | step.truncated).tolist()
        for row in range(self.env.num_envs):
            self._compare(row, before, orders(actions, row), step)
            if ended[row]:
                self._compare_opening(row, opened, step.observation)
        return step

    def _compare(self, row: int, before: Arrays, told: list[Order], step: StepResult) -> None:
        state = load(self.world, before, row)
        decided = decide(state, told, self.env.weights)
        after = {name: array[row] for name, array in self.after.items()}
        found = state_differences(state, after) + self._report_differences(row, decided, step)
        counted = (after["nan_actions"] - before["nan_actions"][row]).tolist()
        if counted != [order.nan for order in told]:
            found.append(f"NaN actions: batch {counted}")
        self.tally.decisions += 1
        self._note(row, state, found)
        self.tally.on_edges += bool(state.edges.met)
        self._count(state, decided)
        arrived = load(self.world, self.after, row)
        self._note(row, arrived, self._perception_differences(row, arrived, after, step.final_observation))

    def _report_differences(self, row: int, decided: Decided, step: StepResult) -> list[str]:
        verdict, found = decided.verdict, []
        got = (bool(step.terminated[row]), bool(step.truncated[row]))
        expected = (verdict is not None and not verdict.truncated, verdict is not None and verdict.truncated)
        if got != expected:
            found.append(f"(terminated, truncated): batch {got}, oracle {expected}")
        elif verdict is not None:
            reason = self.env.spec.reasons[int(step.outcome.reason[row])]
            ending = (float(step.outcome.score[row]), reason)
            if ending != (verdict.score, verdict.reason):
                found.append(f"outcome: batch {ending}, oracle {verdict}")
        components = self.env.components[row].numpy()
        for i, k in np.argwhere(~(np.abs(components - decided.components) <= 2e-3)):
            name = self.env.component_names[k]
            found.append(f"{name} of {i}: batch {components[i, k]}, oracle {decided.components[i, k]}")
        reward = step.reward[row].numpy()
        if not bool((np.abs(reward - decided.rewards) <= 5e-3).all()):
            found.append(f"reward: batch {reward}, oracle {decided.rewards}")
        return found

    def _perception_differences(self, row: int, state: State, arrays: Arrays, observation: Observation) -> list[str]:
        perceived = perceive(state)
        masks = {name: mask[row].numpy() for name, mask in observation.masks.items()}
        values, active = observation.values[row].numpy(), observation.active[row].numpy()
        return look_differences(state, arrays) + view_differences(
            perceived, values, masks, active, self.env.spec.layout
        )

    def _compare_opening(self, row: int, opened: Arrays, observation: Observation) -> None:
        arrays = {name: array[row] for name, array in opened.items()}
        state = start(self.world, int(arrays["seeds"]), maps=int(arrays["maps"]), mechs=int(arrays["mechs"]))
        state.own_share = float(arrays["own_share"])
        for mech in state.mechs:
            mech.acted = bool(arrays["acted"][mech.hull.index])
        found = [each for each in state_differences(state, arrays) if each.split(":")[0] not in BOOKS]
        found += self._perception_differences(row, state, arrays, observation)
        self._note(row, state, found)

    def _note(self, row: int, state: State, found: list[str]) -> None:
        if found and state.edges.met:
            self.tally.excused.append(f"{sorted(set(state.edges.met))}: {found[:4]}")
        elif found:
            self.tally.differences.append(f"decision {state.decision} of row {row}: " + "; ".join(found[:6]))

    def _count(self, state: State, decided: Decided) -> None:
        seen = self.tally.seen
        seen.update(state.happened)
        seen["deaths"] += sum(mech.acted and not mech.alive for mech in state.mechs)
        seen["wrecks"] += sum(mech.wreck for mech in state.mechs)
        seen["falls"] += sum(mech.fallen for mech in state.mechs)
        seen["legged"] += sum(mech.alive and mech.legged for mech in state.mechs)
        seen["shut down"] += sum(mech.alive and mech.shut_down for mech in state.mechs)
        seen["painted"] += sum(mech.painted_by >= 0 for mech in state.mechs)
        seen["suppressed"] += sum(mech.suppressed for mech in state.mechs)
        seen["downed missiles"] += int(state.books.intercepted.sum())
        seen["burnt"] += int((state.books.terrain_damage > 0.0).sum())
        seen["airborne"] += sum(mech.alive and mech.velocity[2] > 0.0 for mech in state.mechs)
        seen["clouds"] += sum(cloud.left > 0 for side in state.smoke for cloud in side)
        seen["assists"] += int((state.books.assists > 0.0).sum())
        sides = np.array([mech.hull.side for mech in state.mechs])
        seen["friendly fire"] += int((state.books.dealt[sides[:, None] == sides] > 0.0).sum())
        if decided.verdict is not None:
            seen[decided.verdict.reason] += 1


BOOKS = ("dealt", "killed", "assists", "terrain_damage", "raw_damage", "hitscan_hits", "intercepted", "paints")


class FreeRunner:
    """Plays a batch's matches along with it from their seeds alone, each until a comparison lies on an edge.

    Attributes:
        running: Matches by row that are still played along.
        decisions: Match decisions compared.
        differences: What differed.
    """

    def __init__(self, env: MechEnvironment, world: World) -> None:
        self.env, self.decisions, self.differences = env, 0, list[str]()
        env.on_decided.append(self._keep)
        self.running: dict[int, State] = {}
        for row, seed in enumerate(env.seeds.tolist()):
            state = start(world, seed, maps=int(env.arrays["maps"][row]), mechs=int(env.arrays["mechs"][row]))
            state.own_share = float(env.arrays["own_share"][row])
            perceive(state)
            self.running[row] = state

    def _keep(self) -> None:
        self.after = snapshot(self.env)

    def step(self, actions: Actions) -> None:
        """Play one decision and compare."""
        self.env.step(actions)
        for row, state in list(self.running.items()):
            decided = decide(state, orders(actions, row), self.env.weights)
            perceive(state)
            if state.edges.met or decided.verdict is not None:
                del self.running[row]
                continue
            self.decisions += 1
            arrays = {name: array[row] for name, array in self.after.items()}
            found = state_differences(state, arrays) + look_differences(state, arrays)
            self.differences += [f"decision {state.decision} of row {row}: {each}" for each in found]


def snapshot(env: MechEnvironment) -> Arrays:
    """Copies of the batch's arrays."""
    return {name: tensor.numpy().copy() for name, tensor in env.arrays.items()}


def orders(actions: Actions, row: int) -> list[Order]:
    """Actions of one row, mech by mech."""
    count = actions["target"].shape[1]
    ewar = actions["ewar"][row].tolist() if "ewar" in actions else [0] * count
    build = actions["build"][row].tolist() if "build" in actions else [0] * count
    comm = actions["comm"][row].tolist() if "comm" in actions else torch.zeros(count, COMM_SIZE).tolist()
    columns = (actions["move"][row].tolist(), actions["trigger"][row].tolist(), actions["target"][row].tolist())
    return [Order(*each) for each in zip(*columns, ewar, build, comm, strict=True)]
