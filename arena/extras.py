"""Optional packages, and the extra of the distribution that installs each."""

import importlib
import importlib.util
import sys

from arena.errors import MissingPackageError
from arena.exit_status import BAD_CONFIGURATION

EXTRAS = {
    "alembic": "server",
    "cachetools": "server",
    "fastapi": "server",
    "jinja2": "server",
    "prometheus_client": "server",
    "pydantic_settings": "server",
    "python_multipart": "server",
    "sqlalchemy": "server",
    "starlette": "server",
    "uvicorn": "server",
    "PIL": "train",
    "jaxtyping": "train",
    "safetensors": "train",
    "tensorboard": "train",
    "torch": "train",
    "warp": "train",
    "wandb": "track",
    "pandas": "pandas",
    "av": "video",
    "psycopg": "postgres",
    "boto3": "s3",
    "onnxruntime": "onnx",
    "ray": "fleet",
    "pyspiel": "openspiel",
    "gymnasium": "vector",
    "pettingzoo": "pettingzoo",
    "pygame": "pettingzoo",
    "rlcard": "pettingzoo",
    "mpe2": "mpe2",
    "magent2": "magent2",
    "jax": "jax",
    "jaxlib": "jax",
    "pgx": "jax",
    "gymnax": "gymnax",
    "jaxmarl": "jaxmarl",
}
"""Extras by the names under which their packages are imported."""

_SHARED = frozenset({"clarabel", "numpy", "rich", "scipy", "threadpoolctl", "typer"})
"""Packages that come with each of the extras `server`, `arena` and `train`."""


def run_program(name: str, extra: str) -> None:
    """Import a command line and run it; a missing package ends it with one line on stderr and status 78.

    Args:
        name: The program; its command line is `NAME.cli`.
        extra: The extra that installs the program's packages.
    """
    try:
        importlib.import_module(f"{name}.cli").main()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in _SHARED:
            missing = _missing(package, extra, f"`{name}`")
        elif package in EXTRAS:
            missing = missing_package(package, f"`{name}`")
        else:
            raise
        sys.stderr.write(f"{name}: {missing}\n")
        sys.exit(BAD_CONFIGURATION)


def require_extra(extra: str, user: str) -> None:
    """Check that every package of an extra is installed, without importing any.

    Args:
        extra: The extra.
        user: The feature that needs it, for the message.

    Raises:
        MissingPackageError: A package is not installed.
    """
    for package in (name for name, own in EXTRAS.items() if own == extra):
        if not is_installed(package):
            raise missing_package(package, user)


def is_installed(package: str) -> bool:
    """Return whether Python finds a top-level package, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # an import hook refuses it
        return False


def named_extra(error: ModuleNotFoundError, user: str) -> MissingPackageError | None:
    """Return the error that names the missing module's extra; None if the module belongs to none.

    Args:
        error: Error of an import.
        user: The feature that needs the module, for the message.
    """
    package = (error.name or "").partition(".")[0]
    return missing_package(package, user) if package in EXTRAS else None


def missing_package(package: str, user: str) -> MissingPackageError:
    """Return the error for a package that is not installed; a game `LIBRARY:GAME` needs the extra of its library."""
    return _missing(package, EXTRAS.get(user.partition(":")[0], EXTRAS[package]), user)


def _missing(package: str, extra: str, user: str) -> MissingPackageError:
    return MissingPackageError(f"{user} needs {package}, which is not installed: pip install 'echelon-league[{extra}]'")
