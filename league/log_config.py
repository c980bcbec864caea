"""The server's log: a line a record, for people or as JSON, each with the id of the request that it belongs to."""

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

Format = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Of the request that is being answered; none elsewhere. Threads that answer for it see it too."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """One line for people: time, level, module, request id, message; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        at = datetime.fromtimestamp(record.created).astimezone()
        asked = request_id.get()
        where = record.name if asked is None else f"{record.name} [{asked}]"
        message = record.getMessage().replace("\n", "\\n")
        line = f"{at:%Y-%m-%d %H:%M:%S} {record.levelname.lower()} {where}: {message}"
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line; what was logged with `extra` are members of it."""

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
    """Log to standard error: the league from this level on, libraries from warnings on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("league").setLevel(level.upper())
