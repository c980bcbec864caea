"""A server may keep its calls to one core of the machine."""

import os
import sys
import threading
from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient
from starlette.concurrency import run_in_threadpool

from league import cores
from league.errors import ConfigurationError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets threads keep to cores")


@pytest.fixture
def backend() -> str:
    return "sqlite"


def test_calls_keep_to_the_core_and_duties_do_not(serve: Callable[..., TestClient]) -> None:
    mine = os.sched_getaffinity(0)
    http = serve(core=max(mine))
    assert http.portal is not None
    assert http.portal.call(os.sched_getaffinity, 0) == {max(mine)}
    assert http.portal.call(run_in_threadpool, os.sched_getaffinity, 0) == {max(mine)}
    duties = [each.native_id for each in threading.enumerate() if each.name == "sweeping leases"]
    assert duties
    assert all(os.sched_getaffinity(each or 0) == mine for each in duties)


def test_unless_told_a_server_keeps_to_no_core(serve: Callable[..., TestClient]) -> None:
    http = serve()
    assert http.portal is not None
    assert http.portal.call(os.sched_getaffinity, 0) == os.sched_getaffinity(0)


def test_where_the_system_knows_no_cores_none_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    cores.require_usable(None)
    with pytest.raises(ConfigurationError, match="LEAGUE_CORE=0: only Linux"):
        cores.require_usable(0)
