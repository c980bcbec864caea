"""Session of a custom trainer with a league: `Session` for the training loop, and the threads and files beneath it.

Our own trainer has a session of its own, which also plays while the league is away.
"""

from league.client.session.match import Match
from league.client.session.session import Session, SessionSettings

__all__ = ["Match", "Session", "SessionSettings"]
