"""What the command lines of the league and of its workers share about options."""

import typer

from league.client.address import DEFAULT_URL, Address, find_league

SHOWN_URL = f"the league that runs on the home folder, else {DEFAULT_URL}"
"""Default of an option for the league's address."""


def locate_league(context: typer.Context, parameter: typer.CallbackParam, value: str) -> Address:
    """Return the address that the command line gives, or find the league; a callback of an option.

    Raises:
        ConfigurationError: The address is not one of HTTP.
    """
    source = context.get_parameter_source(parameter.name or "")
    return find_league(value if source is not None and source.name == "COMMANDLINE" else None)
