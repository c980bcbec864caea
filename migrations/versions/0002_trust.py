"""What a league needs to be trusted with months of training."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _add_states_of_leases()
    _add_champions()
    _add_versions_of_ratings()
    _add_terms_of_tokens()
    _add_refusals()
    _add_pruning_of_draws()
    _add_quarantines()
    _add_uploads()
    _add_gates()
    _add_decisions()
    _add_behaviours()
    _add_replays()
    _add_metric_points()
    _add_filters_of_events()
    _add_pairs_of_matches()
    _add_sides()
    _loosen_payoffs()
    _loosen_leases()


def downgrade() -> None:
    _tighten_leases()
    _tighten_payoffs()
    _drop_sides()
    _drop_pairs_of_matches()
    _drop_filters_of_events()
    _drop_metric_points()
    _drop_replays()
    _drop_behaviours()
    _drop_decisions()
    _drop_gates()
    _drop_uploads()
    _drop_quarantines()
    _drop_pruning_of_draws()
    _drop_refusals()
    _drop_terms_of_tokens()
    _drop_versions_of_ratings()
    _drop_champions()
    _drop_states_of_leases()


# --- leases ----------------------------------------------------------------------------------------------------------


def _add_states_of_leases() -> None:
    op.add_column("leases", sa.Column("state", sa.String(), server_default="open", nullable=False))
    op.execute("UPDATE leases SET state = 'released' WHERE released_at IS NOT NULL")
    still_open = sa.text("state = 'open'")
    op.create_index("ix_leases_open", "leases", ["expires_at"], sqlite_where=still_open, postgresql_where=still_open)
    op.create_index(op.f("ix_payoffs_high_id"), "payoffs", ["high_id"])
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
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name=op.f("fk_unplayable_reports_player_id_players")),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name=op.f("fk_unplayable_reports_worker_id_workers")),
        sa.PrimaryKeyConstraint("worker_id", "player_id", name=op.f("pk_unplayable_reports")),
    )
    op.create_index(op.f("ix_unplayable_reports_player_id"), "unplayable_reports", ["player_id"])
    op.create_index(op.f("ix_unplayable_reports_owner"), "unplayable_reports", ["owner"])


def _drop_states_of_leases() -> None:
    op.drop_table("unplayable_reports")
    op.drop_index(op.f("ix_payoffs_high_id"), "payoffs")
    op.drop_index("ix_leases_open", "leases")
    op.drop_column("leases", "state")


# --- champions -------------------------------------------------------------------------------------------------------


def _add_champions() -> None:
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


def _drop_champions() -> None:
    op.drop_table("champions")


# --- ratings ---------------------------------------------------------------------------------------------------------


def _add_versions_of_ratings() -> None:
    op.add_column("periods", sa.Column("version", sa.BigInteger(), server_default="1", nullable=False))
    op.add_column("periods", sa.Column("refitted", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_table(
        "elections",
        sa.Column("duty", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("duty", name=op.f("pk_elections")),
    )


def _drop_versions_of_ratings() -> None:
    op.drop_table("elections")
    op.execute(
        """CREATE TEMPORARY TABLE outdated AS SELECT id FROM periods WHERE version <
        (SELECT max(version) FROM periods AS other WHERE other.environment = periods.environment)"""
    )
    op.execute("DELETE FROM ratings WHERE period_id IN (SELECT id FROM outdated)")
    op.execute("DELETE FROM periods WHERE id IN (SELECT id FROM outdated)")
    op.execute("DROP TABLE outdated")
    op.drop_column("periods", "refitted")
    op.drop_column("periods", "version")


# --- tokens ----------------------------------------------------------------------------------------------------------


def _add_terms_of_tokens() -> None:
    op.add_column("tokens", sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("tokens", sa.Column("used_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("workers", sa.Column("owner", sa.String(), nullable=True))
    op.add_column("learners", sa.Column("owner", sa.String(), nullable=True))
    op.add_column("players", sa.Column("owner", sa.String(), nullable=True))


def _drop_terms_of_tokens() -> None:
    op.drop_column("players", "owner")
    op.drop_column("learners", "owner")
    op.drop_column("workers", "owner")
    op.drop_column("tokens", "used_at")
    op.drop_column("tokens", "expires_at")


# --- results ---------------------------------------------------------------------------------------------------------


def _add_refusals() -> None:
    op.add_column("learners", sa.Column("max_decisions", sa.BigInteger(), nullable=True))
    op.create_table(
        "refusals",
        sa.Column("worker_id", sa.String(), nullable=False),
        sa.Column("lease_id", sa.String(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("match_id", ID, nullable=True),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("refused_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["match_id"], ["matches.id"], name=op.f("fk_refusals_match_id_matches")),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name=op.f("fk_refusals_worker_id_workers")),
        sa.PrimaryKeyConstraint("worker_id", "lease_id", "digest", name=op.f("pk_refusals")),
    )
    op.create_index(op.f("ix_refusals_worker_id_refused_at"), "refusals", ["worker_id", "refused_at"])


def _drop_refusals() -> None:
    op.drop_table("refusals")
    op.drop_column("learners", "max_decisions")


# --- draws -----------------------------------------------------------------------------------------------------------


def _add_pruning_of_draws() -> None:
    op.add_column("draws", sa.Column("pruned_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(op.f("ix_leases_draw_id"), "leases", ["draw_id"])


def _drop_pruning_of_draws() -> None:
    op.drop_index(op.f("ix_leases_draw_id"), "leases")
    op.drop_column("draws", "pruned_at")


# --- bad workers -----------------------------------------------------------------------------------------------------


def _add_quarantines() -> None:
    op.add_column("workers", sa.Column("instance", sa.String(), nullable=True))
    op.create_index("uq_workers_instance", "workers", ["kind", "instance"], unique=True)
    op.add_column("players", sa.Column("start_period_id", sa.BigInteger(), nullable=True))
    op.add_column("players", sa.Column("start_deviation_floor", sa.Double(), nullable=True))
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
    op.create_index(op.f("ix_quarantines_worker_id"), "quarantines", ["worker_id"])
    still_open = sa.text("lifted_at IS NULL")
    op.create_index(
        "uq_quarantines_open",
        "quarantines",
        ["worker_id"],
        unique=True,
        sqlite_where=still_open,
        postgresql_where=still_open,
    )


def _drop_quarantines() -> None:
    op.drop_table("quarantines")
    op.drop_column("players", "start_deviation_floor")
    op.drop_column("players", "start_period_id")
    op.drop_index("uq_workers_instance", "workers")
    op.drop_column("workers", "instance")


# --- uploads ---------------------------------------------------------------------------------------------------------


def _add_uploads() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", ID, nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_uploads")),
    )
    op.create_index(op.f("ix_uploads_owner"), "uploads", ["owner"])
    op.create_index(op.f("ix_uploads_sha256"), "uploads", ["sha256"])


def _drop_uploads() -> None:
    op.drop_table("uploads")


# --- gates -----------------------------------------------------------------------------------------------------------


def _add_gates() -> None:
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
        sa.ForeignKeyConstraint(["candidate_id"], ["players.id"], name=op.f("fk_gates_candidate_id_players")),
        sa.ForeignKeyConstraint(["champion_id"], ["players.id"], name=op.f("fk_gates_champion_id_players")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gates")),
    )
    still_open = sa.text("state = 'open'")
    op.create_index(
        "uq_gates_open",
        "gates",
        ["candidate_id", "champion_id", "elo0", "elo1", "alpha", "beta", "least_games"],
        unique=True,
        sqlite_where=still_open,
        postgresql_where=still_open,
    )
    op.add_column("leases", sa.Column("gate_id", sa.BigInteger(), nullable=True))
    of_gate = sa.text("gate_id IS NOT NULL")
    op.create_index("ix_leases_gate", "leases", ["gate_id", "id"], sqlite_where=of_gate, postgresql_where=of_gate)


def _drop_gates() -> None:
    op.drop_index("ix_leases_gate", "leases")
    op.drop_column("leases", "gate_id")
    op.drop_table("gates")


# --- roles -----------------------------------------------------------------------------------------------------------


def _add_decisions() -> None:
    op.add_column("learners", sa.Column("rules", sa.JSON(), nullable=True))
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


def _drop_decisions() -> None:
    op.drop_table("snapshot_decisions")
    op.drop_column("learners", "rules")


# --- behaviour -------------------------------------------------------------------------------------------------------


def _add_behaviours() -> None:
    op.create_table(
        "measure_sets",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("measures", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measure_sets")),
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
        "fingerprints",
        sa.Column("player_id", ID, nullable=False),
        sa.Column("measure", sa.String(), nullable=False),
        sa.Column("matches", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.Double(), nullable=False),
        sa.Column("squares", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name=op.f("fk_fingerprints_player_id_players")),
        sa.PrimaryKeyConstraint("player_id", "measure", name=op.f("pk_fingerprints")),
    )
    op.create_table(
        "fingerprint_marks",
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("last_match_id", sa.BigInteger(), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("environment", name=op.f("pk_fingerprint_marks")),
    )


def _drop_behaviours() -> None:
    op.drop_table("fingerprint_marks")
    op.drop_table("fingerprints")
    op.drop_table("behaviours")
    op.drop_table("measure_sets")


# --- replays ---------------------------------------------------------------------------------------------------------


def _add_replays() -> None:
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
    op.create_index(op.f("ix_replays_notable_size_bytes"), "replays", ["notable", "size_bytes"])


def _drop_replays() -> None:
    op.drop_table("replays")


# --- curves of learners ----------------------------------------------------------------------------------------------


def _add_metric_points() -> None:
    op.add_column("learners", sa.Column("verdicts", sa.JSON(), nullable=True))
    op.add_column("learners", sa.Column("points", sa.BigInteger(), server_default="0", nullable=False))
    op.create_table(
        "metric_points",
        sa.Column("learner_id", ID, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("measure_set_id", sa.String(), nullable=False),
        sa.Column("readings", sa.LargeBinary(), nullable=False),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["learner_id"], ["learners.id"], name=op.f("fk_metric_points_learner_id_learners")),
        sa.ForeignKeyConstraint(
            ["measure_set_id"], ["measure_sets.id"], name=op.f("fk_metric_points_measure_set_id_measure_sets")
        ),
        sa.PrimaryKeyConstraint("learner_id", "number", name=op.f("pk_metric_points")),
        sa.UniqueConstraint("learner_id", "step", name=op.f("uq_metric_points_learner_id_step")),
    )


def _drop_metric_points() -> None:
    op.drop_table("metric_points")
    op.drop_column("learners", "points")
    op.drop_column("learners", "verdicts")


# --- events ----------------------------------------------------------------------------------------------------------


def _add_filters_of_events() -> None:
    op.create_index(op.f("ix_events_kind_id"), "events", ["kind", "id"])
    op.create_index(op.f("ix_events_actor_id"), "events", ["actor", "id"])
    no_period = sa.text("kind != 'period'")
    op.create_index("ix_events_no_period", "events", ["id"], sqlite_where=no_period, postgresql_where=no_period)


def _drop_filters_of_events() -> None:
    op.drop_index("ix_events_no_period", "events")
    op.drop_index(op.f("ix_events_actor_id"), "events")
    op.drop_index(op.f("ix_events_kind_id"), "events")


# --- matches ---------------------------------------------------------------------------------------------------------


def _add_pairs_of_matches() -> None:
    op.create_index(op.f("ix_matches_home_id_away_id_id"), "matches", ["home_id", "away_id", "id"])


def _drop_pairs_of_matches() -> None:
    op.drop_index(op.f("ix_matches_home_id_away_id_id"), "matches")


# --- unlike sides ----------------------------------------------------------------------------------------------------


def _add_sides() -> None:
    op.add_column("learners", sa.Column("sides", sa.JSON(), nullable=True))
    op.create_table(
        "side_ratings",
        sa.Column("player_id", ID, nullable=False),
        sa.Column("side", sa.String(), nullable=False),
        sa.Column("period_id", ID, nullable=False),
        sa.Column("rating", sa.Double(), nullable=False),
        sa.Column("deviation", sa.Double(), nullable=False),
        sa.Column("volatility", sa.Double(), nullable=False),
        sa.Column("games", sa.BigInteger(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["period_id"], ["periods.id"], name=op.f("fk_side_ratings_period_id_periods")),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name=op.f("fk_side_ratings_player_id_players")),
        sa.PrimaryKeyConstraint("player_id", "side", "period_id", name=op.f("pk_side_ratings")),
    )
    op.create_index(op.f("ix_side_ratings_period_id"), "side_ratings", ["period_id"])
    op.create_table(
        "side_payoffs",
        sa.Column("home_id", ID, nullable=False),
        sa.Column("away_id", ID, nullable=False),
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
    op.create_index(op.f("ix_side_payoffs_environment"), "side_payoffs", ["environment"])


def _drop_sides() -> None:
    op.drop_table("side_payoffs")
    op.drop_table("side_ratings")
    op.drop_column("learners", "sides")


# --- payoffs ---------------------------------------------------------------------------------------------------------

_SIDES_OF_PAYOFFS = "high_id", "low_id"


def _loosen_payoffs() -> None:
    with op.batch_alter_table("payoffs") as payoffs:
        for column in _SIDES_OF_PAYOFFS:
            payoffs.drop_constraint(op.f(f"fk_payoffs_{column}_players"), type_="foreignkey")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE payoffs SET (fillfactor = 50)")


def _tighten_payoffs() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE payoffs RESET (fillfactor)")
    with op.batch_alter_table("payoffs") as payoffs:
        for column in _SIDES_OF_PAYOFFS:
            payoffs.create_foreign_key(op.f(f"fk_payoffs_{column}_players"), "players", [column], ["id"])


# --- references of leases --------------------------------------------------------------------------------------------

_REFERENCES_OF_LEASES = {"home_id": "players", "away_id": "players", "worker_id": "workers"}


def _loosen_leases() -> None:
    """SQLite would have to copy the table, to which matches refer, and checks references in no time."""
    if op.get_bind().dialect.name == "postgresql":
        for column, table in _REFERENCES_OF_LEASES.items():
            op.drop_constraint(op.f(f"fk_leases_{column}_{table}"), "leases", type_="foreignkey")


def _tighten_leases() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for column, table in _REFERENCES_OF_LEASES.items():
            op.create_foreign_key(op.f(f"fk_leases_{column}_{table}"), "leases", table, [column], ["id"])
