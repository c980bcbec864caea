"""Operations on a whole league: export, import, fork, integrity checks, retention and counts."""
