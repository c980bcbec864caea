"""sample-factory on the work of `benchmarks.trainer`: its runner in one process, synchronous, batched sampling.

    python -m venv sample_factory
    sample_factory/bin/pip install torch
    sample_factory/bin/pip install sample-factory

Its event loop runs as it is, in serial mode; `Learner.train` is timed from outside and waits after every update until
the benchmark asks for the next iteration, so that everything else (sampling, batching) counts as rollout. The update
follows memory for 16 steps from stored states (`--recurrence=16`); observations and returns are not normalised, as with
the others; the standard deviation does not depend on the state.

The first minibatch's ratio is the argument of its `_policy_loss` (it is clamped to 0.05..20 before).
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import version

import gymnasium
import numpy as np
import torch
from sample_factory.algo.learning.learner import Learner
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import run_rl
from workload import FrameStream, JsonChannel, Workload, exit_now, forward_flop, largest_deviation, perturb, start

VERSION = f"sample-factory {version('sample-factory')}"
NEVER = 10**9
RECURRENCE = 16


class StreamEnv(gymnasium.Env):
    """The frames as one environment of many agents."""

    is_multiagent = True

    def __init__(self, work: Workload) -> None:
        self.observation_space = gymnasium.spaces.Box(-10, 10, (work.observation_size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-10, 10, (work.action_size,), np.float32)
        self.num_agents = work.environments
        self.render_mode = None
        self._frames = FrameStream(work)
        self._never = torch.zeros(work.environments, dtype=torch.bool)

    def reset(self, **_: object) -> tuple:
        return torch.from_numpy(self._frames.observation), {}

    def step(self, actions: np.ndarray) -> tuple:
        seen, reward, ended = (torch.from_numpy(part) for part in self._frames.step(actions))
        return seen, reward, ended, self._never, {}


def make_stream(work: Workload, *_: object, **__: object) -> StreamEnv:
    """Create the environment; sample-factory calls it in a separate process to read the spaces."""
    return StreamEnv(work)


class TimedLearner:
    """Time each `Learner.train`, answer, and wait for the next request."""

    def __init__(self, talk: JsonChannel, clock: Callable[[], float], *, frozen: bool) -> None:
        self._talk, self._requests, self._clock, self._frozen = talk, talk.requests(), clock, frozen
        self._ratios: list[torch.Tensor] = []
        self._train, self._loss = Learner.train, Learner._policy_loss
        self._ready = False

    def install(self) -> None:
        Learner.train = lambda learner, batch: self._timed(learner, batch)
        if self._frozen:
            Learner._policy_loss = staticmethod(self._record_ratio)

    def _timed(self, learner: Learner, batch: object) -> object:
        if not self._ready:  # the first batch includes start-up
            return self._send_info(learner, batch)
        started = self._clock()
        stats = self._train(learner, batch)
        seconds = {"rollout_s": started - self._resumed, "update_s": self._clock() - started}
        error = {"ratio_error": largest_deviation(self._ratios[0])} if self._ratios else {}
        self._talk.answer(**seconds, **error)
        self._wait(learner)
        return stats

    def _send_info(self, learner: Learner, batch: object) -> object:
        stats = self._train(learner, batch)
        self._talk.answer(version=VERSION, forward_flop=forward_flop(learner.actor_critic))
        self._ready = True
        self._wait(learner)
        return stats

    def _wait(self, learner: Learner) -> None:
        while (request := next(self._requests, None)) and request[0] != "iterate":
            # in one process sampler and learner share the network; its step alone cannot be called
            self._talk.answer(**(perturb(learner.actor_critic) if request[0] == "perturb" else {}))
        if not request:
            exit_now()
        self._ratios.clear()
        self._resumed = self._clock()

    def _record_ratio(self, ratio: torch.Tensor, *arguments: object) -> torch.Tensor:
        self._ratios.append(ratio.detach())
        return self._loss(ratio, *arguments)


def options(work: Workload, folder: str) -> list[str]:
    """Return its command line."""
    return [
        "--env=stream",
        f"--train_dir={folder}",
        "--experiment=bench",
        "--device=cpu",
        "--serial_mode=True",
        "--async_rl=False",
        "--batched_sampling=True",
        "--num_workers=1",
        "--num_envs_per_worker=1",
        "--worker_num_splits=1",
        "--max_policy_lag=1000000",
        f"--rollout={work.steps}",
        f"--recurrence={RECURRENCE}",
        f"--batch_size={work.minibatch}",
        f"--num_batches_per_epoch={work.minibatches}",
        f"--num_epochs={work.epochs}",
        "--shuffle_minibatches=True",
        f"--encoder_mlp_layers={work.encoder}",
        "--use_rnn=True",
        "--rnn_type=lstm",
        f"--rnn_size={work.memory}",
        "--adaptive_stddev=False",
        "--normalize_input=False",
        "--normalize_returns=False",
        f"--learning_rate={work.learning_rate}",
        f"--train_for_env_steps={NEVER}",
        f"--save_every_sec={NEVER}",
        f"--save_best_every_sec={NEVER}",
        f"--experiment_summaries_interval={NEVER}",
        "--decorrelate_experience_max_seconds=0",
        "--log_to_file=False",
    ]


def main() -> None:
    """Run sample-factory."""
    work, talk = start()
    TimedLearner(talk, work.clock, frozen=work.learning_rate == 0).install()
    register_env("stream", partial(make_stream, work))
    with tempfile.TemporaryDirectory() as folder:
        sys.argv[1:] = options(work, folder)
        parser, _ = parse_sf_args(sys.argv[1:])
        run_rl(parse_full_cfg(parser, sys.argv[1:]))


if __name__ == "__main__":
    main()
