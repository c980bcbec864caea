"""Reference of the command lines, from their own help."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from league_docs.markdown import code, document, escape, table

_WORDS = re.compile(r"(?<![\w/-])(?:--[a-z][\w-]*|(?:LEAGUE|TRAINER|OMP)_[A-Z_]+)(?![\w-])")
"""Options and variables."""

Command = Any
"""A command or a group of typer's own copy of click, whose classes it does not export."""


def render() -> str:
    """Describe all commands of `league`, `trainer` and `arena`."""
    from arena.cli import app as arena
    from league.cli import app as league
    from trainer.cli.commands import app as trainer

    return document(*(_program(app) for app in (league, trainer, arena)))


def _program(app: typer.Typer) -> str:
    group = typer.main.get_group(app)
    name = app.info.name or ""
    context = group.context_class(group, info_name=name)
    return document(f"## {name}", _prose(group.help), *_commands(group, context))


def _commands(group: Command, context: Any) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        own = command.context_class(command, info_name=name, parent=context)
        yield from _command(command, own)
        if hasattr(command, "list_commands"):
            yield from _commands(command, own)


def _command(command: Command, context: Any) -> Iterator[str]:
    path = context.command_path
    yield f"### {path}"
    yield _prose(command.help)
    yield f"```text\n{' '.join([path, *command.collect_usage_pieces(context)])}\n```"
    records: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for parameter in command.params:
        record = None if getattr(parameter, "hidden", False) else parameter.get_help_record(context)
        if record is not None and "--help" not in parameter.opts:
            records[parameter.param_type_name].append(record)
    for kind, listed in records.items():
        yield table((kind, "description"), ((code(names), _description(text)) for names, text in listed)) * bool(listed)
    yield _prose(command.epilog)


def _description(text: str) -> str:
    """Format the help of a parameter; the details that typer puts in brackets come last, in italics."""
    text, _, details = text.partition("  [")
    return escape(_marked_up(text)) + (f" *({escape(details.removesuffix(']'))})*" if details else "")


def _prose(text: str | None) -> str:
    """Format help as Markdown, with the commands of its examples as code."""
    paragraphs = re.split(r"\n\s*\n", (text or "").strip())
    return document(*(_paragraph(each) for each in paragraphs))


def _paragraph(text: str) -> str:
    if text.startswith("\b"):
        return f"```text\n{text.removeprefix(chr(8)).strip(chr(10))}\n```"
    lead, found, command = text.partition("Example: ")
    if found and not lead:
        return f"```console\n$ {' '.join(command.split())}\n```"
    return escape(_marked_up(text))


def _marked_up(text: str) -> str:
    """Mark options and variables as code."""
    parts = re.split(r"(`[^`]+`)", text)
    marked = [part if index % 2 else _WORDS.sub(r"`\g<0>`", part) for index, part in enumerate(parts)]
    return "".join(marked)
