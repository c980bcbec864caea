"""The rules of the league, one package for each topic, of which import-linter holds the order.

    operations          export, import, fork, integrity checks, retention
    leaderboard         standings, payoff matrix, superiority, player profiles
    replays             recordings of matches
    checkpoints         quotas, garbage collection
    trust               reviews and quarantine of workers
    results             results stored exactly once
    matchmaking         opponents, leases
    workers             registration, heartbeats, commands
    rating_periods      closing, rebuild, what-if
    promotion           rules of promotion, redundancy
    gates               sequential tests
    lifecycle           standings of players, champions
    population          learners, snapshots, roles, the population cache
    ratings             Glicko-2 ratings
    environments        names, limits, deletion
    auth                tokens, ownership
    unplayable_reports  reports that a snapshot cannot be played
    audit               the audit log
    matches             the match log

Functions take a session and the settings, and `now` or `rng` where time or chance matters. HTTP is in `league.api`.
"""
