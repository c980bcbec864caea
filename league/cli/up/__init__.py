"""`league up`: a whole league on one machine, in one terminal."""
