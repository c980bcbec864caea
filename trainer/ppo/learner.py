"""Learner: a network with its optimiser and statistics, which learns from rollouts by PPO."""

import logging
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from arena.environments import EnvironmentSpec
from arena.errors import CheckpointError
from arena.policies import ActorCritic, Architecture
from arena.policies.checkpoint import load_strictly
from arena.policies.nn.user_module_checks import check_module
from arena.seeding import derive
from trainer.config.algorithm import MEMBER_SIZE
from trainer.config.schema import NetworkSettings, TrainerConfig
from trainer.errors import ConfigError, StateError
from trainer.ppo.diagnostics import continuous_heads
from trainer.ppo.loss import LossCoefficients
from trainer.ppo.optim import schedules
from trainer.ppo.optim.weight_ema import WeightEMA
from trainer.ppo.ppo import PPO
from trainer.ppo.sequences import Targets
from trainer.ppo.targets.builder import TargetBuilder, decay_of_window
from trainer.ppo.targets.magnet import Magnet
from trainer.ppo.targets.normalization import ObservationNormalizer
from trainer.process_group import SINGLE_PROCESS, ProcessGroup, any_of
from trainer.rollout.buffer import RolloutBuffer

logger = logging.getLogger(__name__)


class Learner:
    """Recurrent PPO as an `Algorithm`, and the base class of other algorithms, which override `update`.

    Args:
        config: Settings; every rank has the same.
        spec: Specification of the environment.
        ranks: The process group; all ranks have the same weights at any time.

    Attributes:
        network: Network that acts and learns.
        steps: Environment steps learned from, over all ranks.
        updates: Number of updates.
        began_step: Value of `steps` when the current weights were reset; schedules count from there.
        rng: Random numbers of acting; the update has its own.
        ppo: The optimisation of one rollout.
        target_builder: Advantages, returns and their running statistics.
    """

    def __init__(self, config: TrainerConfig, spec: EnvironmentSpec, ranks: ProcessGroup = SINGLE_PROCESS) -> None:
        self.config, self._spec, self._ranks = config, spec, ranks
        device = torch.device(config.run.device)
        self.network = build_network(config.network, spec, config.run.seed).to(device).eval()
        self.rng = _generator(device, derive(config.run.seed, "acting", ranks.rank))
        self._update_rng = _generator(device, derive(config.run.seed, "update", ranks.rank))
        played = config.environment
        self.rows = (played.num_envs + len(played.self_play_rows)) * max(spec.agents_per_side)
        self.ppo = self.make_ppo()
        horizon = config.league.ema_horizon_steps / self.env_steps_per_update
        self._average = WeightEMA(self.network, horizon) if config.league.averages else None
        has_magnet = self._average is not None and config.ppo.magnet_coef > 0.0
        self._magnet = Magnet(config.ppo.magnet_coef, self.rows, self.network) if has_magnet else None
        self._observations = ObservationNormalizer(
            self.network.architecture,
            config.normalization.observation_std_floor,
            device,
            ranks,
            decay=decay_of_window(config.normalization.observation_window),
        )
        self.target_builder = TargetBuilder(config, spec, self.rows, ranks)
        self.steps = 0
        self.updates = 0
        self.began_step = 0

    def allocate(self) -> RolloutBuffer:
        """Allocate the buffer of this learner's rollouts."""
        shape = self.config.rollout
        return RolloutBuffer.allocate(
            self.network, steps=shape.num_steps, rows=self.rows, bptt_horizon=shape.bptt_horizon
        )

    @property
    def published(self) -> ActorCritic:
        """Network of snapshots: the moving average of the weights if settings ask for it, else the weights."""
        return self.network if self._average is None else self._average.network

    @property
    def env_steps_per_update(self) -> int:
        """Environment steps of a rollout, over all ranks."""
        return self.config.rollout.num_steps * self.config.environment.num_envs * self._ranks.world_size

    def learn(self, rollout: RolloutBuffer, should_stop: Callable[[], bool]) -> dict[str, float | None]:
        """Update the weights by one rollout, then the observation statistics for the next one; return metrics.

        A rollout with NaN or infinity is skipped as a whole: it changes neither weights nor statistics.

        Args:
            rollout: T decisions of R agents.
            should_stop: Whether to end the update before its next minibatch.

        Raises:
            NonFiniteLossError: That happened too often in a row.
        """
        # Also for a rejected rollout: its matches were played, and schedules follow the steps.
        self.steps += self.env_steps_per_update
        self.updates += 1
        nonfinite = rollout.nonfinite_fields
        # All ranks skip it together, or they would wait for each other in the update.
        if any_of(self._ranks, bool(nonfinite), self.network.observation_mean.device):
            where = ", ".join(nonfinite) or "the rollout of another rank"
            logger.warning("update %d skipped: NaN or infinity in %s", self.updates, where)
            self.ppo.reject()
            return {"losses/rejected_steps": float(self.ppo.rejected_steps)}
        coefficients = self.coefficients()
        metrics = self.update(rollout, coefficients, should_stop)
        metrics |= continuous_heads(self.network, rollout)
        # After the update: until then, the statistics must be those that the rollout was acted with.
        self._observations.update(rollout.observation, rollout.active)
        self._observations.write_to(self.network)
        average = {}
        if self._average is not None:
            self._average.update(self.network)
            average["charts/average_distance"] = self._average.distance(self.network)
        return metrics | {
            **average,
            **self.target_builder.metrics(),
            "charts/learning_rate": coefficients.learning_rate,
            "charts/normalized_ent_coef": coefficients.entropy,
        }

    def update(
        self, rollout: RolloutBuffer, coefficients: LossCoefficients, should_stop: Callable[[], bool]
    ) -> dict[str, float | None]:
        """Update the weights by one rollout of finite numbers; return metrics."""
        penalty, magnet_metrics = self.magnet_penalty(rollout)
        targets, metrics = self.targets(rollout, penalty)
        return metrics | magnet_metrics | self.ppo.update(rollout, targets, coefficients, should_stop)

    def make_ppo(self) -> PPO:
        """Create the optimisation of one rollout."""
        return PPO(self.network, self.config.ppo, self.config.optimizer, self._update_rng, self._ranks)

    def coefficients(self) -> LossCoefficients:
        """Return the learning rate and the weights of the loss at the current step."""
        settings, steps = self.config.schedules, self.steps - self.began_step
        done = schedules.progress(steps, settings.horizon_steps)
        ppo, rates = self.config.ppo, self.config.optimizer
        rate = schedules.anneal(settings.shape, rates.learning_rate, rates.learning_rate_final, done)
        bonus = schedules.anneal(settings.shape, ppo.normalized_ent_coef, ppo.normalized_ent_coef_final, done)
        return LossCoefficients(
            learning_rate=rate * schedules.linear_warmup(steps, rates.learning_rate_warm_up_steps),
            entropy=bonus,
            entropy_below_floor=ppo.normalized_ent_coef,
            value=ppo.vf_coef * schedules.linear_warmup(steps, ppo.vf_coef_warm_up_steps),
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return weights, optimiser state, statistics and random generators by name, for a saved state."""
        named = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for each in self.ppo.extra_losses:
            if each.parameters is not None:
                named |= each.parameters.state_dict(prefix=f"extra.{each.name}.")
        named |= {f"adam.{name}": tensor for name, tensor in self.ppo.optimizer.tensors().items()}
        if self._average is not None:
            named |= {f"average.{name}": tensor for name, tensor in self._average.tensors().items()}
        named |= self._observations.tensors() | self.target_builder.tensors()
        chance = {"rng.acting": self.rng.get_state(), "rng.update": self._update_rng.get_state()}
        return named | chance | {"under_floor": self.ppo.under_floor}

    def restore(self, tensors: Mapping[str, Tensor], steps: int, updates: int) -> None:
        """Continue from the tensors of a saved state.

        Raises:
            StateError: The weights do not fit the configured network, or a tensor is missing.
        """
        device = torch.device(self.config.run.device)
        remedy = "the [network] of its config.toml"
        try:
            load_strictly(self.network, _below(tensors, "network."), "the saved state")
            self.network.clamp_log_std()
            self._restore_average(_below(tensors, "average."))
            remedy = "its ppo.extra_losses"
            for each in self.ppo.extra_losses:
                if each.parameters is not None:
                    load_strictly(each.parameters, _below(tensors, f"extra.{each.name}."), "the saved state")
        except CheckpointError as error:
            raise StateError(f"{error}: choose another --run, or {remedy}") from error
        self.ppo.optimizer.restore(_below(tensors, "adam."))
        try:
            self._observations.restore(tensors)
            self.target_builder.restore(tensors)
            self.ppo.under_floor = tensors["under_floor"].to(device)
            self._restore_generator(self.rng, tensors["rng.acting"], "acting", steps)
            self._restore_generator(self._update_rng, tensors["rng.update"], "update", steps)
        except KeyError as error:
            raise StateError(f"the saved state has no {error}: start in another run folder") from error
        self.steps, self.updates = steps, updates

    def reset_weights(self, start: ActorCritic | None = None) -> None:
        """Reset the weights, the optimiser and the statistics; steps, updates and random generators continue.

        Args:
            start: Weights to start from, which keep the observation statistics; None for fresh weights.
        """
        own = self.tensors()
        # A new instance gives all fresh tensors, also those of subclasses.
        tensors = type(self)(self.config, self._spec, self._ranks, **self.config.algorithm.options).tensors()
        preserved: tuple[str, ...] = ("rng.", "longest_wait")
        if start is not None:
            tensors |= {f"network.{name}": tensor for name, tensor in start.state_dict().items()}
            preserved += ("observations.", "members")
        tensors |= {name: tensor for name, tensor in own.items() if name.startswith(preserved)}
        self.restore(tensors, self.steps, self.updates)
        if start is not None:
            self._observations.write_to(self.network)
        self._restore_average({})
        self.began_step = self.steps

    def _restore_average(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the moving average of the weights; without a saved one it starts at the current weights."""
        if self._average is None:
            return
        if tensors:
            self._average.restore(tensors)
        else:
            self._average.reset(self.network)

    def _restore_generator(self, rng: torch.Generator, saved: Tensor, purpose: str, steps: int) -> None:
        """Restore a generator; one of another kind of device cannot be restored and is seeded again."""
        if saved.shape == rng.get_state().shape:
            rng.set_state(saved)
        else:
            rng.manual_seed(derive(self.config.run.seed, purpose, self._ranks.rank, steps))

    def targets(
        self, rollout: RolloutBuffer, advantage_penalty: Tensor | None = None
    ) -> tuple[Targets, dict[str, float | None]]:
        """Return the targets of a rollout, and metrics of their scales; see `TargetBuilder.build`."""
        transitions = self.target_builder.scaled_transitions(rollout)
        return self.target_builder.build(transitions, rollout, self.network.critic, advantage_penalty)

    def magnet_penalty(self, rollout: RolloutBuffer) -> tuple[Tensor | None, dict[str, float]]:
        """Return the penalty that `ppo.magnet_coef` adds to advantages (T, R), None without one; and its metrics."""
        if self._magnet is None:
            return None, {}
        penalty, kl = self._magnet.advantage_penalty(self.published, rollout)
        return penalty, {"losses/magnet_kl": kl}


def build_network(settings: NetworkSettings, spec: EnvironmentSpec, seed: int) -> ActorCritic:
    """Create the configured network with fresh weights; torch's global generator is not advanced.

    Raises:
        ConfigError: `network.member_size` is set, but the environment has no sets.
        NetworkModuleError: The user's module does not load, or breaks the contract of networks.
    """
    architecture = Architecture.of(
        spec,
        encoder=settings.encoder,
        encoder_sizes=settings.encoder_sizes,
        core=settings.core,
        recurrent_size=settings.recurrent_size,
        initial_log_std=settings.initial_log_std,
        member_size=MEMBER_SIZE if settings.member_size is None else settings.member_size,
        image_channels=settings.image_channels,
        embedding_size=settings.embedding_size,
        module=settings.module,
    )
    if settings.member_size and not architecture.sets:
        raise ConfigError(f"network.member_size is {settings.member_size}, but {spec.name} shows no sets: set it to 0")
    # Initialisers use the global generator, which belongs to the user's program.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "weights"))
        if architecture.module is not None:
            check_module(architecture, spec)
            torch.manual_seed(derive(seed, "weights"))
        return ActorCritic(architecture)


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names start with a prefix, with the prefix removed."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _generator(device: torch.device, seed: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)
