"""sb3-contrib's RecurrentPPO on the work of `benchmarks.trainer`.

    python -m venv sb3
    sb3/bin/pip install torch
    sb3/bin/pip install sb3-contrib

The same network as the others: one encoder layer as features extractor, one LSTM that actor and critic share
(`shared_lstm`), no further layers. With `SB3_DEFAULTS=1` in the environment it is `MlpLstmPolicy` as it comes: an LSTM
of 256 each for actor and critic, on the bare observation, two layers of 64 behind.

The first minibatch's ratio is taken from the values that `RecurrentPPO.train` divides: `old_log_prob` of its batch, and
what `evaluate_actions` returns for it, where the batch's mask says that a row is no padding.
"""

import os

import gymnasium
import numpy as np
import sb3_contrib
import torch
from sb3_contrib import RecurrentPPO
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from workload import FrameStream, Workload, largest_deviation, serve


class StreamEnv(VecEnv):
    """The frames as one vectorised environment."""

    def __init__(self, work: Workload) -> None:
        seen = gymnasium.spaces.Box(-10, 10, (work.observation_size,), np.float32)
        done = gymnasium.spaces.Box(-10, 10, (work.action_size,), np.float32)
        self.render_mode = None
        super().__init__(work.environments, seen, done)
        self._frames = FrameStream(work)
        self._infos = [{} for _ in range(work.environments)]

    def reset(self) -> np.ndarray:
        return self._frames.observation

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple:
        return *self._frames.step(self._actions), self._infos

    def get_attr(self, attr_name: str, indices: object = None) -> list:
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: object, indices: object = None) -> None:
        raise NotImplementedError("neither training nor the measurement calls it")

    def env_method(self, method_name: str, *arguments: object, indices: object = None, **named: object) -> list:
        raise NotImplementedError("neither training nor the measurement calls it")

    def env_is_wrapped(self, wrapper_class: type, indices: object = None) -> list[bool]:
        return [False] * self.num_envs

    def close(self) -> None:
        pass


class Encoder(BaseFeaturesExtractor):
    """One layer in front of the LSTM."""

    def __init__(self, observation_space: gymnasium.Space, size: int) -> None:
        super().__init__(observation_space, size)
        self._layers = torch.nn.Sequential(torch.nn.Linear(observation_space.shape[0], size), torch.nn.ReLU())

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self._layers(observations)


class Contrib:
    """`RecurrentPPO`, one collection and one training at a time."""

    version = f"sb3-contrib {sb3_contrib.__version__}"

    def __init__(self, work: Workload) -> None:
        same = {
            "features_extractor_class": Encoder,
            "features_extractor_kwargs": {"size": work.encoder},
            "lstm_hidden_size": work.memory,
            "shared_lstm": True,
            "enable_critic_lstm": False,
            "net_arch": [],
        }
        self._work, self._environment = work, StreamEnv(work)
        self._ppo = RecurrentPPO(
            "MlpLstmPolicy",
            self._environment,
            learning_rate=work.learning_rate,
            n_steps=work.steps,
            batch_size=work.minibatch,
            n_epochs=work.epochs,
            device="cpu",
            policy_kwargs={} if os.environ.get("SB3_DEFAULTS") else same,
        )
        self.network = self._ppo.policy
        _, self._callback = self._ppo._setup_learn(work.samples)
        if work.learning_rate == 0:
            self._listen()

    def rollout(self) -> None:
        self._ppo.collect_rollouts(self._environment, self._callback, self._ppo.rollout_buffer, self._work.steps)

    def update(self) -> None:
        self._ratios = []
        self._ppo.train()

    def ratio_error(self) -> float:
        return largest_deviation(self._ratios[0])

    def actor(self, rows: int):  # noqa: ANN201
        lstm = self.network.lstm_actor
        blank = (torch.zeros(1, rows, lstm.hidden_size), torch.zeros(1, rows, lstm.hidden_size))
        seen, state, nobody = torch.randn(rows, self._work.observation_size), RNNStates(blank, blank), torch.zeros(rows)
        return torch.no_grad()(lambda: self.network(seen, state, nobody))

    def _listen(self) -> None:
        deal, judge = self._ppo.rollout_buffer.get, self.network.evaluate_actions

        def dealt(size: int):  # noqa: ANN202
            for self._batch in deal(size):
                yield self._batch

        def judged(*arguments: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            values, log_prob, entropy = judge(*arguments)
            ratio = (log_prob - self._batch.old_log_prob).exp()
            self._ratios.append(ratio[self._batch.mask > 1e-8].detach())
            return values, log_prob, entropy

        self._ppo.rollout_buffer.get, self.network.evaluate_actions = dealt, judged


if __name__ == "__main__":
    serve(Contrib)
