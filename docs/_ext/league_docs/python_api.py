"""Reference of Python modules: autodoc's directives for a package and its modules."""

import ast
from importlib.util import find_spec
from pathlib import Path

from league_docs.markdown import document


def render(*names: str) -> str:
    """Document modules; a package is its docstring, then its direct modules that define anything public."""
    return document(*(_module(module) for name in names for module in _listed(name)))


def _listed(name: str) -> list[str]:
    file = _source(name)
    if file.name != "__init__.py":
        return [name]
    return [name, *(f"{name}.{each.stem}" for each in sorted(file.parent.glob("[!_]*.py")) if _public(each))]


def _module(name: str) -> str:
    members = ":members:" if _public(_source(name)) else ":no-members:"
    inherited = "   :inherited-members: object, Exception, BaseException, str\n" if name == "league.client" else ""
    return f"## {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n   {members}\n{inherited}```"


def _source(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{name} is not a module: name one that there is on the page that asks for it")
    return Path(spec.origin)


def _public(file: Path) -> bool:
    """Return whether a file defines a public class or function."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_") for node in tree.body)
