"""Reference for leases and heartbeats: one minimal FastAPI endpoint for each.

    python -m benchmarks.server.plain_league --database-url sqlite:////tmp/plain.db --port 8001

A lease is a row with an opponent drawn uniformly; a heartbeat is an UPDATE. Nothing is checked, explained or counted.
Plain FastAPI and SQLAlchemy, without the league's database layer. `/repeated` gives the first lease's answer
again and again, without drawing or storing anything: nothing that answers as much can be faster here.
"""

from datetime import UTC, datetime

import numpy as np
from fastapi import FastAPI
from fastapi.responses import Response
from pydantic import BaseModel
from pydantic_core import to_json
from sqlalchemy import BigInteger, Column, MetaData, String, Table, insert
from sqlalchemy.dialects import postgresql, sqlite

from benchmarks.server.plain_server import open_engine, serve
from league.db.models.base import UtcDateTime

PLAYERS = 1_000
METADATA = MetaData()
LEASES = Table(
    "leases",
    METADATA,
    Column("id", String, primary_key=True),
    Column("worker_id", String),
    Column("opponent_id", BigInteger),
    Column("seed", BigInteger),
    Column("budget", BigInteger),
    Column("expires_at", UtcDateTime()),
)
WORKERS = Table("workers", METADATA, Column("id", String, primary_key=True), Column("seen_at", UtcDateTime()))


class LeaseRequest(BaseModel):
    worker_id: str
    player_id: int
    count: int
    budget: int


class Lease(BaseModel):
    id: str
    worker_id: str
    opponent_id: int
    seed: int
    budget: int
    expires_at: datetime


def create_app(database_url: str) -> FastAPI:
    app, engine = FastAPI(), open_engine(database_url)
    rng = np.random.default_rng()
    answers: list[bytes] = []
    METADATA.create_all(engine)

    @app.post("/api/v1/leases")
    def lease(request: LeaseRequest) -> list[Lease]:
        now = datetime.now(UTC)
        opponents = rng.integers(PLAYERS, size=request.count).tolist()
        seeds = rng.integers(2**63, size=request.count).tolist()
        rows = [
            {
                "id": rng.bytes(12).hex(),
                "worker_id": request.worker_id,
                "opponent_id": opponent,
                "seed": seed,
                "budget": request.budget,
                "expires_at": now,
            }
            for opponent, seed in zip(opponents, seeds, strict=True)
        ]
        with engine.begin() as connection:
            connection.execute(insert(LEASES), rows)
        return [Lease(**row) for row in rows]

    @app.post("/api/v1/repeated")
    def repeat(request: LeaseRequest) -> Response:
        if not answers:
            answers.append(to_json(lease(request)))
        return Response(answers[0], media_type="application/json")

    @app.post("/api/v1/workers/{worker_id}/heartbeat")
    def heartbeat(worker_id: str) -> dict[str, str]:
        dialect = sqlite if engine.name == "sqlite" else postgresql
        now = datetime.now(UTC)
        row = dialect.insert(WORKERS).values(id=worker_id, seen_at=now)
        with engine.begin() as connection:
            connection.execute(row.on_conflict_do_update(index_elements=["id"], set_={"seen_at": now}))
        return {"command": "continue"}

    return app


if __name__ == "__main__":
    serve(create_app)
