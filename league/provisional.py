"""The rule for provisional ratings, which the dashboard, the commands and the API mark."""

from league.settings import Settings


def is_provisional(kind: str, standard_error: float, settings: Settings) -> bool:
    """Return True if a player's rating is too uncertain for the promotion rule.

    Learners never settle and the ratings of baselines are fixed, so only snapshots and external players can be.

    Args:
        kind: Kind of the player.
        standard_error: Standard error of its rating, in points; before the first fit, its deviation.
        settings: Settings with the largest standard error that the promotion rule accepts.
    """
    return kind in ("snapshot", "external") and standard_error > settings.promotion.max_error
