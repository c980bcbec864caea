"""Workers that play rating matches: evaluators for frozen players, and external players. They train nothing.

Start with `evaluator.py`. Leases, the result spool and the league client are those of `trainer.league_client`.
"""
