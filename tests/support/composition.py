"""The composition as its engine reads it, and its services as commands of this machine."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
BASE, TLS = ROOT / "docker-compose.yml", ROOT / "deploy" / "compose.tls.yml"

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?:(?P<rule>:[-?])(?P<rest>[^}]*))?\})")


class UnsetError(Exception):
    """A variable that must be set is not."""


def read(file: Path = BASE, **variables: str) -> dict[str, Any]:
    """Read a file of the composition, its merges done and its variables filled in.

    Raises:
        UnsetError: A variable has no value and must have one.
    """
    filled: dict[str, Any] = _filled(yaml.safe_load(file.read_text(encoding="utf-8")), variables)
    return filled


def services(**variables: str) -> dict[str, dict[str, Any]]:
    """Return the services by name."""
    found: dict[str, dict[str, Any]] = read(BASE, **variables)["services"]
    return found


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, variables) for each in value]
    return _VARIABLE.sub(lambda found: _value(found, variables), value) if isinstance(value, str) else value


def _value(found: re.Match[str], variables: Mapping[str, str]) -> str:
    if found["name"] is None:
        return "$"
    if variables.get(found["name"]):
        return variables[found["name"]]
    if found["rule"] == ":?":
        raise UnsetError(found["rest"])
    return found["rest"] or ""


@dataclass(frozen=True)
class Native:
    """What a service would run, to be run here: files of volumes and secrets in folders, other services elsewhere.

    Attributes:
        volumes: Folder in which each named volume is one.
        secrets: Folder of the secrets' files.
        replaced: What stands for parts of values, such as addresses of other services.
    """

    volumes: Path
    secrets: Path
    replaced: Mapping[str, str]

    def command(self, service: Mapping[str, Any]) -> list[str]:
        """Return the service's command with this machine's paths, by the interpreter that runs the tests."""
        program, *words = [self._here(service, word) for word in service["command"]]
        return [sys.executable, *([] if program == "python" else ["-P", "-m", program]), *words]

    def environment(self, service: Mapping[str, Any]) -> dict[str, str]:
        """Return the service's environment, with nothing of whoever runs the tests but what programs need."""
        own = {name: self._here(service, str(value)) for name, value in service["environment"].items()}
        return {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"} | own

    def _here(self, service: Mapping[str, Any], text: str) -> str:
        for name in service.get("secrets", ()):
            declared = read()["secrets"][name]["file"]
            text = text.replace(f"/run/secrets/{name}", str(self.secrets / Path(declared).name))
        for volume in service["volumes"]:
            source, target, *_ = volume.split(":")
            text = text.replace(target, str(ROOT / source if source.startswith(".") else self.volumes / source))
        for part, stands_for in self.replaced.items():
            text = text.replace(part, stands_for)
        return text


def instructions(dockerfile: Path = ROOT / "Dockerfile") -> list[tuple[str, str]]:
    """Return a Dockerfile's instructions with their arguments, continued lines joined."""
    lines = [line for line in dockerfile.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def stages(dockerfile: Path = ROOT / "Dockerfile") -> dict[str, list[tuple[str, str]]]:
    """Return the instructions of each stage by its name, those of the stages that it builds on first."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for word, rest in instructions(dockerfile):
        if word == "FROM":
            origin, _, name = rest.split()
            found[name] = list(found.get(origin, []))
        else:
            found[name].append((word, rest))
    return found
