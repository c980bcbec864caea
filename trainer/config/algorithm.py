"""Settings of the network and the algorithm."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from arena.policies import CoreKind, EncoderKind
from trainer.config.strict_model import StrictModel

Factor = Annotated[float, Field(ge=0.0)]
"""A multiple."""

MEMBER_SIZE = 32
"""Default width of the embedding of each member of a set."""

Width = Annotated[int, Field(ge=1, le=8192)]
"""Units of a layer."""


class NetworkSettings(StrictModel):
    """The recurrent actor-critic."""

    encoder: EncoderKind = Field(EncoderKind.TANH)
    """Activation of the encoder's layers: relu_norm or tanh."""
    encoder_sizes: tuple[Width, ...] = Field((128,), min_length=1)
    """Width of each encoder layer, 1 to 8192."""
    core: CoreKind = Field(CoreKind.LSTM)
    """lstm, feedforward (no memory), or module (network.module replaces the core, too)."""
    recurrent_size: int = Field(128, ge=1, le=8192)
    """Units of the core."""
    member_size: int | None = Field(None, ge=0, le=8192)
    """Embedding size of each member of a set, such as a radar contact; 0 concatenates the members. Default: 32 in games
    with sets."""
    image_channels: int = Field(16, ge=0, le=1024)
    """Channels of the first convolution over an image; 0 flattens images."""
    embedding_size: int = Field(16, ge=1, le=8192)
    """Embedding size of categorical inputs, such as a word or a card."""
    module: str = Field("")
    """MODULE:CLASS of your own network, which replaces the encoder; with core = "module" the core, too."""
    initial_log_std: float = Field(-0.5, ge=-5.0, le=2.0)
    """Initial log standard deviation of continuous actions."""


class Shape(StrEnum):
    """How a value goes from its start to its end."""

    LINEAR = "linear"
    COSINE = "cosine"


class Precision(StrEnum):
    """Number format of the update's matrix products."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class RolloutSettings(StrictModel):
    """Data collected between two updates."""

    num_steps: int = Field(128, ge=1, le=65536)
    """Decisions of each environment per rollout."""
    bptt_horizon: int = Field(16, ge=1, le=1024)
    """Sequence length of truncated backpropagation through time; divides num_steps."""

    @model_validator(mode="after")
    def _chunks_fill_the_rollout(self) -> "RolloutSettings":
        if self.num_steps % self.bptt_horizon:
            near = max(1, round(self.num_steps / self.bptt_horizon)) * self.bptt_horizon
            raise ValueError(
                f"rollout.num_steps is {self.num_steps}, which is not a multiple of rollout.bptt_horizon "
                f"{self.bptt_horizon}: set it to {near}, or rollout.bptt_horizon to a divisor of it"
            )
        return self


class CompileBackend(StrEnum):
    """How the learner's decisions and its update are compiled."""

    AUTO = "auto"
    NONE = "none"
    INDUCTOR = "inductor"
    CUDAGRAPHS = "cudagraphs"
    AOT_EAGER = "aot_eager"
    EAGER = "eager"

    def for_device(self, device: str) -> "CompileBackend":
        """Return the backend on a device, such as cuda:1: `auto` is inductor on a GPU, and none on a CPU."""
        if self is not CompileBackend.AUTO:
            return self
        return CompileBackend.NONE if device == "cpu" else CompileBackend.INDUCTOR


class AlgorithmSettings(StrictModel):
    """Choice of the learning algorithm."""

    name: str = Field(
        "ppo",
        min_length=1,
        description="ppo, vtrace, or MODULE:CLASS of your own algorithm (docs/guides/train/own-algorithm.md)",
    )
    options: dict[str, bool | int | float | str] = Field(
        {},
        description="Keyword arguments of the algorithm's class; those of vtrace: { clip_rho = 1.0, clip_c = 1.0 }",
    )


class PPOSettings(StrictModel):
    """Proximal policy optimisation: the loss and the loop around it.

    Two epochs, since recurrent states stored in the rollout go stale as weights move. The KL stop, 1.5 times the
    target, comes before the optimiser's step: the minibatch that went too far is not learned from.
    """

    gamma: float = Field(0.995, ge=0.0, le=1.0)
    """Discount factor per decision."""
    gae_lambda: float = Field(0.95, ge=0.0, le=1.0)
    """Lambda of generalised advantage estimation: 0 is the one-step TD error, 1 the Monte Carlo return."""
    clip_coef: float = Field(0.2, gt=0.0, lt=1.0)
    """Clip range of the probability ratio."""
    update_epochs: int = Field(2, ge=1, le=100)
    """Passes over each rollout."""
    num_minibatches: int = Field(4, ge=1, le=4096)
    """Minibatches, and so optimiser steps, per pass."""
    burn_in: int = Field(0, ge=0)
    """First decisions of each sequence that only refresh its stored recurrent state and carry no loss."""
    target_kl: float = Field(0.015, gt=0.0)
    """KL divergence that an update aims to stay under."""
    kl_stop: float = Field(1.5, ge=1.0)
    """Stop the update, before the optimiser step, above this multiple of target_kl."""
    vf_coef: float = Field(0.5, ge=0.0)
    """Weight of the value loss."""
    vf_coef_warm_up_steps: int = Field(0, ge=0)
    """Environment steps over which vf_coef rises from 0; 0 disables the warm-up."""
    clip_range_vf: float = Field(0.0, ge=0.0)
    """Clip range of the value function, in normalised returns; 0 disables clipping."""
    huber_delta: float = Field(0.0, ge=0.0)
    """Value errors beyond this, in normalised returns, count linearly (Huber loss); 0 is squared error."""
    normalized_ent_coef: float = Field(0.05, ge=0.0)
    """Weight of the entropy bonus at the start. Entropy of a categorical head is divided by ln(number of legal
    options), so a coefficient for nats, as in the literature, is to be multiplied by ln(options); other heads are in
    nats."""
    normalized_ent_coef_final: float = Field(0.01, ge=0.0)
    """Weight of the entropy bonus from schedules.horizon_steps on."""
    ent_coef_per_head: dict[str, Factor] = Field({})
    """Factors of normalized_ent_coef by action head, such as { comm = 0.25 }; 1 for a head that is not named."""
    entropy_floors: dict[str, float] = Field({})
    """Least mean entropy by action head, such as { move = 0.3 }; below it the head has at least the initial
    normalized_ent_coef."""
    magnet_coef: float = Field(0.0, ge=0.0)
    """Magnetic mirror descent: a main's normalised advantages lose this times (log pi - log pi_EMA), with pi_EMA the
    averaged weights of league.ema_horizon_steps. 0 disables it; try 0.2 in zero-sum games."""
    extra_losses: dict[str, Factor] = Field({})
    """Coefficients of additional losses by MODULE:CLASS, such as { "trainer.ppo.extra_losses:NextObservationLoss" =
    0.01 }."""
    precision: Precision = Field(Precision.FLOAT32)
    """Matrix products of the update: float32, or bfloat16 autocast; weights, sums and losses stay in float32."""
    micro_batch_size: int = Field(0, ge=0)
    """Decisions per forward and backward pass; gradients accumulate over a minibatch. 0 chooses: as many as a CPU's
    caches hold, and whole minibatches on a GPU."""
    compile: CompileBackend = Field(CompileBackend.AUTO)
    """Backend of torch.compile for the update's encoders, heads and loss, but not for its recurrent core, and for the
    learner's decisions without native code; or none. auto is inductor on a GPU and none on a CPU."""
    nonfinite_limit: int = Field(10, ge=1)
    """End the run after this many consecutive updates with NaN or infinity."""


class OptimizerSettings(StrictModel):
    """Adam, and its learning rate."""

    learning_rate: float = Field(0.0003, ge=0.0)
    """Learning rate at the start."""
    learning_rate_final: float = Field(3e-05, ge=0.0)
    """Learning rate from schedules.horizon_steps on."""
    learning_rate_warm_up_steps: int = Field(0, ge=0)
    """Environment steps over which the learning rate rises from 0; 0 disables the warm-up."""
    adam_eps: float = Field(1e-05, gt=0.0)
    """Epsilon in Adam's denominator."""
    max_grad_norm: float = Field(0.5, gt=0.0)
    """Global norm to which gradients are clipped."""
    critic_lr_scale: float = Field(1.0, gt=0.0)
    """Learning rate of the critic's output layer, as a multiple of the learning rate."""
    critic_weight_decay: float = Field(0.0, ge=0.0)
    """Weight decay of the critic's output layer; no other layer has any."""


class NormalizationSettings(StrictModel):
    """Scales of rewards, returns, observations and advantages.

    Rewards are divided by the running standard deviation of the discounted return and keep their mean: shifting them
    would change the task.
    """

    return_window: int = Field(10, ge=0)
    """Updates over which running statistics of rewards and returns forget: each update lowers the weight of earlier
    samples by 1/return_window; 0 weighs all updates alike."""
    observation_window: int = Field(300, ge=0)
    """The same for observations; longer, so that a feature that rarely varies keeps its scale."""
    reward_clip: float = Field(10.0, gt=0.0)
    """Scaled rewards are clipped to +- this value."""
    observation_std_floor: float = Field(0.01, gt=0.0)
    """Least standard deviation that a feature is divided by."""
    advantage_std_floor: float = Field(0.0001, gt=0.0)
    """Least standard deviation of advantages; below it they are centred but not scaled up."""
    norm_adv_per_role_min_samples: int = Field(0, ge=0)
    """Normalise advantages for each role apart, if it has at least this many samples; 0 normalises all roles
    together."""


class ScheduleSettings(StrictModel):
    """How the learning rate and the entropy coefficient move from their initial to their final values."""

    horizon_steps: int = Field(20000000, ge=1)
    """Environment steps after which the final values are reached."""
    shape: Shape = Field(Shape.LINEAR)
    """Shape of the decay: linear or cosine."""
