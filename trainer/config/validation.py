"""Checks of the settings against the environment, made before training starts."""

import math

from arena.environments.base import Environment, ShapedEnvironment, supports
from trainer.config.schema import TrainerConfig
from trainer.errors import ConfigError


def check_environment(config: TrainerConfig, env: Environment) -> None:
    """Check the discount factor and the number of minibatches.

    Shaped rewards keep the optimal policy only under their own discount factor. More minibatches than sequences would
    leave some minibatches empty.

    Raises:
        ConfigError: A setting does not fit.
    """
    gamma = config.ppo.gamma
    if supports(env, ShapedEnvironment) and not math.isclose(env.shaping_gamma, gamma):
        raise ConfigError(
            f"ppo.gamma is {gamma}, but {env.spec.name} shapes its rewards with {env.shaping_gamma}: "
            f"set ppo.gamma={env.shaping_gamma}"
        )
    played, shape, minibatches = config.environment, config.rollout, config.ppo.num_minibatches
    rows = (played.num_envs + len(played.self_play_rows)) * max(env.spec.agents_per_side)
    sequences = rows * (shape.num_steps // shape.bptt_horizon)  # at least: an episode that starts adds one
    if minibatches > sequences:
        raise ConfigError(
            f"ppo.num_minibatches is {minibatches}, but a rollout of {shape.num_steps} decisions has {sequences} "
            f"chunks of {shape.bptt_horizon}: set it to {sequences} or less, or collect more (environment.num_envs, "
            "rollout.num_steps)"
        )
