"""Sections that say what learns, and how."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from arena.policies import CoreKind, EncoderKind
from trainer.schedules import Shape
from trainer.settings.section import Section

Factor = Annotated[float, Field(ge=0.0)]
"""A multiple."""

MEMBER_SIZE = 32
"""Width of what each member of a set is read as, where nobody says anything else."""

Width = Annotated[int, Field(ge=1, le=8192)]
"""Units of a layer."""


class NetworkSettings(Section):
    """The recurrent actor-critic."""

    encoder: EncoderKind = Field(EncoderKind.TANH, description="What the encoder's layers end in: relu_norm or tanh")
    encoder_sizes: tuple[Width, ...] = Field((128,), min_length=1, description="Width of each encoder layer, 1 to 8192")
    core: CoreKind = Field(
        CoreKind.LSTM, description="What carries memory: lstm, feedforward for none, or module for the user's module"
    )
    recurrent_size: int = Field(128, ge=1, le=8192, description="Width of the core")
    member_size: int | None = Field(
        None,
        ge=0,
        le=8192,
        description="Width of what each member of a set, such as a contact, is read as; 0 reads places; "
        f"{MEMBER_SIZE} where a game shows sets, unless its preset says otherwise",
    )
    image_channels: int = Field(
        16, ge=0, le=1024, description="Channels of the first convolution over an image; 0 reads it place by place"
    )
    embedding_size: int = Field(
        16, ge=1, le=8192, description="Width of what a choice of many is read as, such as a word or a card"
    )
    module: str = Field(
        "", description="MODULE:CLASS of your own that takes the encoder's place, and by core that of the core, too"
    )
    initial_log_std: float = Field(
        -0.5, ge=-5.0, le=2.0, description="Log standard deviation of continuous actions at the start"
    )


class Precision(StrEnum):
    """What the factors of the update's large products are rounded to."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class RolloutSettings(Section):
    """What is collected between two updates."""

    steps: int = Field(128, ge=1, le=65536, description="Decisions of every environment per update")
    chunk: int = Field(16, ge=1, le=1024, description="Decisions that gradients flow back through; divides `steps`")

    @model_validator(mode="after")
    def _chunks_fill_the_rollout(self) -> "RolloutSettings":
        if self.steps % self.chunk:
            raise ValueError(
                f"rollout.steps is {self.steps}, which is no multiple of rollout.chunk {self.chunk}: set it to "
                f"{_multiple_near(self.steps, self.chunk)}, or rollout.chunk to a divisor of it"
            )
        return self


def _multiple_near(number: int, divisor: int) -> int:
    return max(1, round(number / divisor)) * divisor


class PPOSettings(Section):
    """The objective.

    Two epochs, since recurrent states stored in the rollout go stale as weights move. The KL stop, 1.5 times the
    target, comes before the optimiser's step: the batch that went too far is not learned from.
    """

    gamma: float = Field(0.995, ge=0.0, le=1.0, description="Discount per decision")
    gae_lambda: float = Field(
        0.95,
        ge=0.0,
        le=1.0,
        description="How far advantages go by what was earned: 0 asks the critic after one decision, 1 never",
    )
    clip: float = Field(0.2, gt=0.0, lt=1.0, description="Clip range of the probability ratio")
    epochs: int = Field(2, ge=1, le=100, description="Passes over a rollout")
    minibatches: int = Field(4, ge=1, le=4096, description="Optimiser steps per pass")
    burn_in: int = Field(
        0,
        ge=0,
        description="Decisions of a chunk that only refresh its stored memory and are not learned from",
    )
    target_kl: float = Field(0.015, gt=0.0, description="KL divergence that an update aims to stay under")
    kl_stop: float = Field(1.5, ge=1.0, description="Stop the update before a step at this many times target_kl")
    value_coefficient: float = Field(0.5, ge=0.0, description="Weight of the critic's loss")
    value_clip: float = Field(
        0.0, ge=0.0, description="How far the critic may profit from moving, in its own units; 0 for any distance"
    )
    value_huber: float = Field(
        0.0, ge=0.0, description="The critic's errors beyond this count linearly, in its own units; 0 for squares"
    )
    entropy_factors: dict[str, Factor] = Field(
        {}, description="Weight of a head's entropy, such as { comm = 0.25 }; 1 where a head is not named"
    )
    entropy_floors: dict[str, float] = Field(
        {}, description="A head whose mean entropy is less gets the bonus of the start, whatever the schedule says"
    )
    magnet: float = Field(
        0.0,
        ge=0.0,
        description="How strongly a main is pulled towards the mean that it publishes, such as 0.2, per nat that it is "
        "away from that; needs league.average_steps; 0 for not at all",
    )
    auxiliary_weight: float = Field(
        0.0, ge=0.0, description="Weight of predicting the next observation, such as 0.01; 0 leaves it out"
    )
    precision: Precision = Field(
        Precision.FLOAT32,
        description="Factors of the update's products: float32 or bfloat16; losses, sums and weights stay in float32",
    )
    renewed: bool = Field(
        False, description="Values and advantages anew before every epoch but the first, under the weights of then"
    )
    microbatch: int = Field(
        0,
        ge=0,
        description="Decisions of a minibatch that go through the network and back at a time; gradients add up. 0 for "
        "as many as a processor's caches hold, and for all of them on a GPU",
    )
    recomputed_parts: int = Field(
        0,
        ge=0,
        description="Parts of a minibatch whose activations are computed again one after another, which saves memory "
        "and costs time; 0 keeps all",
    )
    compile: str = Field(
        "", description="Backend of torch.compile for the way from samples to loss, such as inductor; empty for none"
    )
    nonfinite_limit: int = Field(10, ge=1, description="Give up after this many non-finite updates in a row")


class OptimizerSettings(Section):
    """Adam."""

    epsilon: float = Field(1e-5, gt=0.0, description="Added to Adam's denominator")
    max_gradient_norm: float = Field(0.5, gt=0.0, description="Gradients are scaled down to this norm")
    critic_learning_rate_factor: float = Field(
        1.0, gt=0.0, description="Learning rate of the critic's layer, in learning rates of the rest"
    )
    critic_weight_decay: float = Field(0.0, ge=0.0, description="Weight decay of the critic's layer; no other decays")


class NormalizationSettings(Section):
    """Scales.

    Rewards are divided by the running standard deviation of the discounted return and keep their mean: shifting them
    would change the task.
    """

    reward_clip: float = Field(10.0, gt=0.0, description="Scaled rewards are clipped to +- this")
    observation_std_floor: float = Field(0.01, gt=0.0, description="Least standard deviation of a feature")
    advantage_std_floor: float = Field(
        1e-4, gt=0.0, description="Advantages that spread less are centred but not scaled up"
    )
    advantage_role_samples: int = Field(
        0,
        ge=0,
        description="Normalise advantages role by role where a role has this many samples; 0 takes all roles together",
    )


class ScheduleSettings(Section):
    """Values that fall over the horizon and stay there."""

    horizon_steps: int = Field(20_000_000, ge=1, description="Environment steps until the final values")
    shape: Shape = Field(Shape.LINEAR, description="How they fall: linear or cosine")
    learning_rate: float = Field(3e-4, ge=0.0, description="Learning rate at the start")
    learning_rate_final: float = Field(3e-5, ge=0.0, description="Learning rate at the horizon")
    learning_rate_warm_up_steps: int = Field(
        0, ge=0, description="Environment steps over which the learning rate rises from 0; 0 starts with all of it"
    )
    entropy: float = Field(0.05, ge=0.0, description="Weight of the entropy bonus at the start")
    entropy_final: float = Field(0.01, ge=0.0, description="Weight of the entropy bonus at the horizon")
    value_warm_up_steps: int = Field(
        0, ge=0, description="Environment steps over which the critic's weight rises from 0; 0 starts with all of it"
    )
