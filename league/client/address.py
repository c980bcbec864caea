"""Address of the league: given, from LEAGUE_URL, from the home folder of a running league, or the default."""

import os
from collections.abc import Mapping
from typing import Self

from league.errors import ConfigurationError
from league.home import address_file, home_folder

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "LEAGUE_URL"

_GIVEN = "start it with `league serve`, or check the address and the network"


class Address(str):
    """The URL of a league's server.

    Attributes:
        way_out: What to do if no server answers there, with the place that the address is from.
        named: Whether a caller, a variable or a server named it; the default address is only a guess.
    """

    __slots__ = ("named", "way_out")
    way_out: str
    named: bool

    def __new__(cls, url: str, way_out: str = _GIVEN, *, named: bool = True) -> Self:
        """Make an address; without `way_out` it is one that the caller named."""
        address = super().__new__(cls, url)
        address.way_out, address.named = way_out, named
        return address


def find_league(url: str | None = None, environ: Mapping[str, str] = os.environ) -> Address:
    """Return the address that was given; without one that of LEAGUE_URL, of the running league, or the default.

    Args:
        url: As the caller names it; None if it does not.
        environ: Variables of this process.

    Raises:
        ConfigurationError: The address is not one of HTTP.
    """
    if url is not None:
        return url if isinstance(url, Address) else _checked(Address(url), "")
    if url := environ.get(URL_VARIABLE):
        way_out = f"the address is from {URL_VARIABLE}: start a server there with `league serve`, or correct it"
        return _checked(Address(url, way_out), f" in {URL_VARIABLE}")
    return _running_league(environ)


def _running_league(environ: Mapping[str, str]) -> Address:
    """Return the address that a server left in this shell's home folder."""
    file = address_file(home_folder(environ))
    try:
        url = file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        way_out = f"this is the default address, since {URL_VARIABLE} is not set and {file} does not exist"
        way_out += f": start a league with `league up`, or name one with {URL_VARIABLE}"
        return Address(DEFAULT_URL, way_out, named=False)
    way_out = f"the address is from {file}, so the server there did not end cleanly: start it again with `league up`"
    return _checked(Address(url, f"{way_out}, or name another league with {URL_VARIABLE}"), f" in {file}")


def _checked(address: Address, place: str) -> Address:
    if not address.startswith(("http://", "https://")):
        rule = "a league is reached under http:// or https://"
        raise ConfigurationError(f"league address {str(address)!r}{place}", rule, f"write it like {DEFAULT_URL}")
    return address
