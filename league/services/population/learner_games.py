"""Cache of learners' recent matches, from one rating period to the next."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from league.services.matches import log as match_log
from league.services.matches.log import MatchArrays
from league.services.population import role_config
from league.services.ratings import input_version


@dataclass(frozen=True, eq=False)
class _Known:
    """Games up to match `through`, with what else they follow from: see `league.services.ratings.input_version`."""

    games: MatchArrays
    through: int
    event_id: int
    began_step: int


class LearnerGamesCache:
    """Remembers the last games of learners; not for several threads."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def last_of(self, session: Session, environment: str, learner_id: int, through: int, count: int) -> MatchArrays:
        """Return a learner's last rated games against others since it last began anew.

        Args:
            session: Reads matches.
            environment: The learner's.
            learner_id: Who, by its id as a player.
            through: The last match of a rating period: there is nothing to come before it.
            count: How many, the same each time.
        """
        event_id = input_version.read(session, environment).event_id
        began_step = role_config.began_step(session, learner_id)
        known = self._known.get(learner_id)
        if known is None or (known.event_id, known.began_step) != (event_id, began_step) or through < known.through:
            games = match_log.last_of(session, learner_id, through, count, from_step=began_step)
        else:
            new = match_log.last_of(session, learner_id, through, count, after=known.through, from_step=began_step)
            games = known.games.then(new, count)
        self._known[learner_id] = _Known(games, through, event_id, began_step)
        return games
