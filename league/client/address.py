"""URL of the league: an argument, LEAGUE_URL, the home folder of a running league, or the default."""

import os
from collections.abc import Mapping
from typing import Self

from league.errors import ConfigurationError
from league.home import address_file, home_folder

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "LEAGUE_URL"

_GIVEN = "start it with `league serve`, or check the address and the network"


class Address(str):
    """URL of a league server.

    Attributes:
        remedy: Remedy if no server responds there, which names the source of the URL.
        named: Whether a caller, a variable or a server set it; False for the default.
    """

    __slots__ = ("named", "remedy")
    remedy: str
    named: bool

    def __new__(cls, url: str, remedy: str = _GIVEN, *, named: bool = True) -> Self:
        """Create an address; without `remedy` the caller named it."""
        address = super().__new__(cls, url)
        address.remedy, address.named = remedy, named
        return address


def find_league(url: str | None = None, environ: Mapping[str, str] = os.environ) -> Address:
    """Return the given URL, else that of LEAGUE_URL, of the running league, or the default.

    Args:
        url: URL that the caller names, or None.
        environ: Environment variables.

    Raises:
        ConfigurationError: The URL is not an HTTP URL.
    """
    if url is not None:
        return url if isinstance(url, Address) else _checked(Address(url), "")
    if url := environ.get(URL_VARIABLE):
        remedy = f"the address is from {URL_VARIABLE}: start a server there with `league serve`, or correct it"
        return _checked(Address(url, remedy), f" in {URL_VARIABLE}")
    return _running_league(environ)


def _running_league(environ: Mapping[str, str]) -> Address:
    """Return the address that a server published in the home folder."""
    file = address_file(home_folder(environ))
    try:
        url = file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        remedy = f"this is the default address, since {URL_VARIABLE} is not set and {file} does not exist"
        remedy += f": start a league with `league up`, or set {URL_VARIABLE}"
        return Address(DEFAULT_URL, remedy, named=False)
    remedy = f"the address is from {file}, so the server there did not shut down cleanly: restart it with `league up`"
    return _checked(Address(url, f"{remedy}, or set another address with {URL_VARIABLE}"), f" in {file}")


def _checked(address: Address, source: str) -> Address:
    if not address.startswith(("http://", "https://")):
        rule = "the address must start with http:// or https://"
        raise ConfigurationError(f"league address {str(address)!r}{source}", rule, f"for example {DEFAULT_URL}")
    return address
