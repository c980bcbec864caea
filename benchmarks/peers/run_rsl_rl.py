"""rsl_rl on the work of `benchmarks.trainer`: its `PPO`, its `RNNModel` and its rollout storage.

    python -m venv rsl_rl
    rsl_rl/bin/pip install torch
    rsl_rl/bin/pip install rsl-rl-lib

Its recurrent model is observation, LSTM, hidden layer, output, once for the actor and once for the critic: nothing is
shared, so that it computes more per step than the others; the table shows how much. The rollout is the loop of
`OnPolicyRunner.learn` without its logger; the learning rate is fixed, not adaptive.

The first minibatch's ratio is taken from the values that `PPO.update` divides: the stored log-probabilities of its
batch, and what `get_output_log_prob` returns for it.
"""

from importlib.metadata import version

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.models import RNNModel
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict
from workload import FrameStream, Workload, largest_deviation, serve

GROUPS = {"actor": ["policy"], "critic": ["policy"]}


class Rsl:
    """`PPO`, one collection and one update at a time."""

    version = f"rsl_rl {version('rsl-rl-lib')}"

    def __init__(self, work: Workload) -> None:
        self._work, self._frames = work, FrameStream(work)
        self._seen = self._wrap(self._frames.observation)
        sizes = {"hidden_dims": [work.encoder], "rnn_type": "lstm", "rnn_hidden_dim": work.memory}
        gaussian = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "log"}
        actor = RNNModel(self._seen, GROUPS, "actor", work.action_size, distribution_cfg=gaussian, **sizes)
        critic = RNNModel(self._seen, GROUPS, "critic", 1, **sizes)
        storage = RolloutStorage("rl", work.environments, work.steps, self._seen, [work.action_size])
        self.network = torch.nn.ModuleList([actor, critic])
        self._ppo = PPO(
            actor,
            critic,
            storage,
            num_learning_epochs=work.epochs,
            num_mini_batches=work.minibatches,
            learning_rate=work.learning_rate,
            schedule="fixed",
        )
        if work.learning_rate == 0:
            self._listen(storage, actor)

    @torch.inference_mode()
    def rollout(self) -> None:
        for _ in range(self._work.steps):
            actions = self._ppo.act(self._seen)
            seen, reward, ended = self._frames.step(actions.numpy())
            self._seen = self._wrap(seen)
            self._ppo.process_env_step(self._seen, torch.from_numpy(reward), torch.from_numpy(ended), {})
        self._ppo.compute_returns(self._seen)

    def update(self) -> None:
        self._ratios = []
        self._ppo.update()

    def ratio_error(self) -> float:
        return largest_deviation(self._ratios[0])

    def actor(self, rows: int):  # noqa: ANN201
        actor, critic = self.network
        seen = TensorDict({"policy": torch.randn(rows, self._work.observation_size)}, batch_size=[rows])
        for model in self.network:
            model.reset()  # a memory of as many rows

        @torch.inference_mode()
        def step() -> None:
            actor.get_output_log_prob(actor(seen, stochastic_output=True))
            critic(seen)

        return step

    def _wrap(self, seen) -> TensorDict:  # noqa: ANN001
        return TensorDict({"policy": torch.from_numpy(seen)}, batch_size=[self._work.environments])

    def _listen(self, storage: RolloutStorage, actor: RNNModel) -> None:
        deal, judge = storage.recurrent_mini_batch_generator, actor.get_output_log_prob

        def dealt(*arguments: int):  # noqa: ANN202
            for self._batch in deal(*arguments):
                yield self._batch

        def judged(actions: torch.Tensor) -> torch.Tensor:
            log_prob = judge(actions)
            if torch.is_grad_enabled():
                self._ratios.append((log_prob - self._batch.old_actions_log_prob.squeeze()).exp().detach())
            return log_prob

        storage.recurrent_mini_batch_generator, actor.get_output_log_prob = dealt, judged


if __name__ == "__main__":
    serve(Rsl)
