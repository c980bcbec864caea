"""Secrets in files, as container engines provide them: `LEAGUE_TOKEN_FILE` in place of `LEAGUE_TOKEN`, for example."""

import os
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex

from league.errors import ConfigurationError

SUFFIX = "_FILE"
TOKEN = "LEAGUE_TOKEN"  # noqa: S105 - a variable's name

_OWNER_ONLY = 0o600


def read_secret(variable: str, environ: Mapping[str, str]) -> str | None:
    """Return a secret: the variable's value, else the one line of the file that `VARIABLE_FILE` names, else None.

    Args:
        variable: Name of the variable; an empty value counts as unset.
        environ: The environment.

    Raises:
        ConfigurationError: The file cannot be read, or does not hold one line of text.
    """
    if environ.get(variable):
        return environ[variable]
    place = environ.get(variable + SUFFIX)
    return None if not place else read_private(Path(place), f"{variable}{SUFFIX}={place}")


def write_private(file: Path, content: str) -> None:
    """Write a secret to a file that only its owner can read at any time; the file appears whole or not at all."""
    part = file.with_name(f".{file.name}.{token_hex(4)}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "w") as stream:
        stream.write(f"{content}\n")
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)


def read_private(file: Path, said: str) -> str:
    """Read a secret from a file.

    Args:
        file: Holds it alone, in one line.
        said: How the user named the file, for the error.

    Raises:
        ConfigurationError: The file cannot be read, or does not hold one line of text.
    """
    try:
        content = file.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        rule = f"the file cannot be read ({error.strerror})"
        raise ConfigurationError(said, rule, "correct the path, or let this user read it") from error
    except ValueError as error:
        raise ConfigurationError(said, "the file is not text", "write the secret alone into it") from error
    if not (content and content.isprintable()):
        raise ConfigurationError(said, "the file does not hold one line of text", "write the secret alone into it")
    return content
