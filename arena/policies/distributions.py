"""Factored action distributions: squashed Gaussian, Bernoulli and masked categorical heads side by side.

Samples are kept *raw*: pre-squash values u of a gaussian head (so that a stored log-probability is reproduced also in
saturation), 0/1 of a bernoulli head, the chosen index of a categorical head, all in one float tensor (..., A).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments.protocol import Actions, Observation
from arena.environments.spec import ActionHead, HeadKind

ILLEGAL_LOGIT = -1e4
"""Logit of an illegal option: finite in half precision, and its probability is exactly 0 in single precision."""

LARGEST_SQUASHED = 1.0 - 2.0**-24
"""Largest single-precision number below 1."""

LEAST_CHANCE = 2.0**-25
"""Stands for a uniform draw of exactly 0, whose logarithm is not finite; half of the smallest other draw."""

LOG_2 = math.log(2.0)
HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Part:
    """Where one head lies in the flat tensors: parameters (P), raw action (A), mask (M) and log-stds (G)."""

    head: ActionHead
    parameters: slice
    raw: slice
    mask: slice
    log_std: slice


@dataclass(frozen=True)
class ActionLayout:
    """Flat layout of a policy's heads; the order is that of `heads`."""

    heads: tuple[ActionHead, ...]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Slices of every head."""
        parts: list[Part] = []
        p = a = m = g = 0
        for head in self.heads:
            p_end, a_end = p + head.size, a + _raw_width(head)
            m_end, g_end = m + _mask_width(head), g + _log_std_width(head)
            parts.append(Part(head, slice(p, p_end), slice(a, a_end), slice(m, m_end), slice(g, g_end)))
            p, a, m, g = p_end, a_end, m_end, g_end
        return tuple(parts)

    @property
    def parameter_size(self) -> int:
        """P: gaussian means, bernoulli logits, categorical logits."""
        return sum(head.size for head in self.heads)

    @property
    def raw_size(self) -> int:
        """A: floats in one raw action."""
        return sum(_raw_width(head) for head in self.heads)

    @property
    def mask_size(self) -> int:
        """M: mask bits of all masked heads."""
        return sum(_mask_width(head) for head in self.heads)

    @property
    def log_std_size(self) -> int:
        """G: dimensions of all gaussian heads."""
        return sum(_log_std_width(head) for head in self.heads)

    def pack_masks(self, observation: Observation) -> Bool[Tensor, "... M"]:
        """Concatenate the masks of masked heads; (..., 0) where no head is masked."""
        packed = [observation.masks[part.head.name] for part in self.parts if part.head.masked]
        active = observation.active
        return torch.cat(packed, dim=-1) if packed else active.new_ones(*active.shape, 0)

    def to_actions(self, raw: Float[Tensor, "... A"]) -> Actions:
        """Turn raw actions into what an environment takes.

        No number, as networks say whose finite weights overflow, is 0, so that a policy never ends who plays it.
        """
        return {part.head.name: _environment_action(part.head.kind, raw[..., part.raw]) for part in self.parts}

    def from_actions(self, actions: Actions) -> Float[Tensor, "... A"]:
        """Turn actions that somebody else chose (an adapter, a person, a recording) into raw ones.

        A squashed value of exactly +-1 has no finite u with tanh(u) = +-1: it is taken as the nearest value below that
        single precision can tell from it, |u| = 8.7, where log-probabilities and their gradients are finite.
        """
        parts = [_raw_action(part.head.kind, actions[part.head.name]) for part in self.parts]
        return torch.cat(parts, dim=-1)

    def draw_noise(self, shape: Sequence[int], rng: torch.Generator) -> Float[Tensor, "... P"]:
        """Draw the chance of decisions ahead, on the generator's device: one number for every parameter.

        Normal where it is the mean of a gaussian dimension, logistic for a switch, Gumbel's for an option.
        """
        return torch.cat([_noise(part.head, shape, rng) for part in self.parts], dim=-1)

    def draw_entropy_noise(self, shape: Sequence[int], rng: torch.Generator) -> Float[Tensor, "... G"]:
        """Draw the chance that estimates of entropy need, on the generator's device."""
        return torch.randn(*shape, self.log_std_size, generator=rng, device=rng.device)

    def noise_scale(self, log_std: Float[Tensor, "... G"]) -> Float[Tensor, "... P"]:
        """What noise is multiplied by: standard deviations of gaussian dimensions, 1 for everything else."""
        ones = log_std.new_ones(*log_std.shape[:-1], 1)
        columns = [
            log_std[..., part.log_std].exp() if part.head.kind is HeadKind.GAUSSIAN else _wide(ones, part.head.size)
            for part in self.parts
        ]
        return torch.cat(columns, dim=-1)

    def choose(
        self,
        parameters: Float[Tensor, "... P"],
        noise: Float[Tensor, "... P"],
        scale: Float[Tensor, "... P"],
        mask: Bool[Tensor, "... M"],
    ) -> Float[Tensor, "... A"]:
        """Raw actions that noise decides on; masked-out switches stay off, illegal options have probability 0."""
        noisy = torch.addcmul(parameters.float(), noise, scale)
        if self._all_gaussian:
            return noisy
        chosen = [_choice(part, noisy[..., part.parameters], mask[..., part.mask]) for part in self.parts]
        return torch.cat(chosen, dim=-1)

    @cached_property
    def _all_gaussian(self) -> bool:
        return all(head.kind is HeadKind.GAUSSIAN for head in self.heads)

    def relevant(self, mask: Bool[Tensor, "... M"]) -> Bool[Tensor, "... heads"]:
        """Whether a head had anything to decide: any free dimension or switch, or at least two options."""
        columns = [
            _relevant(part.head, mask[..., part.mask]) if part.head.masked else mask.new_ones(mask.shape[:-1])
            for part in self.parts
        ]
        return torch.stack(columns, dim=-1)

    def stuck(self, mask: Bool[Tensor, "... M"]) -> Bool[Tensor, "... heads"]:
        """Whether a head is categorical and has no legal option at all: whoever acts there can do nothing legal."""
        columns = [
            ~mask[..., part.mask].any(dim=-1) if _has_options(part.head) else mask.new_zeros(mask.shape[:-1])
            for part in self.parts
        ]
        return torch.stack(columns, dim=-1)


@dataclass(frozen=True)
class ActionDistribution:
    """The joint distribution of all heads at a batch of decisions.

    Attributes:
        layout: Where each head lies.
        parameters: (..., P) means and logits.
        log_std: (G,) log standard deviation of every gaussian dimension before squashing; (..., G) where rows differ.
        mask: (..., M) bool.
    """

    layout: ActionLayout
    parameters: Float[Tensor, "... P"]
    log_std: Float[Tensor, "... G"]
    mask: Bool[Tensor, "... M"]

    def sample(self, rng: torch.Generator) -> Float[Tensor, "... A"]:
        """Draw raw actions; masked-out switches stay off, illegal options have probability 0."""
        noise = self.layout.draw_noise(self.parameters.shape[:-1], rng)
        return self.layout.choose(self.parameters, noise, self.layout.noise_scale(self.log_std), self.mask)

    def log_prob(self, raw: Float[Tensor, "... A"]) -> Float[Tensor, "... heads"]:
        """Log-probability (density, for gaussian heads after squashing) of each head's raw action."""
        return torch.stack([self._log_prob(part, raw[..., part.raw]) for part in self.layout.parts], dim=-1)

    def entropy(self, rng: torch.Generator) -> Float[Tensor, "... heads"]:
        """Entropy of each head, with gradient to means as well as scales.

        Gaussian and bernoulli heads count in nats. A categorical head counts in shares of ln(legal options), the most
        that it can have: how many contacts are about does not decide how much exploring pays. One option gives 0.

        A squashed Gaussian has no closed form: its correction E[ln(1 - tanh(u)^2)] is estimated from one fresh
        reparameterised sample per decision. Dimensions that do not matter and illegal options contribute nothing.
        """
        return self.entropy_from(self.layout.draw_entropy_noise(self.parameters.shape[:-1], rng))

    def entropy_from(self, noise: Float[Tensor, "... G"]) -> Float[Tensor, "... heads"]:
        """The same, with the sample that standard normal noise stands for."""
        return torch.stack([self._entropy(part, noise[..., part.log_std]) for part in self.layout.parts], dim=-1)

    def _log_prob(self, part: Part, raw: Tensor) -> Tensor:
        parameters = self.parameters[..., part.parameters].float()
        match part.head.kind:
            case HeadKind.GAUSSIAN:
                log_std = self.log_std[..., part.log_std]
                z = (raw - parameters) * torch.exp(-log_std)
                each = -0.5 * z * z - log_std - HALF_LOG_2_PI - log_squash_slope(raw)
            case HeadKind.BERNOULLI:
                each = -F.binary_cross_entropy_with_logits(parameters, raw, reduction="none")
            case HeadKind.CATEGORICAL:
                log_probs = self._logits(part).log_softmax(dim=-1)
                return log_probs.gather(-1, raw.long()).squeeze(-1)
        return self._masked_sum(part, each)

    def _entropy(self, part: Part, noise: Tensor) -> Tensor:
        parameters = self.parameters[..., part.parameters].float()
        match part.head.kind:
            case HeadKind.GAUSSIAN:
                log_std = self.log_std[..., part.log_std]
                u = parameters + log_std.exp() * noise
                each = 0.5 + HALF_LOG_2_PI + log_std + log_squash_slope(u)
            case HeadKind.BERNOULLI:
                each = F.softplus(parameters) - parameters * torch.sigmoid(parameters)
            case HeadKind.CATEGORICAL:
                log_probs = self._logits(part).log_softmax(dim=-1)
                entropy = -(log_probs.exp() * log_probs).sum(dim=-1)
                return entropy / self._most_entropy(part)
        return self._masked_sum(part, each)

    def _most_entropy(self, part: Part) -> Tensor | float:
        """Entropy of a categorical head whose legal options are equally likely; ln 2 where there is only one."""
        if not part.head.masked:
            return math.log(max(part.head.size, 2))
        return self.mask[..., part.mask].sum(dim=-1).clamp(min=2).log()

    def _logits(self, part: Part) -> Tensor:
        logits = self.parameters[..., part.parameters].float()
        return logits.masked_fill(~self.mask[..., part.mask], ILLEGAL_LOGIT) if part.head.masked else logits

    def _masked_sum(self, part: Part, each: Tensor) -> Tensor:
        return (each.where(self.mask[..., part.mask], 0.0) if part.head.masked else each).sum(dim=-1)


def log_squash_slope(u: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """ln(1 - tanh(u)^2) = 2 (ln 2 - u - softplus(-2u)), finite and accurate for every finite u.

    Source: the TensorFlow Probability `Tanh` bijector's derivation.
    """
    return 2.0 * (LOG_2 - u - F.softplus(-2.0 * u))


def _raw_width(head: ActionHead) -> int:
    return 1 if head.kind is HeadKind.CATEGORICAL else head.size


def _mask_width(head: ActionHead) -> int:
    return head.size if head.masked else 0


def _log_std_width(head: ActionHead) -> int:
    return head.size if head.kind is HeadKind.GAUSSIAN else 0


def _has_options(head: ActionHead) -> bool:
    return head.masked and head.kind is HeadKind.CATEGORICAL


def _noise(head: ActionHead, shape: Sequence[int], rng: torch.Generator) -> Tensor:
    if head.kind is HeadKind.GAUSSIAN:
        return torch.randn(*shape, head.size, generator=rng, device=rng.device)
    chance = torch.rand(*shape, head.size, generator=rng, device=rng.device).clamp_(min=LEAST_CHANCE)
    if head.kind is HeadKind.BERNOULLI:
        return chance.logit_()
    return chance.log_().neg_().log_().neg_()


def _choice(part: Part, noisy: Tensor, mask: Tensor) -> Tensor:
    """A head's raw action: logits with logistic noise are above 0, and with Gumbel's largest, as often as they say."""
    match part.head.kind:
        case HeadKind.GAUSSIAN:
            return noisy
        case HeadKind.BERNOULLI:
            on = noisy > 0.0
            return (on & mask if part.head.masked else on).float()
        case HeadKind.CATEGORICAL:
            legal = noisy.masked_fill(~mask, -math.inf) if part.head.masked else noisy
            return legal.argmax(dim=-1, keepdim=True).float()


def _wide(ones: Tensor, size: int) -> Tensor:
    return ones.expand(*ones.shape[:-1], size)


def _environment_action(kind: HeadKind, raw: Tensor) -> Tensor:
    match kind:
        case HeadKind.GAUSSIAN:
            return torch.tanh(raw).nan_to_num(0.0)
        case HeadKind.BERNOULLI:
            return raw > 0.5
        case HeadKind.CATEGORICAL:
            return raw.squeeze(-1).long()


def _raw_action(kind: HeadKind, action: Tensor) -> Tensor:
    match kind:
        case HeadKind.GAUSSIAN:
            return torch.atanh(action.float().clamp(-LARGEST_SQUASHED, LARGEST_SQUASHED))
        case HeadKind.BERNOULLI:
            return action.float()
        case HeadKind.CATEGORICAL:
            return action.unsqueeze(-1).float()


def _relevant(head: ActionHead, mask: Tensor) -> Tensor:
    return mask.sum(dim=-1) > 1 if head.kind is HeadKind.CATEGORICAL else mask.any(dim=-1)
