"""The game and its arithmetic: no HTTP, no database, no clock.

Conventions, written once for all packages:

* Sizes: T time, B batch, E environments, N agents, A action size, H recurrent size, L chunk length, R rows
  (any number of agents, flattened). Time first: `(T, B, ...)`.
* `episode_start[t]` is true when `observation[t]` opens an episode: recurrent state is reset before step t.
* Recurrent state goes in and comes out of calls; no module keeps it.
* `terminated` (ended by the game) and `truncated` (cut by a limit) are never merged into one `done`.
* Units in names (`_s`, `_ms`, `_bytes`); aware UTC times end in `_at`.
* Ratings are on the Glicko scale (1500 / 350 / 0.06 to start). They are computed in float64, without torch.
* Time and chance are arguments (`now`, `rng`).
* A score is home's: 1 win, 0.5 draw, 0 loss, anything between where the environment declares a margin.

Torch-free, so that the league server can import them: `ratings`, `evaluation`, `matchmaking`, `population`,
`replay`, `seeding`, `atomic_files`, `errors`, `environments.spec` and `environments.registry`.
"""
