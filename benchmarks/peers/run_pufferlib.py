"""PufferLib 3.0 on the work of `benchmarks.trainer`: its `PuffeRL`, its default policy and its LSTM wrapper.

    python -m venv pufferlib
    pufferlib/bin/pip install torch numpy setuptools wheel ninja      # and a C++ compiler
    pufferlib/bin/pip install --no-build-isolation pufferlib==3.0.0

Building it downloads raylib for its own games. Where that cannot be had, unpack the source distribution, write
`c_extension_paths = []` beside `c_extensions = []` in its setup.py (NO_OCEAN=1 forgets it) and

    NO_OCEAN=1 pufferlib/bin/pip install --no-deps --no-build-isolation ./pufferlib-3.0.0
    pufferlib/bin/pip install "numpy<2" gymnasium==0.29.1 gym==0.23 pettingzoo==1.24.1 "shimmy[gym-v21]" \
        psutil pynvml rich rich_argparse imageio pyro-ppl

Settings are its defaults (default.ini) with the work's sizes, Adam instead of Muon, and no annealing. Its horizon is
64, so the update starts from a zero state in the middle of the rollout. With 128 it covers the whole rollout and agrees
with it. Neither resets the state at the end of an episode. Set `PUFFER_HORIZON` in the environment to choose.

The first minibatch's ratio is what `PuffeRL.train` itself stores (`self.ratio`), read at the optimiser's first step.
"""

import os

import gymnasium
import numpy as np
import pufferlib
import pufferlib.models
import pufferlib.pytorch
import torch
from pufferlib import pufferl
from workload import FrameStream, Workload, largest_deviation, serve

pufferl.ADVANTAGE_CUDA = False  # it looks for nvcc, not for a GPU
pufferl.PuffeRL.print_dashboard = lambda *_, **__: None

NEVER = 10**9


class StreamEnv(pufferlib.PufferEnv):
    """The frames as a native environment that is vectorised already."""

    def __init__(self, work: Workload) -> None:
        self.single_observation_space = gymnasium.spaces.Box(-10, 10, (work.observation_size,), np.float32)
        self.single_action_space = gymnasium.spaces.Box(-10, 10, (work.action_size,), np.float32)
        self.num_agents = self.agents_per_batch = work.environments
        super().__init__()
        self._frames = FrameStream(work)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list]:
        self.observations[:] = self._frames.observation
        return self.observations, []

    def step(self, actions: np.ndarray) -> tuple:
        self.observations[:], self.rewards[:], self.terminals[:] = self._frames.step(actions)
        return self.observations, self.rewards, self.terminals, self.truncations, []

    def close(self) -> None:
        pass


class Puffer:
    """`PuffeRL`, one evaluate and one train at a time."""

    version = f"PufferLib {pufferlib.__version__}"

    def __init__(self, work: Workload) -> None:
        environment = StreamEnv(work)
        policy = pufferlib.models.Default(environment, hidden_size=work.encoder)
        self.network = pufferlib.models.LSTMWrapper(environment, policy, work.encoder, work.memory)
        self._trainer = pufferl.PuffeRL(settings(work), environment, self.network)
        self._memory, self._work, self._first = work.memory, work, None
        if work.learning_rate == 0:
            self._trainer.optimizer.register_step_pre_hook(self._store_ratio)

    def rollout(self) -> None:
        self._trainer.evaluate()

    def update(self) -> None:
        self._first = None
        self._trainer.train()

    def ratio_error(self) -> float:
        return largest_deviation(self._first)

    def _store_ratio(self, *_: object) -> None:
        if self._first is None:
            self._first = self._trainer.ratio.clone()

    def actor(self, rows: int):  # noqa: ANN201
        seen, hidden = torch.randn(rows, self._work.observation_size), torch.zeros(rows, self._memory)
        state = {"lstm_h": hidden, "lstm_c": hidden.clone()}

        @torch.no_grad()
        def step() -> None:
            logits, _ = self.network.forward_eval(seen, state)
            pufferlib.pytorch.sample_logits(logits)

        return step


def settings(work: Workload) -> dict:
    """Section [train] of default.ini with the sizes of the workload, without files and annealing."""
    return {
        "env": "stream",
        "seed": 42,
        "torch_deterministic": True,
        "cpu_offload": False,
        "device": "cpu",
        "optimizer": "adam",
        "anneal_lr": False,
        "precision": "float32",
        "total_timesteps": NEVER,
        "learning_rate": work.learning_rate,
        "gamma": 0.995,
        "gae_lambda": 0.90,
        "update_epochs": work.epochs,
        "clip_coef": 0.2,
        "vf_coef": 2.0,
        "vf_clip_coef": 0.2,
        "max_grad_norm": 1.5,
        "ent_coef": 0.001,
        "adam_beta1": 0.95,
        "adam_beta2": 0.999,
        "adam_eps": 1e-12,
        "data_dir": os.devnull,
        "checkpoint_interval": NEVER,
        "batch_size": work.samples,
        "minibatch_size": work.minibatch,
        "max_minibatch_size": work.minibatch,
        "bptt_horizon": int(os.environ.get("PUFFER_HORIZON", "64")),
        "compile": False,
        "vtrace_rho_clip": 1.0,
        "vtrace_c_clip": 1.0,
        "prio_alpha": 0.8,
        "prio_beta0": 0.2,
        "use_rnn": True,
    }


if __name__ == "__main__":
    serve(Puffer)
