"""Errors that a user can cause; each message is one line with the value, the rule and the remedy."""


class TrainerError(Exception):
    """Base class of the errors that a user can cause and correct."""


class ConfigError(TrainerError):
    """A setting is unknown, or its value is out of range."""


class StateError(TrainerError):
    """A run folder's state cannot be read, or does not fit the configuration."""


class RunInUseError(TrainerError):
    """The run folder is locked by another process."""


class NoRunError(TrainerError):
    """A folder is not a run folder, or its run has no update yet."""


class ExternalPlayerError(TrainerError):
    """An external player's policy failed, or the league no longer admits the player."""


class NonFiniteLossError(TrainerError):
    """Losses or gradients were not finite in too many consecutive updates."""


class UnusableOpponentError(TrainerError):
    """An opponent's policy cannot be loaded, or is for another environment."""


class UnavailableOpponentError(UnusableOpponentError):
    """An opponent's policy is not available at the moment; a later attempt may succeed."""


class CallCutShortError(TrainerError):
    """A signal interrupted a call to the league."""


class UnsavedError(TrainerError):
    """A run ended, but its folder could not be written."""


class RankLostError(TrainerError):
    """Another rank has ended or does not answer."""
