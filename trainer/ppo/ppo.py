"""Recurrent PPO: one update of a network from one rollout, with the KL stop.

1. Split the rollout into sequences of at most `rollout.bptt_horizon` decisions. No sequence crosses the start of an
   episode, and each starts from the recurrent state of the actor (`sequences.py`).
2. In each of `update_epochs` epochs, shuffle the sequences into `num_minibatches` minibatches.
3. For each minibatch, run the network over its sequences and compute (`loss.py`)

       L = -E[min(r A, clip(r, 1 - clip_coef, 1 + clip_coef) A)] + vf_coef E[value loss] - sum_h ent_coef_h E[entropy_h]

   with the probability ratio r of the whole action, without heads that had no choice, and the normalised advantage A.
   Means are over the decisions that carry loss: those of active agents behind a sequence's burn-in.
4. Stop the update before the optimiser's step if the approximate KL divergence exceeds kl_stop * target_kl.
5. Clip the norm of the gradient and take a step of AdamW, unless the loss or the gradient is not finite.

A minibatch is computed in micro-batches, whose gradients add up. Under torchrun all means are over the decisions of all
ranks.

Sources: Schulman et al., "Proximal Policy Optimization Algorithms" (2017); Schulman, "Approximating KL Divergence"
(2020); Kapturowski et al., "Recurrent Experience Replay in Distributed Reinforcement Learning" (2019).
"""

import enum
import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from arena.errors import ArenaError
from arena.policies import ActorCritic
from arena.policies.nn.actor_critic import PolicyOutput
from trainer.compiled import CompiledOrEager, compile_graph
from trainer.config.algorithm import CompileBackend, Precision
from trainer.config.schema import OptimizerSettings, PPOSettings
from trainer.errors import NonFiniteLossError
from trainer.ppo.diagnostics import head_gradients, state_drift
from trainer.ppo.extra_losses import load_extra_losses
from trainer.ppo.loss import LossCoefficients, LossOutput, PolicyEvaluation, PPOLoss
from trainer.ppo.optim.optimizer import FlatAdamW, trainable_parameters
from trainer.ppo.sequences import (
    SequenceBatch,
    Sequences,
    Targets,
    shuffle_minibatches,
    split_into_sequences,
)
from trainer.ppo.update_metrics import MetricAccumulator, MinibatchMetrics, weighted_sum
from trainer.process_group import SINGLE_PROCESS, ProcessGroup, all_reduce_packed, gather_counts
from trainer.rollout.buffer import RolloutBuffer

CPU_MICRO_BATCH = 8192
"""Decisions of a micro-batch on a CPU: its caches still hold their activations when the backward pass needs them."""

ComputeLoss = Callable[[SequenceBatch, Tensor], tuple[LossOutput, PolicyOutput]]
"""Loss of a micro-batch, given the weights of `PPOLoss.weights`, and the network's output at all its decisions."""


class MinibatchResult(NamedTuple):
    """Loss of a minibatch with its extra losses, its metrics, and each of its extra losses by itself."""

    loss: Float[Tensor, ""]
    metrics: MinibatchMetrics
    extra: Float[Tensor, " extra_losses"]


class MinibatchMeans(NamedTuple):
    """Means of a minibatch over the decisions of all ranks; the host knows the numbers of a single process.

    Attributes:
        decisions: Number of decisions.
        kl: Approximate KL divergence.
        loss: Loss with its extra losses.
        samples: Decisions in which each head had a choice.
        entropy: Mean entropy of each head over these; NaN without any.
        stop: Above 0 if a rank is to stop.
    """

    decisions: Float[Tensor, ""] | int
    kl: Float[Tensor, ""]
    loss: Float[Tensor, ""]
    samples: Float[Tensor, " heads"]
    entropy: Float[Tensor, " heads"]
    stop: Float[Tensor, ""] | bool


class Outcome(enum.Enum):
    """What ends a minibatch: an optimiser step (or nothing to learn from), the KL stop, or a stop of the run."""

    DONE = enum.auto()
    KL_STOP = enum.auto()
    STOP = enum.auto()


class PPO:
    """Recurrent PPO of one network, alone or with the same network on the other ranks of a process group.

    Args:
        network: The actor-critic, on its device.
        settings: The `[ppo]` section.
        optimizer: The `[optimizer]` section.
        rng: Random numbers of the shuffling and of the entropy estimate.
        ranks: The process group; by default this process alone.
        loss: Loss of a minibatch without its extra losses; None for PPO's, which runs as a native kernel on a CPU.

    Attributes:
        extra_losses: Additional terms of the loss (`ppo.extra_losses`).
        under_floor: Heads whose mean entropy was below `ppo.entropy_floors` in their last minibatch (heads,).
        optimizer: AdamW over all trainable parameters.
        rejected_steps: Steps that were skipped because something was not finite.

    Raises:
        ConfigError: A setting names a head, a class or a compiler that does not exist.
    """

    def __init__(
        self,
        network: ActorCritic,
        settings: PPOSettings,
        optimizer: OptimizerSettings,
        rng: torch.Generator,
        ranks: ProcessGroup = SINGLE_PROCESS,
        loss: PPOLoss | None = None,
    ) -> None:
        self._network, self._settings, self._rng, self._ranks = network, settings, rng, ranks
        self._device = network.observation_mean.device
        self._gradient_names = [f"heads/{head.name}/gradient_norm" for head in network.layout.heads]
        self._max_grad_norm = optimizer.max_grad_norm
        self._half = settings.precision is Precision.BFLOAT16
        self.extra_losses = load_extra_losses(settings.extra_losses, network)
        self.optimizer = FlatAdamW(trainable_parameters(network, self.extra_losses), optimizer)
        self.loss = loss or PPOLoss(settings, network.layout, self._device)
        self.under_floor = torch.zeros(len(network.layout.heads), dtype=torch.bool, device=self._device)
        self.rejected_steps = self.rejected_in_a_row = 0
        self._compute_loss = self._choose_loss(own_loss=loss is not None)

    def update(
        self,
        rollout: RolloutBuffer,
        targets: Targets,
        coefficients: LossCoefficients,
        should_stop: Callable[[], bool],
    ) -> dict[str, float | None]:
        """Improve the network on one rollout; return the metrics of the update.

        Args:
            rollout: T decisions of R agents.
            targets: Normalised advantages, returns, and which decisions are valid.
            coefficients: Learning rate and weights of the loss for this update.
            should_stop: Whether to end the update before its next minibatch.

        Raises:
            NonFiniteLossError: Losses or gradients were not finite too often in a row.
        """
        self.optimizer.learning_rate = coefficients.learning_rate
        metrics = MetricAccumulator()
        sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
        sequences = sequences.with_loss(targets.valid, self._settings.burn_in)
        self._network.train()
        try:
            kl_stopped = self._run_epochs(rollout, targets, sequences, coefficients, should_stop, metrics)
        finally:
            self._network.eval()
        if (drift := state_drift(self._network, rollout)) is not None:
            metrics.add("losses/state_drift", drift)
        return {
            **metrics.means(),
            "losses/kl_stop": float(kl_stopped),
            "losses/rejected_steps": float(self.rejected_steps),
        }

    def _run_epochs(
        self,
        rollout: RolloutBuffer,
        targets: Targets,
        sequences: Sequences,
        coefficients: LossCoefficients,
        should_stop: Callable[[], bool],
        metrics: MetricAccumulator,
    ) -> bool:
        """Run all epochs; return whether the KL stop ended them early."""
        # All ranks need the same number of minibatches, because each one ends in a collective call.
        sizes = gather_counts(self._ranks, len(sequences), self._device)
        num_minibatches = min([self._settings.num_minibatches, *(size for size in sizes if size)])
        for _ in range(self._settings.update_epochs if any(sizes) else 0):
            shuffled = shuffle_minibatches(sequences.loss_lengths, num_minibatches, self._rng)
            for minibatch in sequences.take_each(shuffled):
                stop = should_stop()
                # With other ranks the flag goes into the all-reduce of the minibatch, so that all stop together.
                if stop and self._ranks.world_size == 1:
                    return False
                outcome = self._update_minibatch(rollout, targets, minibatch, coefficients, metrics, stop=stop)
                if outcome is not Outcome.DONE:
                    return outcome is Outcome.KL_STOP
        return False

    def _update_minibatch(
        self,
        rollout: RolloutBuffer,
        targets: Targets,
        minibatch: Sequences,
        coefficients: LossCoefficients,
        metrics: MetricAccumulator,
        *,
        stop: bool,
    ) -> Outcome:
        """Learn from one minibatch, unless the policy has moved too far or a rank is to stop.

        Ranks exchange everything in one all-reduce after the backward pass. A rank that is to stop takes part in it, so
        that no other rank waits for it.
        """
        micro_batches = self._micro_batches(minibatch)
        if not micro_batches and self._ranks.world_size == 1:
            return Outcome.DONE
        self.optimizer.zero_grad()
        weights = self.loss.weights(coefficients, self.under_floor)
        result = self._forward_backward(rollout, targets, micro_batches, weights)
        means = self._average_over_ranks(result, int(minibatch.loss_lengths.sum()), stop=stop)
        gradient_of_heads = self._head_gradients(result)
        decisions, stops, kl, loss, norm = _read(
            means.decisions, means.stop, means.kl, means.loss, self.optimizer.clip_gradient()
        )
        outcome = Outcome.STOP if stops else Outcome.DONE
        if decisions and not stops:
            self._update_floors(means)
            if result is not None:
                self._record(result, metrics)
            if kl > self._settings.kl_stop * self._settings.target_kl:
                outcome = Outcome.KL_STOP
            else:
                self._step(loss, norm, gradient_of_heads, metrics)
        if outcome is not Outcome.DONE:
            self.optimizer.zero_grad()
        return outcome

    def _forward_backward(
        self,
        rollout: RolloutBuffer,
        targets: Targets,
        micro_batches: list[Sequences],
        weights: Float[Tensor, " heads_and_1"],
    ) -> MinibatchResult | None:
        """Run all micro-batches forward and backward, so that gradients add up to those of the minibatch.

        Args:
            rollout: Holds the decisions.
            targets: Advantages and returns of the rollout.
            micro_batches: Parts of the minibatch; none on a rank without valid decisions.
            weights: See `PPOLoss.weights`.
        """
        losses, parts, extras = [], [], []
        counts = [int(each.loss_lengths.sum()) for each in micro_batches]
        shares = [count / sum(counts) for count in counts]
        for micro_batch, share in zip(micro_batches, shares, strict=True):
            batch = SequenceBatch.gather(rollout, targets, micro_batch, self._network.layout, self._rng)
            output, network_output = self._compute_loss(batch, weights)
            loss = output.loss
            extra = [each.module(batch, network_output) for each in self.extra_losses]
            for each, value in zip(self.extra_losses, extra, strict=True):
                loss = loss + each.coefficient * value
            # At once for each part: its activations are freed before the next one needs memory.
            torch.autograd.backward(loss if share == 1.0 else loss * share)
            losses.append(loss.detach())
            parts.append(output.metrics)
            extras.append(torch.stack(extra).detach() if extra else loss.new_empty(0))
        if not micro_batches:
            return None
        metrics = MinibatchMetrics.combine(parts, shares)
        return MinibatchResult(weighted_sum(losses, shares), metrics, weighted_sum(extras, shares))

    def _average_over_ranks(self, result: MinibatchResult | None, decisions: int, *, stop: bool) -> MinibatchMeans:
        """Replace the gradient by its mean over the decisions of all ranks; return the other means.

        Args:
            result: Loss and metrics of this rank's minibatch; None without decisions.
            decisions: Number of decisions of this rank's minibatch.
            stop: Whether this rank is to stop.
        """
        if self._ranks.world_size == 1 and result is not None:
            single, per_head = result.metrics.single, result.metrics.per_head
            samples, entropy = per_head("samples"), per_head("entropy")
            return MinibatchMeans(decisions, single("approx_kl"), result.loss, samples, entropy, stop)
        # Not `torch.tensor`, which waits for the device.
        count, stops = (torch.full((), float(each), device=self._device) for each in (decisions, stop))
        heads = torch.zeros_like(self.under_floor, dtype=count.dtype)
        kl, loss, samples, entropy = count, count, heads, heads
        if result is not None:
            kl, loss, samples = result.metrics.single("approx_kl"), result.loss, result.metrics.per_head("samples")
            entropy = result.metrics.per_head("entropy")
        # Sums, not means: ranks have different numbers of decisions.
        gradient = self.optimizer.collect_gradient()
        entropy_sums = torch.where(samples > 0, samples * entropy, 0.0)
        own = [gradient * count, count, kl * count, loss * count, samples, entropy_sums, stops]
        gradients, count, kl, loss, samples, entropy_sums, stops = all_reduce_packed(self._ranks, own)
        # Without a decision on any rank, 0 / 0 would turn the gradient into NaN.
        weight = count.clamp(min=torch.finfo(count.dtype).tiny)
        gradient.copy_(gradients / weight)
        return MinibatchMeans(count, kl / weight, loss / weight, samples, entropy_sums / samples, stops)

    def _head_gradients(self, result: MinibatchResult | None) -> Float[Tensor, " heads"]:
        """Return the gradient norm of each head; NaN for a head without samples in this rank's minibatch."""
        has_samples = torch.zeros_like(self.under_floor) if result is None else result.metrics.per_head("samples") > 0
        return head_gradients(self._network, has_samples)

    def _step(
        self,
        loss: float,
        norm: float,
        gradient_of_heads: Float[Tensor, " heads"],
        metrics: MetricAccumulator,
    ) -> None:
        """Take an optimiser step, and add the norms of the gradient before clipping to the metrics.

        There is no step if the loss or the norm is not finite.
        """
        if not math.isfinite(loss + norm):
            self.optimizer.zero_grad()
            self.reject()
            return
        self.optimizer.step()
        self._network.clamp_log_std()
        self.rejected_in_a_row = 0
        metrics.add_number("losses/gradient_norm", norm)
        metrics.add_number("losses/gradient_clipped", float(norm > self._max_grad_norm))
        metrics.add_each(self._gradient_names, gradient_of_heads)

    def reject(self) -> None:
        """Count an update or step that was skipped because something was not finite.

        Raises:
            NonFiniteLossError: It happened `ppo.nonfinite_limit` times in a row.
        """
        self.rejected_steps += 1
        self.rejected_in_a_row += 1
        if self.rejected_in_a_row >= self._settings.nonfinite_limit:
            raise NonFiniteLossError(
                f"{self.rejected_in_a_row} updates in a row were not finite: the weights are those before them; "
                "lower optimizer.learning_rate, or look for NaN in the environment's observations and rewards"
            )

    def evaluate(self, rollout: RolloutBuffer, targets: Targets, sequences: Sequences) -> PolicyEvaluation:
        """Evaluate the current policy at the decisions of whole sequences that carry loss."""
        sequences = sequences.with_loss(targets.valid, self._settings.burn_in)
        batch = SequenceBatch.gather(rollout, targets, sequences, self._network.layout, self._rng)
        return self.evaluate_actions(batch, self._forward(batch))

    def evaluate_actions(self, batch: SequenceBatch, output: PolicyOutput) -> PolicyEvaluation:
        """Compare the current policy and critic with those that acted, at the n decisions that carry loss."""
        parameters, value, _ = output
        if batch.loss_index is not None:
            parameters, value = (each.index_select(0, batch.loss_index) for each in (parameters, value))
        distribution = self._network.distribution(parameters, batch.action_mask)
        log_prob, entropy = distribution.log_prob_and_entropy(batch.raw_action, batch.noise)
        return PolicyEvaluation(
            log_ratio=log_prob - batch.log_prob,
            head_has_choice=self._network.layout.head_has_choice(batch.action_mask),
            entropy=entropy,
            value=value,
            old_value=batch.old_value,
            advantage=batch.advantage,
            returns=batch.returns,
            index=batch.index,
        )

    def _forward(self, batch: SequenceBatch) -> PolicyOutput:
        return self._network.sequence(batch.observation, batch.state, batch.runs, half=self._half)

    def _plain_loss(self, batch: SequenceBatch, weights: Tensor) -> tuple[LossOutput, PolicyOutput]:
        """Loss in PyTorch; nothing in it waits for the device."""
        output = self._forward(batch)
        return self.loss.compute(self.evaluate_actions(batch, output), weights), output

    def _choose_loss(self, *, own_loss: bool) -> ComputeLoss:
        """Choose PPO's native loss if it runs here, else the plain one; compiled if `ppo.compile` is set."""
        chosen = (None if own_loss else self._native_loss()) or self._plain_loss
        backend = self._settings.compile.for_device(self._device.type)
        if backend is CompileBackend.NONE:
            return chosen
        return CompiledOrEager(self._compile_loss(backend), backend.value, chosen)

    def _compile_loss(self, backend: CompileBackend) -> ComputeLoss:
        """Compile the plain loss: one graph before the recurrent core, and one behind it.

        The core itself stays as it is: a compiler unrolls an LSTM into kernels for each step, in place of one call of
        cuDNN.
        """

        def evaluate(
            batch: SequenceBatch, weights: Tensor, core_output: Tensor, members: list[Tensor]
        ) -> tuple[LossOutput, PolicyOutput]:
            output = self._network.read_out(core_output, members)
            return self.loss.compute(self.evaluate_actions(batch, output), weights), output

        encode = compile_graph(self._network.encode_sequence, backend.value)
        evaluate_compiled = compile_graph(evaluate, backend.value)

        def compute_loss(batch: SequenceBatch, weights: Tensor) -> tuple[LossOutput, PolicyOutput]:
            encoded, members = encode(batch.observation, half=self._half)
            core_output = self._network.run_core(encoded, batch.state, batch.runs, half=self._half)
            return evaluate_compiled(batch, weights, core_output, members)

        return compute_loss

    def _native_loss(self) -> ComputeLoss | None:
        """Return the loss in C++, which needs a CPU and float32; None if it does not run here."""
        if self._device.type != "cpu" or self._network.raw_log_std.dtype is not torch.float32:
            return None
        try:
            from trainer.ppo.native.loss_kernel import NativeLoss  # here, so that GPU users compile no kernels
        except ArenaError:
            return None
        native = NativeLoss(self._settings, self._network.layout)

        def compute_loss(batch: SequenceBatch, weights: Tensor) -> tuple[LossOutput, PolicyOutput]:
            output = self._forward(batch)
            return native(output.parameters, output.value, self._network.log_std, batch, weights), output

        return compute_loss

    def _micro_batches(self, minibatch: Sequences) -> list[Sequences]:
        """Split a minibatch into micro-batches; those without a decision that carries loss are left out."""
        limit = max_micro_batch(self._settings, self._device)
        parts = minibatch.split(min(len(minibatch), max(1, -(-int(minibatch.lengths.sum()) // limit))))
        return [each for each in parts if each.loss_lengths.any()]

    def _update_floors(self, means: MinibatchMeans) -> None:
        """Find the heads whose mean entropy is below their floor."""
        if self.loss.entropy_floors is not None:
            is_under = means.entropy < self.loss.entropy_floors
            self.under_floor = torch.where(means.samples > 0, is_under, self.under_floor)

    def _record(self, result: MinibatchResult, metrics: MetricAccumulator) -> None:
        """Add the metrics of one minibatch to those of the update."""
        # Only the first minibatch sees the weights that acted: its ratios are 1, up to rounding.
        if not len(metrics):
            metrics.add("losses/first_ratio_error", result.metrics.single("ratio_error"))
        for each, value in zip(self.extra_losses, result.extra, strict=True):
            metrics.add(f"losses/{each.name}", value)
        self.loss.record(result.metrics, metrics)


def _read(*values: Tensor | float) -> list[float]:
    """Read scalars, those on the device in one transfer."""
    on_device = iter(torch.stack([each for each in values if isinstance(each, Tensor)]).tolist())
    return [next(on_device) if isinstance(each, Tensor) else each for each in values]


def max_micro_batch(settings: PPOSettings, device: torch.device) -> int:
    """Largest number of decisions in a micro-batch, roughly: sequences are not split."""
    return settings.micro_batch_size or (CPU_MICRO_BATCH if device.type == "cpu" else sys.maxsize)
