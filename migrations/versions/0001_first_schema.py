"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "draws",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("distribution", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_draws")),
    )
    op.create_table(
        "learners",
        sa.Column("id", ID, nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("signature", sa.String(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("metrics_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_learners")),
        sa.UniqueConstraint("environment", "name", name=op.f("uq_learners_environment_name")),
    )
    op.create_table(
        "periods",
        sa.Column("id", ID, nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("last_match_id", sa.BigInteger(), nullable=False),
        sa.Column("matches", sa.BigInteger(), nullable=False),
        sa.Column("players", sa.BigInteger(), nullable=False),
        sa.Column("rule", sa.JSON(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_periods")),
        sa.UniqueConstraint("environment", "number", name=op.f("uq_periods_environment_number")),
    )
    op.create_index(
        op.f("ix_periods_environment_last_match_id"), "periods", ["environment", "last_match_id"], unique=False
    )

    op.create_table(
        "tokens",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
        sa.UniqueConstraint("name", name=op.f("uq_tokens_name")),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("signatures", sa.JSON(), nullable=False),
        sa.Column("command", sa.String(), nullable=False),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
        sa.UniqueConstraint("name", "kind", name=op.f("uq_workers_name_kind")),
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
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
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
    op.create_index(op.f("ix_events_player_id"), "events", ["player_id"], unique=False)

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
        sa.Column("granted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("released_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["away_id"], ["players.id"], name=op.f("fk_leases_away_id_players")),
        sa.ForeignKeyConstraint(["draw_id"], ["draws.id"], name=op.f("fk_leases_draw_id_draws")),
        sa.ForeignKeyConstraint(["home_id"], ["players.id"], name=op.f("fk_leases_home_id_players")),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name=op.f("fk_leases_worker_id_workers")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leases")),
    )
    op.create_table(
        "payoffs",
        sa.Column("low_id", ID, nullable=False),
        sa.Column("high_id", ID, nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("matches", sa.BigInteger(), nullable=False),
        sa.Column("games", sa.Double(), nullable=False),
        sa.Column("points", sa.Double(), nullable=False),
        sa.Column("wins", sa.Double(), nullable=False),
        sa.Column("draws", sa.Double(), nullable=False),
        sa.Column("losses", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["high_id"], ["players.id"], name=op.f("fk_payoffs_high_id_players")),
        sa.ForeignKeyConstraint(["low_id"], ["players.id"], name=op.f("fk_payoffs_low_id_players")),
        sa.PrimaryKeyConstraint("low_id", "high_id", name=op.f("pk_payoffs")),
    )
    op.create_index(op.f("ix_payoffs_environment"), "payoffs", ["environment"], unique=False)

    op.create_table(
        "ratings",
        sa.Column("player_id", ID, nullable=False),
        sa.Column("period_id", ID, nullable=False),
        sa.Column("rating", sa.Double(), nullable=False),
        sa.Column("deviation", sa.Double(), nullable=False),
        sa.Column("volatility", sa.Double(), nullable=False),
        sa.Column("games", sa.BigInteger(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["period_id"], ["periods.id"], name=op.f("fk_ratings_period_id_periods")),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name=op.f("fk_ratings_player_id_players")),
        sa.PrimaryKeyConstraint("player_id", "period_id", name=op.f("pk_ratings")),
    )
    op.create_index(op.f("ix_ratings_period_id"), "ratings", ["period_id"], unique=False)

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
        sa.ForeignKeyConstraint(["away_id"], ["players.id"], name=op.f("fk_matches_away_id_players")),
        sa.ForeignKeyConstraint(["home_id"], ["players.id"], name=op.f("fk_matches_home_id_players")),
        sa.ForeignKeyConstraint(["lease_id"], ["leases.id"], name=op.f("fk_matches_lease_id_leases")),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name=op.f("fk_matches_worker_id_workers")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_matches")),
        sa.UniqueConstraint("lease_id", "sequence", name=op.f("uq_matches_lease_id_sequence")),
    )
    op.create_index(op.f("ix_matches_away_id_id"), "matches", ["away_id", "id"], unique=False)
    op.create_index(op.f("ix_matches_environment_id"), "matches", ["environment", "id"], unique=False)
    op.create_index(op.f("ix_matches_home_id_id"), "matches", ["home_id", "id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_matches_home_id_id"), "matches")
    op.drop_index(op.f("ix_matches_environment_id"), "matches")
    op.drop_index(op.f("ix_matches_away_id_id"), "matches")

    op.drop_table("matches")
    op.drop_index(op.f("ix_ratings_period_id"), "ratings")

    op.drop_table("ratings")
    op.drop_index(op.f("ix_payoffs_environment"), "payoffs")

    op.drop_table("payoffs")
    op.drop_table("leases")
    op.drop_index(op.f("ix_events_player_id"), "events")

    op.drop_table("events")
    op.drop_index(
        "uq_players_learner",
        "players",
        sqlite_where=sa.text("kind = 'learner'"),
        postgresql_where=sa.text("kind = 'learner'"),
    )

    op.drop_table("players")
    op.drop_table("workers")
    op.drop_table("tokens")
    op.drop_index(op.f("ix_periods_environment_last_match_id"), "periods")

    op.drop_table("periods")
    op.drop_table("learners")
    op.drop_table("draws")
