"""Statistics of match results: payoff matrices, SPRT, cycles, Nash averaging, forgetting, behaviour. Torch-free."""
