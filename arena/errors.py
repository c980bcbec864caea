"""Errors that a user of the arena can cause: one line with the value, the rule and the remedy."""

from typing import ClassVar

EXCERPT_LENGTH = 160


def escape_unprintable(error: object) -> str:
    """Return the text of an error with lone surrogates escaped, which cannot be printed or stored."""
    return str(error).encode(errors="backslashreplace").decode()


def truncate(text: object) -> str:
    """Return the beginning of foreign text on one line."""
    line = " ".join(str(text).split())
    return line if len(line) <= EXCERPT_LENGTH else f"{line[:EXCERPT_LENGTH]}..."


class ArenaError(ValueError):
    """Base of all errors that a caller of the arena can cause and correct.

    Attributes:
        code: Stable name of the class, for programs.
    """

    code: ClassVar[str] = "arena-error"


class InputError(ArenaError):
    """An argument of a call is out of range, or does not fit the others."""

    code = "invalid-input"


class GameError(ArenaError):
    """A game does not match its declaration, or does something that the contract forbids."""

    code = "invalid-game"


class CallOrderError(ArenaError):
    """A call precedes one that it requires, or another one is still running."""

    code = "call-order"


class MissingPackageError(ArenaError):
    """A required package is not installed or cannot be loaded."""

    code = "missing-package"


class UnknownEnvironmentError(ArenaError):
    """No environment of that name is registered."""

    code = "unknown-environment"


class InvalidActionError(ArenaError):
    """Actions do not fit the environment's heads."""

    code = "invalid-action"


class CheckpointError(ArenaError):
    """A checkpoint file cannot be read, or does not fit the network."""

    code = "invalid-checkpoint"


class OnnxModelError(ArenaError):
    """An ONNX model is malformed, breaks a rule, or does not fit the game.

    Attributes:
        rule: The violated rule, with the offending value.
        remedy: The remedy.
    """

    code = "invalid-onnx-model"

    def __init__(self, rule: str, remedy: str) -> None:
        self.rule, self.remedy = rule, remedy
        super().__init__(f"{rule}: {remedy}")


class ModuleNotAllowedError(CheckpointError):
    """A checkpoint needs a network module that the user has not allowed."""

    code = "module-not-allowed"


class NetworkModuleError(ArenaError):
    """A user-defined network module is missing, or breaks a rule for networks."""

    code = "invalid-network-module"


class UnknownPolicyError(ArenaError):
    """No baseline of that name exists for the environment."""

    code = "unknown-policy"


class LostMatchesError(ArenaError):
    """Processes that play matches die repeatedly."""

    code = "lost-matches"
