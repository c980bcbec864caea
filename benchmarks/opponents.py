"""What many different opponents cost: one call for all of them against one opponent on as many rows, in the same run.

    OMP_NUM_THREADS=1 python -m benchmarks.opponents

Frozen recurrent policies (encoder 128, LSTM 128) act for 64, 256 and 1,280 rows of a small and of a large game, masks
and sampling included; rows are dealt to opponents at random. The last ratio compares 16 opponents of a trainer in ONNX
with the same 16 as checkpoints of ours. Every variant is timed in every round, as some calls one
after the other, as in a rollout, and medians are taken; ratios are medians of the rounds' ratios. Before anything is
timed, one call must equal the policies alone: parameters and state to 1e-5.
"""

import argparse
import io
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from arena.environments import EnvironmentSpec, HeadKind
from arena.environments.base import Observation
from arena.environments.mech.config.scenario import PRESETS
from arena.environments.mech.observation_spec import make_spec
from arena.policies import ActorCritic, Architecture, NetworkPolicy, RecurrentState
from arena.policies.ensemble.ensemble import PolicyEnsemble
from arena.policies.ensemble.torch_backend import TorchBackend
from arena.policies.onnx.policy import decode_model
from arena.policies.protocol import Policy
from benchmarks import record
from trainer.opponents.agent_index import AgentIndex
from trainer.opponents.batch import OpponentBatch
from trainer.opponents.pool import Opponent

GAMES = ("mech-duel", "mech-company")
ROWS = (64, 256, 1280)
DISTINCT = (1, 4, 16, 64)
ROWS_TIMED = 4096
"""Rows of all calls that are timed one after the other."""

AGREEMENT = 1e-5
HOST = torch.device("cpu")


@dataclass(frozen=True)
class BattleSetup:
    """Rows about to act, and whom they may play."""

    spec: EnvironmentSpec
    networks: list[ActorCritic]
    observation: Observation
    state: RecurrentState
    starts: torch.Tensor
    rng: torch.Generator

    @property
    def rows(self) -> int:
        return len(self.starts)


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", nargs="+", default=GAMES, choices=list(PRESETS))
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--rounds", type=int, default=21)
    record.add_json_option(parser)
    arguments, results = parser.parse_args(), []

    print(f"one decision in microseconds, {torch.get_num_threads()} thread(s), torch {torch.__version__}")
    print(f"{'game':13}{'rows':>5}{'one policy':>12}{'16 apart':>10}{'':3}", end="")
    print(
        "".join(f"{f'{count} in one':>11}" for count in DISTINCT),
        f"{'16 : 1':>8}{'torch 16 : 1':>14}{'ONNX : ours':>13}{'error':>9}",
    )
    for game in arguments.games:
        for rows in arguments.rows:
            scene = make_scene(make_spec(PRESETS[game]), rows)
            error = largest_error(scene)
            if error > AGREEMENT:
                raise SystemExit(f"one call differs by {error:.1e} from the policies alone: its speed says nothing")
            times = timed_rounds(variants(scene), arguments.rounds, max(4, ROWS_TIMED // rows))
            report(game, scene, error, times)
            results.append(
                {
                    "work": f"`{game}`, {rows} rows: 16 different opponents in place of one",
                    "measured": f"{ratio(times, '16 in one', '1 in one'):.2f}",
                    "aim": "1.3",
                }
            )
            results.append(
                {
                    "work": f"`{game}`, {rows} rows: 16 ONNX opponents in place of 16 of ours",
                    "measured": f"{ratio(times, '16 ONNX', '16 ours'):.2f}",
                    "aim": "3",
                }
            )
    record.write(arguments.json, "opponents", results)


def make_scene(spec: EnvironmentSpec, rows: int) -> BattleSetup:
    """Opponents that differ in every number, and rows in the middle of their episodes."""
    torch.manual_seed(0)
    networks = [make_network(Architecture.of(spec)) for _ in range(max(DISTINCT))]
    masks = {head.name: torch.rand(rows, head.size) < 0.7 for head in spec.heads if head.masked}
    for mask in masks.values():
        mask[:, 0] = True
    values, active = torch.randn(rows, spec.observation_size), torch.ones(rows, dtype=torch.bool)
    state = RecurrentState(*(torch.tanh(torch.randn_like(part)) for part in networks[0].initial_state(rows)))
    return BattleSetup(
        spec, networks, Observation(values, masks, active), state, torch.rand(rows) < 0.01, torch.Generator()
    )


def make_network(architecture: Architecture) -> ActorCritic:
    network = ActorCritic(architecture).eval()
    for parameter in network.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    network.observation_mean.normal_()
    network.observation_std.uniform_(0.5, 2.0)
    return network


def deal(rows: int, distinct: int) -> torch.Tensor:
    """A random opponent for every row; as many of them as there can be have one."""
    slots = torch.randint(0, distinct, (rows,))
    slots[torch.randperm(rows)[:distinct]] = torch.arange(distinct)[: min(rows, distinct)]
    return slots


def variants(scene: BattleSetup) -> dict[str, Callable[[], object]]:
    """Everything that is timed, by name."""
    stack = PolicyEnsemble(scene.networks[0].architecture, len(scene.networks), HOST)
    for slot, network in enumerate(scene.networks):
        stack.put(slot, network)

    def together(slots: torch.Tensor) -> Callable[[], object]:
        assignment = stack.assign_rows(slots)
        return lambda: stack.act(scene.observation, scene.state, scene.starts, assignment, scene.rng)

    one = {f"{count} in one": together(deal(scene.rows, count)) for count in DISTINCT}
    torch_only = {f"torch {count}": torch_step(scene, deal(scene.rows, count)) for count in (1, 16)}
    everybody = torch.zeros(scene.rows, dtype=torch.int64)
    ours = [NetworkPolicy(network, scene.spec.name, scene.spec.signature) for network in scene.networks[:16]]
    return {
        "one policy": apart(scene, everybody),
        "16 apart": apart(scene, deal(scene.rows, 16)),
        **one,
        **torch_only,
        "16 ours": as_opponents(scene, ours),
        "16 ONNX": as_opponents(scene, [decode_model(scene.spec, export(each)) for each in scene.networks[:16]]),
    }


def as_opponents(scene: BattleSetup, policies: Sequence[Policy]) -> Callable[[], object]:
    """The opponents of a trainer with as many rows, from observations of all agents to their actions."""
    torch.manual_seed(1)
    spec, num_envs = scene.spec, scene.rows // max(scene.spec.agents_per_side)
    opponents = OpponentBatch(AgentIndex(spec, num_envs, HOST), 2**30)
    slots = deal(num_envs, len(policies)).tolist()
    opponents.assign({row: Opponent(str(slot), str(slot), policies[slot]) for row, slot in enumerate(slots)})
    shape = (num_envs, spec.num_agents)
    masks = {head.name: torch.rand(*shape, head.size) < 0.7 for head in spec.heads if head.masked}
    active = torch.ones(shape, dtype=torch.bool)
    seen = Observation(torch.randn(*shape, spec.observation_size), masks, active)
    starts = torch.rand(num_envs) < 0.01
    return lambda: opponents.act(seen, starts, scene.rng).by_head()


class Exported(torch.nn.Module):
    """One decision of a network, with inputs and outputs as a model of a user has them."""

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        self.network = network

    def forward(self, observation: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features, members = self.network._encode(observation)
        output, state = self.network.core.step(features, RecurrentState(hidden, cell))
        parameters, answers = self.network._heads(output, members).parameters, []
        for part in self.network.layout.parts:
            columns = parameters[:, part.parameters]
            answers.append(columns.tanh() if part.head.kind is HeadKind.GAUSSIAN else columns)
        return *answers, *state


def export(network: ActorCritic) -> bytes:
    """The network as an ONNX model; masks are left to the worker that samples."""
    sizes = {"observation": network.architecture.observation_size, "hidden": 128, "cell": 128}
    heads = network.architecture.heads
    outputs = [head.name if head.kind is HeadKind.GAUSSIAN else f"{head.name}_logits" for head in heads]
    outputs += ["next_hidden", "next_cell"]
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter is much faster and writes the same operators
        torch.onnx.export(
            Exported(network),
            tuple(torch.zeros(2, size) for size in sizes.values()),
            file,  # type: ignore[arg-type]  # the older exporter writes to files in memory, too
            input_names=list(sizes),
            output_names=outputs,
            dynamic_axes={name: {0: "agents"} for name in (*sizes, *outputs)},
            dynamo=False,
        )
    return file.getvalue()


def apart(scene: BattleSetup, slots: torch.Tensor) -> Callable[[], object]:
    """A call for every policy, each on rows that already lie together."""
    parts = []
    for slot in slots.unique().tolist():
        own = (slots == slot).nonzero().squeeze(1)
        policy = NetworkPolicy(scene.networks[slot], "", "")
        state = RecurrentState(*(part[own] for part in scene.state))
        parts.append((policy, scene.observation.rows(own), state, scene.starts[own]))
    return lambda: [policy.act(seen, state, starts, scene.rng) for policy, seen, state, starts in parts]


def torch_step(scene: BattleSetup, slots: torch.Tensor) -> Callable[[], object]:
    """The networks alone as batched products in torch: what a device without the fused kernel runs."""
    networks = TorchBackend(scene.networks[0].architecture, int(slots.max()) + 1, HOST)
    for slot in range(networks.slots):
        networks.put(slot, scene.networks[slot])
    step, seen = networks.step_for(slots), scene.observation
    return torch.inference_mode()(lambda: step(seen.values, scene.state, scene.starts, seen.active))


@torch.inference_mode()
def largest_error(scene: BattleSetup) -> float:
    """Between one call and a call for every policy, in parameters and state."""
    slots, errors = deal(scene.rows, 16), []
    stack = PolicyEnsemble(scene.networks[0].architecture, 16, HOST)
    for slot in range(16):
        stack.put(slot, scene.networks[slot])
    seen = scene.observation
    one = stack.assign_rows(slots).step(seen.values, scene.state, scene.starts, seen.active)
    for slot in range(16):
        own, network = (slots == slot).nonzero().squeeze(1), scene.networks[slot]
        view, state = seen.rows(own), RecurrentState(*(part[own] for part in scene.state))
        alone = network.step(view.values, state, scene.starts[own], view.active)
        pairs = zip((one.parameters, *one.state), (alone.parameters, *alone.state), strict=True)
        errors += [float((part[own] - expected).abs().max()) for part, expected in pairs]
    return max(errors)


def timed_rounds(variants: Mapping[str, Callable[[], object]], rounds: int, calls: int) -> dict[str, list[float]]:
    """CPU microseconds of a call of every variant in every round; the first call of a round is not timed."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, call in variants.items():
            call()
            start = time.process_time()  # of one thread, so that other jobs do not count
            for _ in range(calls):
                call()
            times[name].append(1e6 * (time.process_time() - start) / calls)
    return times


def report(game: str, scene: BattleSetup, error: float, times: Mapping[str, list[float]]) -> None:
    median = {name: statistics.median(each) for name, each in times.items()}
    print(f"{game:13}{scene.rows:>5}{median['one policy']:>12,.0f}{median['16 apart']:>10,.0f}{'':3}", end="")
    print("".join(f"{median[f'{count} in one']:>11,.0f}" for count in DISTINCT), end=" ")
    print(f"{ratio(times, '16 in one', '1 in one'):>8.2f}{ratio(times, 'torch 16', 'torch 1'):>14.2f}", end="")
    print(f"{ratio(times, '16 ONNX', '16 ours'):>13.2f}{error:>9.0e}")


def ratio(times: Mapping[str, list[float]], some: str, one: str) -> float:
    """Median of the ratios of neighbouring measurements."""
    return statistics.median(a / b for a, b in zip(times[some], times[one], strict=True))


if __name__ == "__main__":
    main()
