"""How a floor is served: on the database and the port of the command line."""

import argparse
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI


def serve(create_app: Callable[[str], FastAPI]) -> None:
    """Serve the application that is made for a database's address, until a signal ends it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--database-url", required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    uvicorn.run(create_app(arguments.database_url), port=arguments.port, access_log=False, log_level="warning")
