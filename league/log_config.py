"""Logging of the server: one line per record, as text or JSON, with the id of its request."""

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

Format = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Id of the current request, also in its worker threads; None outside requests."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """One line with time, level, module, request id and message; a traceback follows on separate lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        at = datetime.fromtimestamp(record.created).astimezone()
        request = request_id.get()
        source = record.name if request is None else f"{record.name} [{request}]"
        # A line break in a caller's text must not look like another log record.
        message = record.getMessage().replace("\n", "\\n")
        line = f"{at:%Y-%m-%d %H:%M:%S} {record.levelname.lower()} {source}: {message}"
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


class JsonFormatter(logging.Formatter):
    """One JSON object per line, including the members of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": request_id.get(),
        }
        members |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info is not None:
            members["exception"] = self.formatException(record.exc_info)
        return json.dumps({name: value for name, value in members.items() if value is not None}, default=str)


def configure(level: Level, form: Format) -> None:
    """Log to stderr: the league at this level, libraries at WARNING."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    # force: uvicorn or a test may have configured the root logger already.
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("league").setLevel(level.upper())
