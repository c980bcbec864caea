"""Whether the server works."""

from typing import Literal

from league.wire.base import Answer


class Health(Answer):
    """Liveness or readiness; `checks` says per part `ok` or why not."""

    status: Literal["ok", "unready"]
    checks: dict[str, str]
