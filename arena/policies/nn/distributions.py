"""Factored action distributions: tanh-squashed Gaussian, Bernoulli and masked categorical heads.

Samples are stored *raw* in one float tensor (..., A): the value before tanh for a gaussian head, 0 or 1 for a bernoulli
head, and the option's index for a categorical head. Storing the value before tanh reproduces log-probabilities exactly
even in saturation.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments.base import Actions, Observation
from arena.environments.spec import ActionHead, HeadKind

ILLEGAL_LOGIT = -1e4
"""Logit of an illegal option. It is finite in float16, and its softmax is exactly 0 in single precision."""

MAX_TANH = 1.0 - 2.0**-24
"""Largest single-precision number below 1."""

MIN_UNIFORM = 2.0**-25
"""Replaces a uniform sample of exactly 0, whose logarithm is infinite; half of the smallest positive sample."""

LOG_2 = math.log(2.0)
HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class HeadSlices:
    """Slices of one head in the flat tensors: parameters (P), raw action (A), mask (M) and log-stds (G)."""

    head: ActionHead
    parameters: slice
    raw: slice
    mask: slice
    log_std: slice


@dataclass(frozen=True)
class ActionLayout:
    """Flat layout of a policy's action heads, in the order of `heads`."""

    heads: tuple[ActionHead, ...]

    @cached_property
    def parts(self) -> tuple[HeadSlices, ...]:
        """Slices of every head."""
        parts: list[HeadSlices] = []
        p = a = m = g = 0
        for head in self.heads:
            p_end, a_end = p + head.size, a + _raw_width(head)
            m_end, g_end = m + _mask_width(head), g + _log_std_width(head)
            parts.append(HeadSlices(head, slice(p, p_end), slice(a, a_end), slice(m, m_end), slice(g, g_end)))
            p, a, m, g = p_end, a_end, m_end, g_end
        return tuple(parts)

    @cached_property
    def groups(self) -> tuple[tuple[HeadSlices, ...], ...]:
        """Heads that are evaluated together: on a device, every operation on one more head costs a launch.

        They are of one kind, and all masked or none of them. Options of masked categorical heads can be padded to the
        same number by illegal ones, those of others cannot.
        """
        groups: dict[tuple[HeadKind, bool, int], list[HeadSlices]] = {}
        for part in self.parts:
            kind, masked, size = part.head.kind, part.head.masked, part.head.size
            options = size if kind is HeadKind.CATEGORICAL and not masked else 0
            groups.setdefault((kind, masked, options), []).append(part)
        return tuple(map(tuple, groups.values()))

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
        """Concatenate the masks of masked heads; (..., 0) if there are none."""
        packed = [observation.masks[part.head.name] for part in self.parts if part.head.masked]
        active = observation.active
        return torch.cat(packed, dim=-1) if packed else active.new_ones(*active.shape, 0)

    def to_actions(self, raw: Float[Tensor, "... A"]) -> Actions:
        """Convert raw actions into the environment's actions.

        NaN becomes 0, so that a network with overflowing weights cannot crash the match it plays in.
        """
        return {part.head.name: _environment_action(part.head.kind, raw[..., part.raw]) for part in self.parts}

    def from_actions(self, actions: Actions) -> Float[Tensor, "... A"]:
        """Convert environment actions, for example of a recording, into raw actions.

        A squashed value of exactly +-1 has no finite inverse. It is clamped to the largest single-precision number
        below 1, which gives |u| = 8.7, where log-probabilities and their gradients are finite.
        """
        parts = [_raw_action(part.head.kind, actions[part.head.name]) for part in self.parts]
        return torch.cat(parts, dim=-1)

    def draw_noise(self, shape: Sequence[int], rng: torch.Generator) -> Float[Tensor, "... P"]:
        """Sample noise for `sample_with_noise` on the generator's device, one number per parameter.

        Normal for gaussian heads, logistic for bernoulli heads and Gumbel for categorical heads.
        """
        return torch.cat([each for run in self._runs_of_kinds for each in _noise(run, shape, rng)], dim=-1)

    @cached_property
    def _runs_of_kinds(self) -> tuple[tuple[ActionHead, ...], ...]:
        """Neighbouring heads whose noise is drawn together: gaussian heads one by one, all others in one run."""
        runs = itertools.groupby(enumerate(self.heads), lambda item: item[0] if _is_gaussian(item[1]) else -1)
        return tuple(tuple(head for _, head in run) for _, run in runs)

    def draw_entropy_noise(self, shape: Sequence[int], rng: torch.Generator) -> Float[Tensor, "... G"]:
        """Sample the standard normal noise of the entropy estimate, on the generator's device."""
        return torch.randn(*shape, self.log_std_size, generator=rng, device=rng.device)

    def noise_scale(self, log_std: Float[Tensor, "... G"]) -> Float[Tensor, "... P"]:
        """Return the factor of the noise: the standard deviation for gaussian dimensions, otherwise 1."""
        ones = log_std.new_ones(*log_std.shape[:-1], 1)
        columns = [
            log_std[..., part.log_std].exp() if part.head.kind is HeadKind.GAUSSIAN else _expand(ones, part.head.size)
            for part in self.parts
        ]
        return torch.cat(columns, dim=-1)

    def sample_with_noise(
        self,
        parameters: Float[Tensor, "... P"],
        noise: Float[Tensor, "... P"],
        scale: Float[Tensor, "... P"],
        mask: Bool[Tensor, "... M"],
    ) -> Float[Tensor, "... A"]:
        """Sample raw actions by reparameterisation; masked switches stay off, illegal options are never sampled."""
        noisy = torch.addcmul(parameters.float(), noise, scale)
        if all(map(_is_gaussian, self.heads)):
            return noisy
        chosen = [_decide(part, noisy[..., part.parameters], mask[..., part.mask]) for part in self.parts]
        return torch.cat(chosen, dim=-1)

    def head_has_choice(self, mask: Bool[Tensor, "... M"]) -> Bool[Tensor, "... heads"]:
        """Whether a head has a choice: an unmasked dimension or switch, or at least two legal options."""
        columns = [
            _has_choice(part.head, mask[..., part.mask]) if part.head.masked else mask.new_ones(mask.shape[:-1])
            for part in self.parts
        ]
        return torch.stack(columns, dim=-1)

    def no_legal_option(self, mask: Bool[Tensor, "... M"]) -> Bool[Tensor, "... heads"]:
        """Whether a head is categorical and its mask allows no option."""
        columns = [
            ~mask[..., part.mask].any(dim=-1) if _is_masked_categorical(part.head) else mask.new_zeros(mask.shape[:-1])
            for part in self.parts
        ]
        return torch.stack(columns, dim=-1)


@dataclass(frozen=True)
class ActionDistribution:
    """The joint distribution of all heads at a batch of decisions.

    Attributes:
        layout: Layout of the heads.
        parameters: (..., P) means and logits.
        log_std: (G,) log standard deviation of every gaussian dimension before tanh; (..., G) if rows differ.
        mask: (..., M) bool, true for legal options.
    """

    layout: ActionLayout
    parameters: Float[Tensor, "... P"]
    log_std: Float[Tensor, "... G"]
    mask: Bool[Tensor, "... M"]

    def sample(self, rng: torch.Generator) -> Float[Tensor, "... A"]:
        """Sample raw actions; masked switches stay off, illegal options are never sampled."""
        noise = self.layout.draw_noise(self.parameters.shape[:-1], rng)
        return self.layout.sample_with_noise(self.parameters, noise, self.layout.noise_scale(self.log_std), self.mask)

    def log_prob(self, raw: Float[Tensor, "... A"]) -> Float[Tensor, "... heads"]:
        """Log-probability of each head's raw action; for gaussian heads the log-density after tanh."""
        return self._log_prob(raw, self._evaluate_groups())

    def log_probs(self) -> Float[Tensor, "... K"]:
        """Log-probabilities of all options; the layout has a categorical head and no other."""
        (group,) = self._evaluate_groups()
        return group.parameters.squeeze(-2)

    def entropy(self, rng: torch.Generator) -> Float[Tensor, "... heads"]:
        """Entropy of each head, with gradients to means and scales.

        Gaussian and bernoulli heads are in nats. A categorical head is normalised by ln(legal options), its maximum, so
        that the entropy bonus does not depend on how many options happen to be legal. A single option gives 0.

        The entropy of a squashed Gaussian has no closed form. Its correction E[ln(1 - tanh(u)^2)] is estimated from one
        reparameterised sample per decision. Masked dimensions and illegal options contribute 0.
        """
        return self.entropy_from(self.layout.draw_entropy_noise(self.parameters.shape[:-1], rng))

    def entropy_from(self, noise: Float[Tensor, "... G"]) -> Float[Tensor, "... heads"]:
        """Entropy of each head, estimated with given standard normal noise."""
        return self._entropy(noise, self._evaluate_groups())

    def log_prob_and_entropy(
        self, raw: Float[Tensor, "... A"], noise: Float[Tensor, "... G"]
    ) -> tuple[Float[Tensor, "... heads"], Float[Tensor, "... heads"]]:
        """Return the results of `log_prob` and `entropy_from`, which share the softmax of categorical heads."""
        groups = self._evaluate_groups()
        return self._log_prob(raw, groups), self._entropy(noise, groups)

    def _evaluate_groups(self) -> "list[_Group]":
        parts, illegal = self.layout.parts, ~self.mask
        if torch.compiler.is_compiling():  # a compiler fuses the operations of all heads, unless they are joined
            return [_Group.of((part,), [self.parameters[..., part.parameters].float()], illegal) for part in parts]
        # One split and not a slice for each use: the gradients of its parts are joined in one operation.
        pieces = torch.split(self.parameters.float(), [part.head.size for part in parts], dim=-1)
        named = {part.head.name: piece for part, piece in zip(parts, pieces, strict=True)}
        return [_Group.of(group, [named[part.head.name] for part in group], illegal) for group in self.layout.groups]

    def _log_prob(self, raw: Tensor, groups: "Sequence[_Group]") -> Tensor:
        columns: dict[str, Tensor] = {}
        for group in groups:
            action = group.join(raw, "raw")
            match group.kind:
                case HeadKind.GAUSSIAN:
                    negative_log_std = -group.join(self.log_std, "log_std")
                    # A product with exp(-log_std) needs no guard against a division by 0.
                    z = (action - group.parameters) * negative_log_std.exp()
                    each = torch.addcmul(negative_log_std, z, z, value=-0.5) - HALF_LOG_2_PI - log_squash_slope(action)
                    columns |= group.sum_heads(each)
                case HeadKind.BERNOULLI:
                    each = -F.binary_cross_entropy_with_logits(group.parameters, action, reduction="none")
                    columns |= group.sum_heads(each)
                case HeadKind.CATEGORICAL:
                    chosen = group.parameters.gather(-1, action.long().unsqueeze(-1)).squeeze(-1)
                    columns |= group.by_head(chosen)
        return self._in_order(columns)

    def _entropy(self, noise: Tensor, groups: "Sequence[_Group]") -> Tensor:
        columns: dict[str, Tensor] = {}
        for group in groups:
            match group.kind:
                case HeadKind.GAUSSIAN:
                    log_std = group.join(self.log_std, "log_std")
                    u = torch.addcmul(group.parameters, log_std.exp(), group.join(noise, "log_std"))
                    # The Gaussian part has a closed form, so only the correction for tanh adds sampling noise.
                    columns |= group.sum_heads((0.5 + HALF_LOG_2_PI + log_std) + log_squash_slope(u))
                case HeadKind.BERNOULLI:
                    # softplus(l) - l sigmoid(l) is exact for large logits, where p ln p would need the logarithm of 0.
                    logits = group.parameters
                    columns |= group.sum_heads(F.softplus(logits) - logits * torch.sigmoid(logits))
                case HeadKind.CATEGORICAL:
                    log_probs = group.parameters
                    columns |= group.by_head((log_probs.exp() * log_probs).sum(dim=-1) / -group.max_entropy)
        return self._in_order(columns)

    def _in_order(self, columns: Mapping[str, Tensor]) -> Float[Tensor, "... heads"]:
        return torch.stack([columns[head.name] for head in self.layout.heads], dim=-1)


class _Group(NamedTuple):
    """Heads of a group side by side.

    Attributes:
        parts: Slices of the heads.
        parameters: Means or logits (..., n) of all heads; log-probabilities (..., heads, K) of categorical heads, with
            the options padded to the same number.
        illegal: Where masks are false, in the shape of `parameters`; None for heads without a mask.
    """

    parts: tuple[HeadSlices, ...]
    parameters: Tensor
    illegal: Tensor | None

    @classmethod
    def of(
        cls, parts: tuple[HeadSlices, ...], parameters: Sequence[Tensor], illegal: Bool[Tensor, "... M"]
    ) -> "_Group":
        """Evaluate heads, given the parameters of each, and where the masks of all heads are false."""
        is_masked, is_categorical = parts[0].head.masked, parts[0].head.kind is HeadKind.CATEGORICAL
        masks = [illegal[..., part.mask] for part in parts]
        if not is_categorical:
            return cls(parts, _concatenate(parameters), _concatenate(masks) if is_masked else None)
        logits = _stack(parameters, 0.0)
        if not is_masked:
            return cls(parts, logits.log_softmax(dim=-1), None)
        outside = _stack(masks, 1.0)
        return cls(parts, logits.masked_fill(outside, ILLEGAL_LOGIT).log_softmax(dim=-1), outside)

    @property
    def kind(self) -> HeadKind:
        """Kind of all heads."""
        return self.parts[0].head.kind

    @property
    def max_entropy(self) -> Tensor | float:
        """Maximum entropy ln(legal options) of categorical heads (..., heads); ln 2 if there is only one."""
        options = self.parameters.shape[-1]
        if self.illegal is None:
            return math.log(max(options, 2))
        return (options - self.illegal.sum(dim=-1)).clamp(min=2).log()

    def join(self, flat: Tensor, columns: str) -> Tensor:
        """Select the columns of all heads, given the name of their slice."""
        return _concatenate([flat[..., getattr(part, columns)] for part in self.parts])

    def sum_heads(self, each: Tensor) -> dict[str, Tensor]:
        """Sum over the legal dimensions or switches of each head."""
        # Not a product: 0 times an infinite entry would be NaN. Not `where`, which first writes 0 to the device.
        filled = each if self.illegal is None else each.masked_fill(self.illegal, 0.0)
        # No split of one head: its gradient would be copied.
        sizes = [part.head.size for part in self.parts]
        pieces = torch.split(filled, sizes, dim=-1) if len(sizes) > 1 else (filled,)
        return {part.head.name: piece.sum(dim=-1) for part, piece in zip(self.parts, pieces, strict=True)}

    def by_head(self, columns: Float[Tensor, "... heads"]) -> dict[str, Tensor]:
        """Name the columns by their heads."""
        single = columns.unbind(dim=-1) if len(self.parts) > 1 else (columns.squeeze(-1),)
        return {part.head.name: each for part, each in zip(self.parts, single, strict=True)}


def _concatenate(pieces: Sequence[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(list(pieces), dim=-1)


def _stack(pieces: Sequence[Tensor], padding: float) -> Tensor:
    """Stack the last axes of tensors, padded to the same length."""
    size = max(piece.shape[-1] for piece in pieces)
    short = [size - piece.shape[-1] for piece in pieces]
    padded = [F.pad(piece, (0, few), value=padding) if few else piece for piece, few in zip(pieces, short, strict=True)]
    return padded[0].unsqueeze(-2) if len(padded) == 1 else torch.stack(padded, dim=-2)


def log_squash_slope(u: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """ln(1 - tanh(u)^2) = 2 (ln 2 - u - softplus(-2u)), finite and accurate for every finite u.

    Source: the TensorFlow Probability `FastTanh` bijector's derivation.
    """
    # torch divides by beta: this is -softplus(-2u) / 2, without an operation for the product.
    half = F.softplus(u, beta=-2.0)
    return torch.rsub(torch.sub(u, half, alpha=2.0), 2.0 * LOG_2, alpha=2.0)


def _raw_width(head: ActionHead) -> int:
    return 1 if head.kind is HeadKind.CATEGORICAL else head.size


def _mask_width(head: ActionHead) -> int:
    return head.size if head.masked else 0


def _log_std_width(head: ActionHead) -> int:
    return head.size if head.kind is HeadKind.GAUSSIAN else 0


def _is_masked_categorical(head: ActionHead) -> bool:
    return head.masked and head.kind is HeadKind.CATEGORICAL


def _is_gaussian(head: ActionHead) -> bool:
    return head.kind is HeadKind.GAUSSIAN


def _noise(heads: Sequence[ActionHead], shape: Sequence[int], rng: torch.Generator) -> list[Tensor]:
    """Draw the noise of one gaussian head, or of neighbouring other heads, whose uniform numbers are drawn at once."""
    if _is_gaussian(heads[0]):
        return [torch.randn(*shape, heads[0].size, generator=rng, device=rng.device)]
    sizes = [math.prod(shape) * head.size for head in heads]
    chance = torch.rand(sum(sizes), generator=rng, device=rng.device).clamp_(min=MIN_UNIFORM)
    kinds = itertools.groupby(zip(heads, sizes, strict=True), lambda item: item[0].kind)
    totals = [(kind, sum(size for _, size in run)) for kind, run in kinds]
    for (kind, _), run in zip(totals, torch.split(chance, [total for _, total in totals]), strict=True):
        if kind is HeadKind.BERNOULLI:
            run.logit_()  # the logit of a uniform number is logistic
        else:
            # -ln(-ln u) of a uniform number u is Gumbel. The clamp keeps both logarithms finite.
            run.log_().neg_().log_().neg_()
    return [each.view(*shape, head.size) for head, each in zip(heads, torch.split(chance, sizes), strict=True)]


def _decide(part: HeadSlices, noisy: Tensor, mask: Tensor) -> Tensor:
    """Return a head's raw action: a threshold for logistic noise, an argmax for Gumbel noise (Gumbel-max trick)."""
    match part.head.kind:
        case HeadKind.GAUSSIAN:
            return noisy
        case HeadKind.BERNOULLI:
            on = noisy > 0.0
            return (on & mask if part.head.masked else on).float()
        case HeadKind.CATEGORICAL:
            # -inf and not ILLEGAL_LOGIT: Gumbel noise must never lift an illegal option above the legal ones.
            legal = noisy.masked_fill(~mask, -math.inf) if part.head.masked else noisy
            return legal.argmax(dim=-1, keepdim=True).float()


def _expand(ones: Tensor, size: int) -> Tensor:
    return ones.expand(*ones.shape[:-1], size)


def _environment_action(kind: HeadKind, raw: Tensor) -> Tensor:
    match kind:
        case HeadKind.GAUSSIAN:
            # tanh maps infinities to +-1, so only NaN is left to replace.
            return torch.tanh(raw).nan_to_num(0.0)
        case HeadKind.BERNOULLI:
            return raw > 0.5
        case HeadKind.CATEGORICAL:
            return raw.squeeze(-1).long()


def _raw_action(kind: HeadKind, action: Tensor) -> Tensor:
    match kind:
        case HeadKind.GAUSSIAN:
            # atanh(1) is infinite.
            return torch.atanh(action.float().clamp(-MAX_TANH, MAX_TANH))
        case HeadKind.BERNOULLI:
            return action.float()
        case HeadKind.CATEGORICAL:
            return action.unsqueeze(-1).float()


def _has_choice(head: ActionHead, mask: Tensor) -> Tensor:
    return mask.sum(dim=-1) > 1 if head.kind is HeadKind.CATEGORICAL else mask.any(dim=-1)
