"""Request ids: the caller's `X-Request-ID` or a new one, in responses, problem documents and log lines.

The middleware also logs unsuccessful requests and counts all of them for Prometheus.
"""

import logging
import re
import secrets
from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from league.api.errors import REQUEST_ID
from league.api.metrics import Metrics
from league.log_config import request_id

_USABLE = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_ID_BYTES = 8
_REFUSED, _FAILED = 400, 500
_COME_BACK = (429, 503)
_UNMATCHED = "unmatched"

log = logging.getLogger("league.requests")


class RequestIdMiddleware:
    """Middleware that assigns request ids, measures requests and logs unsuccessful ones.

    Rejected requests are logged as information, failed ones as warnings. Calls rejected by back-pressure (429, 503) are
    logged only at debug level, because lines would add to the overload; metrics count them.
    A caller's id is used if it has 1 to 64 letters, digits and `._:-`. Any other id is replaced, because it would not
    be safe in a log.

    Args:
        app: The application behind it.
        metrics: Counts and times requests by route template.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on under its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = Headers(scope=scope).get(REQUEST_ID, "")
        own = sent if _USABLE.fullmatch(sent) else secrets.token_hex(_ID_BYTES)
        request_id.set(own)  # context variable: seen by this request only, and by the outer handler of defects
        status = _FAILED

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = own
            await send(message)

        start_s = perf_counter()
        try:
            await self._app(scope, receive, named)
        finally:
            seconds = perf_counter() - start_s
            # The template, not the path: ids in paths would create time series without limit.
            route = getattr(scope.get("route"), "path", _UNMATCHED)
            self._metrics.count_request(scope["method"], route, status, seconds)
            _log(scope, status, seconds)


def _log(scope: Scope, status: int, seconds: float) -> None:
    if status < _REFUSED or status in _COME_BACK:
        level = logging.DEBUG
    else:
        level = logging.INFO if status < _FAILED else logging.WARNING
    if log.isEnabledFor(level):
        path = scope["raw_path"].decode("ascii", "replace")  # as it was sent: no line breaks
        facts = {"method": scope["method"], "path": path, "status": status, "seconds": round(seconds, 6)}
        log.log(level, "%(method)s %(path)s: %(status)d in %(seconds).3f s", facts, extra=facts)
