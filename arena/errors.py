"""What a user of the arena can cause: one line that names the value, the rule and the way out."""


def printable(error: object) -> str:
    """What an error says, with half characters, which JSON can spell and nobody can print or store, written out."""
    return str(error).encode(errors="backslashreplace").decode()


class ArenaError(ValueError):
    """Base of every error that a caller of the arena can cause and mend."""


class MissingPackageError(ArenaError):
    """A package that is needed is not installed, or does not load."""


class UnknownEnvironmentError(ArenaError):
    """No environment of that name is registered."""


class InvalidActionError(ArenaError):
    """Actions do not fit the environment's heads."""


class CheckpointError(ArenaError):
    """A checkpoint file cannot be read, or does not fit what it is loaded into."""


class NetworkModuleError(ArenaError):
    """A network module of the user's is not there, or does not do what a network has to."""


class UnknownPolicyError(ArenaError):
    """No baseline of that name exists for the environment."""


class LostMatchesError(ArenaError):
    """Processes that play matches die again and again."""
