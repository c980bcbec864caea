"""Standings, payoff matrix, superiority, lineages and player profiles, for the API and the dashboard."""
