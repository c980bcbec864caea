"""Settings of the server, read from `LEAGUE_*` variables and the command line.

Those of trainers are in `trainer.config`.
"""

from league.settings.model import (
    CLIENT_SIDE,
    FROM_FILES,
    LONGEST_DAYS,
    MISSED_HEARTBEATS,
    PREFIX,
    ReplayConfig,
    Setting,
    Settings,
    WebhookConfig,
    is_loopback,
)

__all__ = [
    "CLIENT_SIDE",
    "FROM_FILES",
    "LONGEST_DAYS",
    "MISSED_HEARTBEATS",
    "PREFIX",
    "ReplayConfig",
    "Setting",
    "Settings",
    "WebhookConfig",
    "is_loopback",
]
