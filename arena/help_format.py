"""Format of help texts, the same for all commands."""

from shutil import get_terminal_size
from typing import Literal

BOX_COLUMNS = 80
"""A narrower terminal gets help without boxes, which would truncate the names of options."""


def markup_mode() -> Literal["markdown"] | None:
    """Return the mode of `typer.Typer.rich_markup_mode` that fits the terminal."""
    return "markdown" if get_terminal_size().columns >= BOX_COLUMNS else None
