"""Settings that do not fit the environment, found before anything is learned."""

import math

from arena.environments import EnvironmentSpec
from arena.environments.protocol import Environment, ShapedEnvironment
from trainer.config.schema import TrainerConfig
from trainer.errors import ConfigError


def check_discount(env: Environment, gamma: float) -> None:
    """Refuse a discount that turns an environment's shaping into a reward of its own.

    Raises:
        ConfigError: It is another than the shaping's.
    """
    if isinstance(env, ShapedEnvironment) and not math.isclose(env.shaping_gamma, gamma):
        raise ConfigError(
            f"ppo.gamma is {gamma}, but {env.spec.name} shapes its rewards with {env.shaping_gamma}: "
            f"set ppo.gamma={env.shaping_gamma}"
        )


def check_minibatches(config: TrainerConfig, spec: EnvironmentSpec) -> None:
    """Refuse more minibatches than a rollout has chunks: some would be empty.

    Raises:
        ConfigError: There are more.
    """
    asked, most = config.ppo.num_minibatches, chunks_per_update(config, spec)
    if asked > most:
        shape = config.rollout
        raise ConfigError(
            f"ppo.num_minibatches is {asked}, but a rollout of {shape.num_steps} decisions has {most} chunks of "
            f"{shape.bptt_horizon}: set it to {most} or less, or collect more (environment.num_envs, rollout.num_steps)"
        )


def chunks_per_update(config: TrainerConfig, spec: EnvironmentSpec) -> int:
    """Sequences that one rollout is cut into, at least: every start of an episode makes one more."""
    played = config.environment
    rows = (played.num_envs + len(played.self_play_rows)) * max(spec.agents_per_side)
    return rows * (config.rollout.num_steps // config.rollout.bptt_horizon)
