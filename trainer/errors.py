"""Errors that a user can cause; each message is one line with the value, the rule and the remedy."""

from typing import ClassVar


class TrainerError(Exception):
    """Base class of the errors that a user can cause and correct.

    Attributes:
        code: Stable name of the class for programs.
    """

    code: ClassVar[str] = "trainer-error"


class ConfigError(TrainerError):
    """A setting is unknown, or its value is out of range."""

    code = "invalid-setting"


class StateError(TrainerError):
    """A run folder's state cannot be read, or does not fit the configuration."""

    code = "invalid-run-state"


class RunInUseError(TrainerError):
    """The run folder is locked by another process."""

    code = "run-in-use"


class NoRunError(TrainerError):
    """A folder is not a run folder, or its run has no update yet."""

    code = "no-run"


class ExternalPlayerError(TrainerError):
    """An external player's policy failed, or the league no longer admits the player."""

    code = "external-player-failed"


class NonFiniteLossError(TrainerError):
    """Losses or gradients were not finite in too many consecutive updates."""

    code = "non-finite-loss"


class UnusableOpponentError(TrainerError):
    """An opponent's policy cannot be loaded, or is for another environment."""

    code = "unusable-opponent"


class UnavailableOpponentError(UnusableOpponentError):
    """An opponent's policy is not available at the moment; a later attempt may succeed."""

    code = "unavailable-opponent"


class UnsupportedOpponentError(UnusableOpponentError):
    """An opponent's policy needs a package or module that is missing or not allowed here; other workers may play it."""

    code = "unsupported-opponent"


class CallCutShortError(TrainerError):
    """A signal interrupted a call to the league."""

    code = "call-cut-short"


class UnsavedError(TrainerError):
    """A run ended, but its folder could not be written."""

    code = "unsaved-run"


class EnvironmentFaultError(TrainerError):
    """An environment does something that its declaration does not allow."""

    code = "environment-fault"


class StaleOptimizerError(TrainerError):
    """Parameters or gradients have left the storage that an optimizer updates."""

    code = "stale-optimizer"


class FleetError(TrainerError):
    """Members of a fleet cannot be started or restarted."""

    code = "fleet-failed"


class RankLostError(TrainerError):
    """Another rank has ended or does not answer."""

    code = "rank-lost"
