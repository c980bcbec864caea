"""Scripts of a static copy: browsers load no modules from disk, so each becomes a plain script with a registry."""

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from posixpath import dirname, join, normpath

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) (\w+))", re.MULTILINE)

ONLINE = frozenset({"htmx.min.js", "live.js", "events.js", "matches.js", "standings.js", "welcome.js"})
"""Scripts that only a server can answer."""


def plain_script(name: str, source: str) -> str:
    """Return a module as a script: it waits for the modules that it imports, and registers what it exports.

    Args:
        name: Path of the module below `static/`.
        source: Its code.
    """
    exports = ", ".join(_EXPORT.findall(source))
    body = _IMPORT.sub(lambda found: f'const {found[1]} = await modules["{_target(name, found[2])}"];', source)
    body = _EXPORT.sub("", body)
    return (
        f'(window.leagueModules ??= {{}})["{name}"] = (async () => {{\n"use strict";\n'
        f"const modules = window.leagueModules;\n{body}\nreturn {{ {exports} }};\n}})();\n"
    )


def with_imports(name: str) -> list[str]:
    """Return a module's path below `static/` after those that it imports, directly or not."""
    found: dict[str, None] = {}

    def visit(each: str) -> None:
        if each in found:
            return
        for target in _imports(each):
            visit(target)
        found[each] = None

    visit(name)
    return list(found)


def read_static(name: str) -> bytes:
    """Return a file below `static/`."""
    return files("league.web").joinpath("static", name).read_bytes()


def contents(names: Mapping[str, bool]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a copy by their path below `static/`; the value is whether it is a module."""
    for name, is_module in names.items():
        content = read_static(name)
        yield name, plain_script(name, content.decode()).encode() if is_module else content


def _imports(name: str) -> list[str]:
    return [_target(name, target) for _, target in _IMPORT.findall(read_static(name).decode())]


def _target(name: str, target: str) -> str:
    """Return the path below `static/` of a relative import."""
    return normpath(join(dirname(name), target))
