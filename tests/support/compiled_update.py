"""Acts and learns with and without compilation, in a process where nobody checks shapes; prints what must be the same.

Arguments: the backend, and units of the cores that are tried.
"""

import json
import sys
from itertools import product

import torch

from arena.policies.ensemble import ensemble
from arena.policies.nn.distributions import ActionLayout
from trainer.config.loading import resolve
from trainer.ppo.ppo import PPO
from trainer.runtime.benchmark.bench import SYNTHETIC, Bench, SyntheticSpec


def learn(backend: str, units: str, environment: str) -> tuple[Bench, dict[str, float | None]]:
    """A learner and figures after two updates in parts; their sizes differ, and so do their coefficients."""
    settings = [f"network.recurrent_size={units}", "network.encoder_sizes=[16]", f'ppo.compile="{backend}"']
    settings += [
        "environment.num_envs=8",
        "rollout.num_steps=32",
        "schedules.horizon_steps=1000",
        "ppo.micro_batch_size=40",
    ]
    bench = Bench(resolve(environment, None, settings), SyntheticSpec(end_chance=0.05))
    for _ in range(2):
        bench.collect()
        figures = bench.learner.learn(bench.rollout, lambda: False)
    return bench, figures


def main() -> None:
    """Compare."""
    backend, *sizes = sys.argv[1:]
    torch.set_num_threads(1)
    PPO._native_loss = lambda ppo: None  # the plain loss is compiled
    ensemble.make_native_backend = lambda *_: None  # as are plain decisions
    # Compiled code evaluates every head by itself. Heads that are joined are rounded differently.
    ActionLayout.groups = property(lambda layout: tuple((part,) for part in layout.parts))
    answers = {}
    for environment, units in product((SYNTHETIC, "mech-pack"), sizes):
        torch._dynamo.reset()
        (one, figures), (other, again) = (learn(each, units, environment) for each in ("none", backend))
        plain, compiled = one.learner.tensors(), other.learner.tensors()
        answers[f"{environment} {units}"] = {
            "fell_back": other.learner.ppo._compute_loss.fell_back,
            "decisions_fell_back": other.collector.workers[0].actor._decide.fell_back,
            "same_keys": list(plain) == list(compiled),
            "furthest": max(float((plain[name].double() - compiled[name].double()).abs().max()) for name in plain),
            "same_figures": figures.keys() == again.keys(),
        }
    print(json.dumps({"answers": answers, "breaks": len(torch._dynamo.utils.counters["graph_break"])}))  # noqa: T201


if __name__ == "__main__":
    main()
