"""The architecture of a network: everything that is needed to build it, as stored in its checkpoint."""

from dataclasses import dataclass, replace
from enum import StrEnum

from arena.environments.spec import ActionHead, EnvironmentSpec
from arena.policies.nn.embedding_encoder import EmbeddingLayout
from arena.policies.nn.image_encoder import ImageLayout
from arena.policies.nn.mlp import EncoderKind
from arena.policies.nn.set_encoder import SetLayout
from arena.policies.nn.user_module import InputKind, ModuleLayout


class CoreKind(StrEnum):
    """Recurrent core of the network."""

    LSTM = "lstm"
    FEEDFORWARD = "feedforward"
    MODULE = "module"
    """The user's module, which replaces encoder and core."""


@dataclass(frozen=True)
class Architecture:
    """Everything needed to build the network. The field names are part of the checkpoint format.

    Attributes:
        observation_size: D.
        heads: Action heads, in the environment's order.
        encoder: Activation of the encoder's layers.
        encoder_sizes: Width of each encoder layer.
        core: Kind of core.
        recurrent_size: H, width of the core.
        initial_log_std: Log standard deviation of every gaussian dimension at construction.
        sets: Sets with a permutation-invariant encoder; every other entry enters the encoder by position.
        images: Images with a convolutional encoder.
        embeddings: Categorical entries with an embedding table.
        module: The user's module, which reads the whole observation. Sets then only share normalisation statistics.
    """

    observation_size: int
    heads: tuple[ActionHead, ...]
    encoder: EncoderKind
    encoder_sizes: tuple[int, ...]
    core: CoreKind
    recurrent_size: int
    initial_log_std: float
    sets: tuple[SetLayout, ...]
    images: tuple[ImageLayout, ...] = ()
    embeddings: tuple[EmbeddingLayout, ...] = ()
    module: ModuleLayout | None = None

    @classmethod
    def of(
        cls,
        spec: EnvironmentSpec,
        *,
        encoder: EncoderKind = EncoderKind.TANH,
        encoder_sizes: tuple[int, ...] = (128,),
        core: CoreKind = CoreKind.LSTM,
        recurrent_size: int = 128,
        initial_log_std: float = -0.5,
        member_size: int = 0,
        image_channels: int = 16,
        embedding_size: int = 16,
        module: str = "",
    ) -> "Architecture":
        """Return the architecture that fits an environment.

        Args:
            spec: The environment.
            encoder: Activation of the encoder's layers.
            encoder_sizes: Width of each encoder layer; the last is the output size of a module used as encoder.
            core: Kind of core.
            recurrent_size: Width of the core; the output size of a module used as core.
            initial_log_std: Initial log standard deviation of gaussian heads.
            member_size: Encoded features per set member; 0 treats sets as plain numbers.
            image_channels: Channels of the first convolution over an image; 0 treats images as plain numbers.
            embedding_size: Size of embeddings.
            module: `MODULE:CLASS` of the user's network module; empty for none.

        Raises:
            ArenaError: The environment declares an inconsistent set.
        """
        fitted = cls(
            observation_size=spec.observation_size,
            heads=spec.heads,
            encoder=encoder,
            encoder_sizes=encoder_sizes,
            core=core,
            recurrent_size=recurrent_size,
            initial_log_std=initial_log_std,
            sets=SetLayout.from_spec(spec, member_size) if member_size else (),
            images=ImageLayout.from_spec(spec, image_channels) if image_channels else (),
            embeddings=EmbeddingLayout.from_spec(spec, embedding_size),
        )
        if not module:
            return fitted
        sets = tuple(replace(layout, heads=()) for layout in SetLayout.from_spec(spec, width=0))
        return replace(fitted, sets=sets, images=(), embeddings=(), module=ModuleLayout.of(spec, module))

    @property
    def is_stackable(self) -> bool:
        """Whether weights of several such networks can be stacked and multiplied as one batch."""
        return not (self.images or self.embeddings or self.module)

    @property
    def is_plain(self) -> bool:
        """Whether it has linear layers and an LSTM only: stackable, and without sets."""
        return self.is_stackable and not self.sets

    @property
    def fixed_scales(self) -> tuple[tuple[slice, float], ...]:
        """Slices of the observation that are divided by a constant instead of running statistics, and the constants."""
        if self.module is not None:
            return tuple(
                (each.columns, each.limit) for each in self.module.inputs if each.kind is not InputKind.NUMBERS
            )
        images = [(columns, each.limit) for each in self.images for columns in each.slices]
        return (*images, *((columns, 1.0) for each in self.embeddings for columns in each.slices))

    @property
    def categorical_slices(self) -> tuple[slice, ...]:
        """Slices of the observation that hold category numbers."""
        if self.module is not None:
            return tuple(each.columns for each in self.module.inputs if each.kind is InputKind.CHOICES)
        return tuple(columns for each in self.embeddings for columns in each.slices)
