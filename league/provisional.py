"""The rule for provisional ratings, which the dashboard, the commands and the API mark."""

from league.settings import Settings


def is_provisional(kind: str, deviation: float, settings: Settings) -> bool:
    """Return True if a player's rating is too uncertain for the promotion rule.

    Learners never settle and the ratings of baselines are fixed, so only snapshots and external players can be.

    Args:
        kind: Kind of the player.
        deviation: Its rating deviation (RD), in points.
        settings: Settings with the greatest deviation that the promotion rule accepts.
    """
    return kind in ("snapshot", "external") and deviation > settings.promotion.max_deviation
