"""Standings, payoff matrix, superiority, lineages and player profiles, as the API and the dashboard show them."""
