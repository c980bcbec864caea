"""Command-line options that `league` and `trainer` share."""

import typer

from league.client.address import DEFAULT_URL, Address, find_league

SHOWN_URL = f"the league that runs on the home folder, else {DEFAULT_URL}"
"""Description of the default URL in help texts."""


def locate_league(context: typer.Context, parameter: typer.CallbackParam, value: str) -> Address:
    """Option callback: return the URL of the command line, or find the league.

    Raises:
        ConfigurationError: The URL is not an HTTP URL.
    """
    source = context.get_parameter_source(parameter.name or "")
    return find_league(value if source is not None and source.name == "COMMANDLINE" else None)
