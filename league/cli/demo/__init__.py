"""`league demo`: a league with a simulated history, so that every page of the dashboard has something to show."""
