"""What a user of the arena can cause: one line that names the value, the rule and the way out."""

from typing import ClassVar


def escape_unprintable(error: object) -> str:
    """What an error says, with half characters, which JSON can spell and nobody can print or store, written out."""
    return str(error).encode(errors="backslashreplace").decode()


class ArenaError(ValueError):
    """Base of every error that a caller of the arena can cause and mend.

    Attributes:
        code: Stable name of the class for programs.
    """

    code: ClassVar[str] = "arena-error"


class InputError(ArenaError):
    """An argument of a call is out of range, or does not fit the others."""

    code = "invalid-input"


class GameError(ArenaError):
    """A game cannot be played as it declares itself, or does something that its declaration does not allow."""

    code = "invalid-game"


class CallOrderError(ArenaError):
    """A call comes before one that it needs, or while another one is not finished."""

    code = "call-order"


class MissingPackageError(ArenaError):
    """A package that is needed is not installed, or does not load."""

    code = "missing-package"


class UnknownEnvironmentError(ArenaError):
    """No environment of that name is registered."""

    code = "unknown-environment"


class InvalidActionError(ArenaError):
    """Actions do not fit the environment's heads."""

    code = "invalid-action"


class CheckpointError(ArenaError):
    """A checkpoint file cannot be read, or does not fit what it is loaded into."""

    code = "invalid-checkpoint"


class NetworkModuleError(ArenaError):
    """A network module of the user's is not there, or does not do what a network has to."""

    code = "invalid-network-module"


class UnknownPolicyError(ArenaError):
    """No baseline of that name exists for the environment."""

    code = "unknown-policy"


class LostMatchesError(ArenaError):
    """Processes that play matches die again and again."""

    code = "lost-matches"
