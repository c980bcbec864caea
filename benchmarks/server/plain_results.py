"""Reference for results: a FastAPI endpoint that inserts each batch without any check.

    python -m benchmarks.server.plain_results --database-url sqlite:////tmp/plain.db --port 8001

Plain FastAPI and SQLAlchemy, without the league's database layer. The table has no index beside its key.
"""

from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import BigInteger, Column, Double, Integer, MetaData, String, Table, insert

from benchmarks.server.plain_server import open_engine, serve

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
    app, engine = FastAPI(), open_engine(database_url)
    TABLE.metadata.create_all(engine)

    @app.post("/api/v1/results")
    def report(batch: Batch) -> int:
        with engine.begin() as connection:
            connection.execute(insert(TABLE), [result.model_dump() for result in batch.results])
        return len(batch.results)

    return app


if __name__ == "__main__":
    serve(create_app)
