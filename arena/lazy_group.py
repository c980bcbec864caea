"""Groups of commands whose modules are imported only when one of their commands runs.

A command line imports numerics, databases or torch in some of its commands. Without this, every command would pay for
all of these imports, `--version` included. See "Lazily loading subcommands" in click's documentation.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from typer import Typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

if TYPE_CHECKING:  # typer's own copy of click, whose classes it does not export
    from typer._click.core import Command, Context
    from typer._click.formatting import HelpFormatter
    from typer._click.shell_completion import CompletionItem


class LazyCommand(NamedTuple):
    """A command, or a group of commands, that is not imported yet.

    Attributes:
        path: `MODULE:NAME` of the `typer.Typer` of the command or group.
        help: First paragraph of its help, for the list of all commands.
        panel: Title of its panel in this list, None for the default panel.
    """

    path: str
    help: str
    panel: str | None = None


class LazyGroup(TyperGroup):
    """A group of commands that are imported when they run; see `lazy_group`."""

    lazy: ClassVar[Mapping[str, LazyCommand]] = {}
    _listing = False

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - those of typer
        super().__init__(**attributes)
        self.commands = {
            name: TyperCommand(name, help=entry.help, rich_help_panel=entry.panel) for name, entry in self.lazy.items()
        }

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Import a command; for the list of all commands, return a placeholder with its help instead."""
        entry = self.lazy.get(cmd_name)
        if entry is None or self._listing:
            return self.commands.get(cmd_name)
        module, _, name = entry.path.partition(":")
        app: Typer = getattr(import_module(module), name)
        app.rich_markup_mode = self.rich_markup_mode
        group = get_group(app)
        return group.commands.get(cmd_name, group)

    def format_help(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Print the help with the list of all commands."""
        with self._placeholders():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: "Context", incomplete: str) -> "list[CompletionItem]":
        """Return the options and commands that begin with an incomplete word."""
        with self._placeholders():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _placeholders(self) -> Iterator[None]:
        """Make `get_command` return placeholders."""
        self._listing = True
        try:
            yield
        finally:
            self._listing = False


def lazy_group(commands: Mapping[str, LazyCommand]) -> type[LazyGroup]:
    """Return the class of a group of these commands, for `typer.Typer(cls=...)`."""
    return type("CommandGroup", (LazyGroup,), {"lazy": commands})
