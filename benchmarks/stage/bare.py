"""The floor under results: a FastAPI endpoint that inserts each batch as it comes, and checks nothing.

    python -m benchmarks.stage.bare --database-url sqlite:////tmp/bare.db --port 8001

Connections, their settings and the server around it are the league's own; the table has no index beside its key.
"""

import argparse

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import BigInteger, Column, Double, Integer, MetaData, String, Table, insert

from league.db.engine import Database

TABLE = Table(
    "results",
    MetaData(),
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("lease_id", String),
    Column("sequence", BigInteger),
    Column("score", Double),
    Column("decisions", BigInteger),
    Column("reason", String),
    Column("seed", BigInteger),
    Column("learner_step", BigInteger),
)


class Result(BaseModel):
    lease_id: str
    sequence: int
    score: float
    decisions: int
    reason: str
    seed: int
    learner_step: int | None


class Batch(BaseModel):
    worker_id: str
    results: list[Result]


def create_app(database_url: str) -> FastAPI:
    app, database = FastAPI(), Database(database_url)
    with database.write_connection() as connection:
        TABLE.metadata.create_all(connection)

    @app.post("/api/v1/results")
    def report(batch: Batch) -> int:
        with database.write() as session:
            session.execute(insert(TABLE), [result.model_dump() for result in batch.results])
        return len(batch.results)

    return app


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--database-url", required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    uvicorn.run(create_app(arguments.database_url), port=arguments.port, access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
