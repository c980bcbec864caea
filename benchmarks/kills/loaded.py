"""What the commands of a league load, so that it is there before they are forked. Nothing here starts a thread."""

import anyio.streams.memory
import h11
import httpcore2
import psycopg
import sqlalchemy.dialects.postgresql.psycopg
import tensorboard.summary.writer.event_file_writer
import torch._dynamo
import truststore
import uvicorn.lifespan.on
import uvicorn.loops.auto
import uvicorn.protocols.http.auto

import arena.environments
import arena.policies
import league.app
import league.cli
import trainer.cli.commands
import trainer.evaluation.evaluator
import trainer.runtime.train

__all__ = [
    "anyio",
    "arena",
    "h11",
    "httpcore2",
    "league",
    "psycopg",
    "sqlalchemy",
    "tensorboard",
    "torch",
    "trainer",
    "truststore",
    "uvicorn",
]
