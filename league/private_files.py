"""Secrets in files, for example `LEAGUE_TOKEN_FILE` instead of `LEAGUE_TOKEN`, as container engines provide them."""

import os
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex

from league.errors import ConfigurationError

SUFFIX = "_FILE"
TOKEN = "LEAGUE_TOKEN"  # noqa: S105 - a variable's name

_OWNER_ONLY = 0o600


def read_secret(variable: str, environ: Mapping[str, str]) -> str | None:
    """Return a secret from the variable, or from the file that `VARIABLE_FILE` names, or None.

    Args:
        variable: Name of the variable; an empty value counts as unset.
        environ: The environment.

    Raises:
        ConfigurationError: The file cannot be read, or does not contain one line of text.
    """
    if environ.get(variable):
        return environ[variable]
    path = environ.get(variable + SUFFIX)
    return None if not path else read_private(Path(path), f"{variable}{SUFFIX}={path}")


def write_private(file: Path, content: str) -> None:
    """Write a secret atomically to a file that only its owner can read."""
    part = file.with_name(f".{file.name}.{token_hex(4)}")
    # Created with its final mode: a chmod afterwards would leave a moment in which others can open the file.
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "w") as stream:
        stream.write(f"{content}\n")
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)


def read_private(file: Path, source: str) -> str:
    """Read a secret from a file.

    Args:
        file: File that contains only the secret, in one line.
        source: How the user specified the file, for errors.

    Raises:
        ConfigurationError: The file cannot be read, or does not contain one line of text.
    """
    try:
        content = file.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        rule = f"the file cannot be read ({error.strerror})"
        raise ConfigurationError(source, rule, "correct the path, or make it readable for this user") from error
    except ValueError as error:
        raise ConfigurationError(source, "the file is not text", "write only the secret into it") from error
    if not (content and content.isprintable()):
        raise ConfigurationError(
            source, "the file does not contain exactly one line of text", "write only the secret into it"
        )
    return content
