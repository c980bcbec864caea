"""What a user of the trainer can cause: one line that names the value, the rule and the way out."""


class TrainerError(Exception):
    """Base of every error that a user of the trainer can cause and mend."""


class ConfigError(TrainerError):
    """A setting is unknown, or its value is out of range."""


class StateError(TrainerError):
    """A run folder's state cannot be read, or does not fit the configuration."""


class RunInUseError(TrainerError):
    """Another process works in the run folder."""


class NoRunError(TrainerError):
    """A folder is no run folder, or its run has not written anything yet."""


class ExternalPlayerError(TrainerError):
    """An external player's policy failed, or the player is out of play."""


class NonFiniteLossError(TrainerError):
    """Losses or gradients were not finite too often in a row."""


class UnusableOpponentError(TrainerError):
    """An opponent's policy cannot be loaded, or is of another environment."""


class UnavailableOpponentError(UnusableOpponentError):
    """An opponent's policy cannot be had now; it says nothing about the policy."""


class CallCutShortError(TrainerError):
    """A signal came while the league was asked for something; nobody waits for its answer."""


class UnsavedError(TrainerError):
    """A run ends although its folder cannot be written."""


class RankLostError(TrainerError):
    """Another process of those that learn together is gone, or does not answer."""
