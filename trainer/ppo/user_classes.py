"""Import of classes that settings name as `MODULE:CLASS`."""

from collections.abc import Callable, Sequence

from arena.user_code import find_in_user_module
from trainer.errors import ConfigError


def load_class(path: str, key: str, known: Sequence[str] = ()) -> Callable[..., object]:
    """Import the class that a setting names; modules are also looked for in the working directory.

    Args:
        path: `MODULE:CLASS`.
        key: The setting, for errors.
        known: Other values of the setting, for errors.

    Raises:
        ConfigError: There is no such class, or its module does not load.
    """
    try:
        found = find_in_user_module(path) if ":" in path else None
    except Exception as error:  # the user's code can raise anything
        raise ConfigError(
            f"{key} names {path!r}, which does not load ({type(error).__name__}: {error}): write MODULE:CLASS of an "
            "importable module, and install its dependencies"
        ) from error
    if not isinstance(found, type):
        forms = " or ".join([*known, "MODULE:CLASS"])
        raise ConfigError(f"{key} names {path!r}, which is not a class: write {forms}, such as mypackage.nets:MyNet")
    return found
