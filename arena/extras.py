"""Optional packages, and the extra of the distribution that installs each."""

import importlib.util

from arena.errors import MissingPackageError

EXTRAS = {
    "PIL": "train",
    "jaxtyping": "train",
    "tensorboard": "train",
    "torch": "train",
    "warp": "train",
    "wandb": "track",
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


def require_extra(extra: str, user: str) -> None:
    """Check that every package of an extra is installed, without importing any.

    Args:
        extra: The extra.
        user: What needs it, for the message.

    Raises:
        MissingPackageError: One is not installed.
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
        error: From an import.
        user: What needs the module, for the message.
    """
    package = (error.name or "").partition(".")[0]
    return missing_package(package, user) if package in EXTRAS else None


def missing_package(package: str, user: str) -> MissingPackageError:
    """Return the error for a package that is not installed; a game `LIBRARY:GAME` needs the extra of its library."""
    extra = EXTRAS.get(user.partition(":")[0], EXTRAS[package])
    remedy = f"pip install 'echelon-league[{extra}]'"
    return MissingPackageError(f"{user} needs {package}, which is not installed: {remedy}")
