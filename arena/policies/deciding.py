"""One decision of agents of environments in one piece: looking, deciding, acting. Contract for whoever does it all."""

from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.protocol import Actions, Observation
from arena.policies.cores import RecurrentState


class Decision(NamedTuple):
    """Where one decision of R rows is kept, to be written into.

    Attributes:
        observation: What a row's agent perceives.
        mask: Packed action masks.
        raw: Raw action, as `ActionLayout` lays it out.
        active: Whether the agent acts.
        episode_start: Whether the observation opens an episode.
    """

    observation: Float[Tensor, "R D"]
    mask: Bool[Tensor, "R M"]
    raw: Float[Tensor, "R A"]
    active: Bool[Tensor, " R"]
    episode_start: Bool[Tensor, " R"]


class Look(NamedTuple):
    """What rows look at, and through whose eyes.

    Attributes:
        observation: What all agents perceive; leading axes (E, N).
        opened: Environments whose observation opens an episode.
        numbers: Number e * N + i of every row's agent.
        present: Rows that are these agents; the others only look through their eyes, and never act.
    """

    observation: Observation
    opened: Bool[Tensor, " E"]
    numbers: Int[Tensor, " R"]
    present: Bool[Tensor, " R"]


class Draw(NamedTuple):
    """Chance of a decision and what it is multiplied by, slot by slot; see `ActionLayout.choose`."""

    noise: Float[Tensor, "R P"]
    scale: Float[Tensor, "K P"]


class Said(NamedTuple):
    """Memory for what networks say: parameters and value (R, P + 1), and the state after the decision."""

    readout: Float[Tensor, "R _"]
    state: RecurrentState


@runtime_checkable
class Decide(Protocol):
    """One decision of R rows, from what their agents see to what these do.

    Inactive rows choose something, too, which has no meaning.
    """

    def __call__(self, look: Look, state: RecurrentState, draw: Draw, into: Decision, said: Said, do: Actions) -> None:
        """Write the decision, what the networks said, and actions among those of all agents (E * N, ...)."""
        ...
