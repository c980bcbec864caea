"""Address, token and back-off that the blocking and the async connection share, without input and output."""

from typing import IO, Any

import httpx2

from league.client.address import Address, find_league
from league.client.backoff import RetryGate, make_retry_gate
from league.client.operation import Call
from league.client.transfer import store_unreachable
from league.errors import LeagueUnreachable, UnauthenticatedError
from league.wire import PROTOCOL, PROTOCOL_HEADER

_PATIENCE_S = 30.0


class Endpoint:
    """A league server, as one client with its token sees it; see `LeagueClient`. Subclasses set the HTTP client."""

    _http: httpx2.Client | httpx2.AsyncClient

    def __init__(
        self,
        url: str | None,
        token: str | None,
        http: httpx2.Client | httpx2.AsyncClient | None,
        timeout_s: float,
        patience: RetryGate | None,
    ) -> None:
        self._address = find_league(url) if http is None else Address(str(http.base_url))
        if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
            rule = "a token is one word of ASCII characters"
            raise UnauthenticatedError("with an unusable token", rule, "use the output of `league token create`")
        self._owned = http is None
        self._timeout_s = timeout_s
        self._patience = make_retry_gate(_PATIENCE_S) if patience is None else patience
        self._headers = {PROTOCOL_HEADER: str(PROTOCOL)}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    @property
    def address(self) -> Address:
        """URL of the server and its source."""
        return self._address

    @property
    def timeout_s(self) -> float:
        """Timeout for the connection and between two chunks of a response, in seconds."""
        return self._timeout_s

    def _request(self, call: Call) -> dict[str, Any]:
        """Return the options of an HTTP client's `request` or `stream`, without the content of a file."""
        headers = dict(call.headers) if call.to_store else self._headers | dict(call.headers)
        content = call.content if isinstance(call.content, bytes) else None
        if call.body is not None:
            encoded = call.body.model_dump_json(exclude_unset=True)  # an older server rejects unknown fields
            content, headers["Content-Type"] = encoded.encode(), "application/json"
        params = {name: value for name, value in call.query.items() if value is not None}
        arguments: dict[str, Any] = {"headers": headers, "content": content}
        # A presigned URL has a query of its own, which even empty parameters would replace.
        if params:
            arguments["params"] = params
        if call.partial:
            arguments["follow_redirects"] = False
        return arguments

    def _unreachable(self, call: Call, error: httpx2.TransportError) -> LeagueUnreachable:
        if call.to_store:
            return store_unreachable(call.path, error)
        cause = str(error) or type(error).__name__
        return LeagueUnreachable(self._http.base_url, f"no response ({cause})", self._address.remedy)


def file_of(call: Call) -> IO[bytes] | None:
    """Return the file that a call sends, if any."""
    return None if call.content is None or isinstance(call.content, bytes) else call.content
