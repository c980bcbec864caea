"""The initial schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("announced_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("(state = 'announced') = (stored_at IS NULL)", name=op.f("ck_checkpoints_stored_at")),
        sa.CheckConstraint("state IN ('announced', 'stored')", name=op.f("ck_checkpoints_state")),
        sa.CheckConstraint("size_bytes >= 0", name=op.f("ck_checkpoints_size")),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_checkpoints")),
    )
    op.create_index(op.f("ix_checkpoints_owner"), "checkpoints", ["owner"], unique=False)
    op.create_table(
        "environments",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("signature", sa.String(), nullable=True),
        sa.Column("sides", sa.JSON(), nullable=True),
        sa.Column("max_decisions", sa.BigInteger(), nullable=True),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("max_decisions >= 1", name=op.f("ck_environments_max_decisions")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_environments")),
    )
    op.create_table(
        "leader_leases",
        sa.Column("duty", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("duty", name=op.f("pk_leader_leases")),
    )
    op.create_table(
        "measure_sets",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("measures", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measure_sets")),
    )
    op.create_table(
        "opponent_distributions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("distribution", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("pruned_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_opponent_distributions")),
    )
    op.create_table(
        "payoffs",
        sa.Column("low_id", ID, autoincrement=False, nullable=False),
        sa.Column("high_id", ID, autoincrement=False, nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("matches", sa.BigInteger(), nullable=False),
        sa.Column("games", sa.Double(), nullable=False),
        sa.Column("points", sa.Double(), nullable=False),
        sa.Column("wins", sa.Double(), nullable=False),
        sa.Column("draws", sa.Double(), nullable=False),
        sa.Column("losses", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("low_id", "high_id", name=op.f("pk_payoffs")),
        postgresql_with={"fillfactor": 50},
    )
    op.create_index(op.f("ix_payoffs_environment"), "payoffs", ["environment"], unique=False)
    op.create_index(op.f("ix_payoffs_high_id"), "payoffs", ["high_id"], unique=False)
    op.create_table(
        "periods",
        sa.Column("id", ID, nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("last_match_id", sa.BigInteger(), nullable=False),
        sa.Column("matches", sa.BigInteger(), nullable=False),
        sa.Column("players", sa.BigInteger(), nullable=False),
        sa.Column("rule", sa.JSON(), nullable=False),
        sa.Column("refitted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_periods")),
        sa.UniqueConstraint("environment", "number", name=op.f("uq_periods_environment_number")),
    )
    op.create_index(
        op.f("ix_periods_environment_last_match_id"), "periods", ["environment", "last_match_id"], unique=False
    )
    op.create_table(
        "side_payoffs",
        sa.Column("home_id", ID, autoincrement=False, nullable=False),
        sa.Column("away_id", ID, autoincrement=False, nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("matches", sa.BigInteger(), nullable=False),
        sa.Column("games", sa.Double(), nullable=False),
        sa.Column("points", sa.Double(), nullable=False),
        sa.Column("wins", sa.Double(), nullable=False),
        sa.Column("draws", sa.Double(), nullable=False),
        sa.Column("losses", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("home_id", "away_id", name=op.f("pk_side_payoffs")),
        postgresql_with={"fillfactor": 50},
    )
    op.create_index(op.f("ix_side_payoffs_environment"), "side_payoffs", ["environment"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("scope IN ('read', 'worker', 'admin')", name=op.f("ck_tokens_scope")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
        sa.UniqueConstraint("name", name=op.f("uq_tokens_name")),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("instance", sa.String(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("signatures", sa.JSON(), nullable=False),
        sa.Column("command", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("command IN ('continue', 'drain', 'stop')", name=op.f("ck_workers_command")),
        sa.CheckConstraint("kind IN ('trainer', 'evaluator', 'entrant')", name=op.f("ck_workers_kind")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
        sa.UniqueConstraint("name", "kind", name=op.f("uq_workers_name_kind")),
    )
    op.create_index("uq_workers_instance", "workers", ["kind", "instance"], unique=True)
    op.create_table(
        "learners",
        sa.Column("id", ID, nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("signature", sa.String(), nullable=False),
        sa.Column("rules", sa.JSON(), nullable=True),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("role IN ('main', 'main_exploiter', 'league_exploiter')", name=op.f("ck_learners_role")),
        sa.ForeignKeyConstraint(
            ["environment"], ["environments.name"], name=op.f("fk_learners_environment_environments")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_learners")),
        sa.UniqueConstraint("environment", "name", name=op.f("uq_learners_environment_name")),
    )
    op.create_table(
        "quarantines",
        sa.Column("id", ID, nullable=False),
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("imposed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lifted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pending_since", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name=op.f("fk_quarantines_worker_id_workers")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantines")),
    )
    op.create_index(op.f("ix_quarantines_worker_id"), "quarantines", ["worker_id"], unique=False)
    op.create_index(
        "uq_quarantines_open",
        "quarantines",
        ["worker_id"],
        unique=True,
        sqlite_where=sa.text("lifted_at IS NULL"),
        postgresql_where=sa.text("lifted_at IS NULL"),
    )
    op.create_table(
        "learner_progress",
        sa.Column("learner_id", ID, autoincrement=False, nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("metrics_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("verdicts", sa.JSON(), nullable=True),
        sa.Column("points", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["learner_id"], ["learners.id"], name=op.f("fk_learner_progress_learner_id_learners")),
        sa.PrimaryKeyConstraint("learner_id", name=op.f("pk_learner_progress")),
    )
    op.create_table(
        "metric_points",
        sa.Column("learner_id", ID, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["learner_id"], ["learners.id"], name=op.f("fk_metric_points_learner_id_learners")),
        sa.PrimaryKeyConstraint("learner_id", "number", name=op.f("pk_metric_points")),
        sa.UniqueConstraint("learner_id", "step", name=op.f("uq_metric_points_learner_id_step")),
    )
    op.create_table(
        "players",
        sa.Column("id", ID, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("signature", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("call_sign", sa.String(), nullable=True),
        sa.Column("role", sa.String(), nullable=True),
        sa.Column("standing", sa.String(), nullable=True),
        sa.Column("checkpoint", sa.String(), nullable=True),
        sa.Column("learner_id", ID, nullable=True),
        sa.Column("parent_id", ID, nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("card", sa.JSON(), nullable=False),
        sa.Column("start_rating", sa.Double(), nullable=False),
        sa.Column("start_deviation", sa.Double(), nullable=False),
        sa.Column("start_volatility", sa.Double(), nullable=False),
        sa.Column("start_period_id", sa.BigInteger(), nullable=True),
        sa.Column("start_deviation_floor", sa.Double(), nullable=True),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "(standing IS NOT NULL) = (kind IN ('snapshot', 'external'))", name=op.f("ck_players_standing_of_kind")
        ),
        sa.CheckConstraint("kind <> 'snapshot' OR checkpoint IS NOT NULL", name=op.f("ck_players_checkpoint")),
        sa.CheckConstraint("kind IN ('learner', 'snapshot', 'baseline', 'external')", name=op.f("ck_players_kind")),
        sa.CheckConstraint(
            "kind NOT IN ('snapshot', 'learner') OR learner_id IS NOT NULL", name=op.f("ck_players_learner")
        ),
        sa.CheckConstraint("role IN ('main', 'main_exploiter', 'league_exploiter')", name=op.f("ck_players_role")),
        sa.CheckConstraint(
            "standing IN ('candidate', 'commander', 'retired', 'quarantined')", name=op.f("ck_players_standing")
        ),
        sa.ForeignKeyConstraint(
            ["environment"], ["environments.name"], name=op.f("fk_players_environment_environments")
        ),
        sa.ForeignKeyConstraint(["learner_id"], ["learners.id"], name=op.f("fk_players_learner_id_learners")),
        sa.ForeignKeyConstraint(["parent_id"], ["players.id"], name=op.f("fk_players_parent_id_players")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_players")),
        sa.UniqueConstraint("environment", "call_sign", name=op.f("uq_players_environment_call_sign")),
        sa.UniqueConstraint("environment", "signature", "name", name=op.f("uq_players_environment_signature_name")),
        sa.UniqueConstraint("learner_id", "checkpoint", "step", name=op.f("uq_players_learner_id_checkpoint_step")),
    )
    op.create_index(
        "uq_players_learner",
        "players",
        ["learner_id"],
        unique=True,
        sqlite_where=sa.text("kind = 'learner'"),
        postgresql_where=sa.text("kind = 'learner'"),
    )
    op.create_table(
        "champions",
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("player_id", ID, nullable=True),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name=op.f("fk_champions_player_id_players")),
        sa.PrimaryKeyConstraint("environment", "number", name=op.f("pk_champions")),
    )
    op.create_table(
        "events",
        sa.Column("id", ID, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("environment", sa.String(), nullable=True),
        sa.Column("player_id", ID, nullable=True),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name=op.f("fk_events_player_id_players")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index(op.f("ix_events_actor_id"), "events", ["actor", "id"], unique=False)
    op.create_index(op.f("ix_events_kind_id"), "events", ["kind", "id"], unique=False)
    op.create_index(
        "ix_events_no_period",
        "events",
        ["id"],
        unique=False,
        sqlite_where=sa.text("kind != 'period'"),
        postgresql_where=sa.text("kind != 'period'"),
    )
    op.create_index(op.f("ix_events_player_id"), "events", ["player_id"], unique=False)
    op.create_table(
        "gates",
        sa.Column("id", ID, nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("candidate_id", ID, nullable=False),
        sa.Column("champion_id", ID, nullable=False),
        sa.Column("elo0", sa.Double(), nullable=False),
        sa.Column("elo1", sa.Double(), nullable=False),
        sa.Column("alpha", sa.Double(), nullable=False),
        sa.Column("beta", sa.Double(), nullable=False),
        sa.Column("least_games", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("verdict", sa.JSON(), nullable=False),
        sa.Column("closed_reason", sa.String(), nullable=True),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("state IN ('open', 'accepted', 'rejected', 'cancelled')", name=op.f("ck_gates_state")),
        sa.CheckConstraint("alpha > 0 AND alpha < 1 AND beta > 0 AND beta < 1", name=op.f("ck_gates_errors")),
        sa.CheckConstraint("candidate_id <> champion_id", name=op.f("ck_gates_two_players")),
        sa.CheckConstraint("elo0 < elo1", name=op.f("ck_gates_elo")),
        sa.CheckConstraint("least_games >= 0", name=op.f("ck_gates_least_games")),
        sa.ForeignKeyConstraint(["candidate_id"], ["players.id"], name=op.f("fk_gates_candidate_id_players")),
        sa.ForeignKeyConstraint(["champion_id"], ["players.id"], name=op.f("fk_gates_champion_id_players")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gates")),
    )
    op.create_index(
        "uq_gates_open",
        "gates",
        ["candidate_id", "champion_id", "elo0", "elo1", "alpha", "beta", "least_games"],
        unique=True,
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "leases",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("home_id", ID, nullable=False),
        sa.Column("away_id", ID, nullable=False),
        sa.Column("learner_side", sa.String(), nullable=True),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("budget", sa.BigInteger(), nullable=False),
        sa.Column("branch", sa.String(), nullable=False),
        sa.Column("propensity", sa.Double(), nullable=True),
        sa.Column("draw_id", sa.String(), nullable=False),
        sa.Column("gate_id", sa.BigInteger(), nullable=True),
        sa.Column("granted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("released_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("state", sa.String(), server_default="open", nullable=False),
        sa.CheckConstraint("kind = 'training' OR home_id <> away_id", name=op.f("ck_leases_two_players")),
        sa.CheckConstraint("kind IN ('training', 'rating', 'gate')", name=op.f("ck_leases_kind")),
        sa.CheckConstraint("learner_side IN ('home', 'away')", name=op.f("ck_leases_side")),
        sa.CheckConstraint("state IN ('open', 'released', 'played', 'expired')", name=op.f("ck_leases_state")),
        sa.CheckConstraint("budget >= 1", name=op.f("ck_leases_budget")),
        sa.ForeignKeyConstraint(
            ["draw_id"], ["opponent_distributions.id"], name=op.f("fk_leases_draw_id_opponent_distributions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leases")),
    )
    op.create_index(op.f("ix_leases_draw_id"), "leases", ["draw_id"], unique=False)
    op.create_index(
        "ix_leases_gate",
        "leases",
        ["gate_id", "id"],
        unique=False,
        sqlite_where=sa.text("gate_id IS NOT NULL"),
        postgresql_where=sa.text("gate_id IS NOT NULL"),
    )
    op.create_index(
        "ix_leases_open",
        "leases",
        ["expires_at"],
        unique=False,
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "ratings",
        sa.Column("id", ID, nullable=False),
        sa.Column("player_id", ID, nullable=False),
        sa.Column("side", sa.String(), nullable=True),
        sa.Column("period_id", ID, nullable=False),
        sa.Column("rating", sa.Double(), nullable=False),
        sa.Column("deviation", sa.Double(), nullable=False),
        sa.Column("volatility", sa.Double(), nullable=False),
        sa.Column("games", sa.BigInteger(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.CheckConstraint("side IN ('home', 'away')", name=op.f("ck_ratings_side")),
        sa.ForeignKeyConstraint(["period_id"], ["periods.id"], name=op.f("fk_ratings_period_id_periods")),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name=op.f("fk_ratings_player_id_players")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ratings")),
    )
    op.create_index(op.f("ix_ratings_period_id"), "ratings", ["period_id"], unique=False)
    op.create_index(
        "uq_ratings_overall",
        "ratings",
        ["player_id", "period_id"],
        unique=True,
        sqlite_where=sa.text("side IS NULL"),
        postgresql_where=sa.text("side IS NULL"),
    )
    op.create_index(
        "uq_ratings_side",
        "ratings",
        ["player_id", "side", "period_id"],
        unique=True,
        sqlite_where=sa.text("side IS NOT NULL"),
        postgresql_where=sa.text("side IS NOT NULL"),
    )
    op.create_table(
        "unplayable_reports",
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("player_id", ID, nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("checked", sa.Boolean(), nullable=False),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("resolution", sa.String(), nullable=True),
        sa.Column("resolved_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "resolution IN ('confirmed', 'corroborated', 'refuted', 'dismissed', 'cleared')",
            name=op.f("ck_unplayable_reports_resolution"),
        ),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name=op.f("fk_unplayable_reports_player_id_players")),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name=op.f("fk_unplayable_reports_worker_id_workers")),
        sa.PrimaryKeyConstraint("worker_id", "player_id", name=op.f("pk_unplayable_reports")),
    )
    op.create_index(op.f("ix_unplayable_reports_owner"), "unplayable_reports", ["owner"], unique=False)
    op.create_index(op.f("ix_unplayable_reports_player_id"), "unplayable_reports", ["player_id"], unique=False)
    op.create_table(
        "matches",
        sa.Column("id", ID, nullable=False),
        sa.Column("lease_id", sa.String(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("home_id", ID, nullable=False),
        sa.Column("away_id", ID, nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("decisions", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("learner_step", sa.BigInteger(), nullable=True),
        sa.Column("late", sa.Boolean(), nullable=False),
        sa.Column("payload_hash", sa.LargeBinary(), nullable=False),
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("kind = 'training' OR home_id <> away_id", name=op.f("ck_matches_two_players")),
        sa.CheckConstraint("kind IN ('training', 'rating', 'gate')", name=op.f("ck_matches_kind")),
        sa.CheckConstraint("decisions >= 1", name=op.f("ck_matches_decisions")),
        sa.CheckConstraint("score >= 0 AND score <= 1", name=op.f("ck_matches_score")),
        sa.CheckConstraint("sequence >= 0", name=op.f("ck_matches_sequence")),
        sa.ForeignKeyConstraint(["away_id"], ["players.id"], name=op.f("fk_matches_away_id_players")),
        sa.ForeignKeyConstraint(["home_id"], ["players.id"], name=op.f("fk_matches_home_id_players")),
        sa.ForeignKeyConstraint(["lease_id"], ["leases.id"], name=op.f("fk_matches_lease_id_leases")),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name=op.f("fk_matches_worker_id_workers")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_matches")),
        sa.UniqueConstraint("lease_id", "sequence", name=op.f("uq_matches_lease_id_sequence")),
    )
    op.create_index(op.f("ix_matches_away_id_id"), "matches", ["away_id", "id"], unique=False)
    op.create_index(op.f("ix_matches_environment_id"), "matches", ["environment", "id"], unique=False)
    op.create_index(op.f("ix_matches_home_id_id_away_id"), "matches", ["home_id", "id", "away_id"], unique=False)
    op.create_table(
        "snapshot_decisions",
        sa.Column("learner_id", ID, nullable=False),
        sa.Column("since_step", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("reset", sa.Boolean(), nullable=False),
        sa.Column("start", sa.String(), nullable=True),
        sa.Column("event_id", ID, nullable=False),
        sa.Column("player_id", ID, nullable=True),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("fk_snapshot_decisions_event_id_events")),
        sa.ForeignKeyConstraint(
            ["learner_id"], ["learners.id"], name=op.f("fk_snapshot_decisions_learner_id_learners")
        ),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name=op.f("fk_snapshot_decisions_player_id_players")),
        sa.PrimaryKeyConstraint("learner_id", "since_step", name=op.f("pk_snapshot_decisions")),
    )
    op.create_table(
        "behaviours",
        sa.Column("match_id", ID, autoincrement=False, nullable=False),
        sa.Column("measure_set_id", sa.String(), nullable=False),
        sa.Column("home", sa.LargeBinary(), nullable=False),
        sa.Column("away", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["match_id"], ["matches.id"], name=op.f("fk_behaviours_match_id_matches")),
        sa.ForeignKeyConstraint(
            ["measure_set_id"], ["measure_sets.id"], name=op.f("fk_behaviours_measure_set_id_measure_sets")
        ),
        sa.PrimaryKeyConstraint("match_id", name=op.f("pk_behaviours")),
    )
    op.create_table(
        "refusals",
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("lease_id", sa.String(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("match_id", ID, nullable=True),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("refused_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "status IN ('accepted', 'duplicate', 'conflict', 'rejected')", name=op.f("ck_refusals_status")
        ),
        sa.ForeignKeyConstraint(["match_id"], ["matches.id"], name=op.f("fk_refusals_match_id_matches")),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name=op.f("fk_refusals_worker_id_workers")),
        sa.PrimaryKeyConstraint("worker_id", "lease_id", "digest", name=op.f("pk_refusals")),
    )
    op.create_index(op.f("ix_refusals_worker_id_refused_at"), "refusals", ["worker_id", "refused_at"], unique=False)
    op.create_table(
        "replays",
        sa.Column("match_id", ID, autoincrement=False, nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("notable", sa.Boolean(), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["match_id"], ["matches.id"], name=op.f("fk_replays_match_id_matches")),
        sa.PrimaryKeyConstraint("match_id", name=op.f("pk_replays")),
    )
    op.create_index(op.f("ix_replays_notable_size_bytes"), "replays", ["notable", "size_bytes"], unique=False)
