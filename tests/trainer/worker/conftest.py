"""A league in this process, and a client of it."""

import pytest

from league.client import LeagueClient


@pytest.fixture
def transport(serve):
    return serve()


@pytest.fixture
def client(transport):
    return LeagueClient(http=transport)
