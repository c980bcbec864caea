"""Policies that are asked by messages: processes and servers, what they are told, and how each of them fails."""

import json
import signal
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from outside_policies import EXAMPLES, PATIENT, script
from refused import refused

from arena.agents import Batch, open_policy
from arena.agents import subprocess as process
from arena.agents.http import HttpActor
from arena.agents.json_messages import declared, read_hello
from arena.agents.subprocess import ProcessActor
from arena.environments import declare
from arena.play.series import play_series, resolve_policy

RECALL, RPS = declare("recall"), declare("rps")


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """A process may take as long to end as a machine that does other things too makes of it."""
    monkeypatch.setattr(process, "EXIT_TIMEOUT_S", 600.0)


# --- processes -------------------------------------------------------------------------------------------------------

HELLO = """
import json, os, sys, time
print(json.dumps({"protocol": 1}), flush=True)
sys.stdin.readline()
question = sys.stdin.readline()
number = json.loads(question)["id"]
"""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("text", "values"),
    [
        (HELLO + "sys.exit(3)", (3,)),
        (HELLO + "os.kill(os.getpid(), 9)", (9,)),
        (HELLO + "print('loading weights')", ("loading weights",)),
        (HELLO + "print('[1]')", ("[1]", "JSON")),
        (HELLO + "print(json.dumps({'id': number + 1, 'actions': {}}))", (2, 1)),
        (HELLO + "print(json.dumps({'id': number, 'actions': [1]}))", ("actions",)),
        (HELLO + "print(json.dumps({'error': 'out of\\nbook'}))", ("out of book",)),
        ("import sys; sys.stdin.readline(); print('{\"protocol\": 2}')", ("protocol", 2, 1)),
        ("import sys; sys.stdin.readline(); print('{}')", ("protocol", "null", 1)),
        ("", (0,)),
    ],
)
def test_failing_policy_process_is_reported_and_ended(folder, text, values):
    name = script(folder, "failing.py", text)
    with refused("external-policy-failed", *values):
        play_series("rps", open_policy(RPS, name, PATIENT), resolve_policy("rps", "random"), matches=2, seed=0)


@pytest.mark.integration
@pytest.mark.parametrize("memory", ["NaN", "1e999", "-Infinity"])
def test_non_finite_memory_of_a_policy_process_is_rejected(folder, memory):
    answer = f"""
while question:
    seen = json.loads(question)
    agents = len(seen["observation"])
    memory = ", ".join(["{memory}"] * agents)
    actions = json.dumps({{"answer": [0] * agents}})
    print('{{"id": %d, "actions": %s, "memory": [%s]}}' % (seen["id"], actions, memory), flush=True)
    question = sys.stdin.readline()
"""
    name = script(folder, "forgetful.py", HELLO + answer)
    with refused("external-policy-failed", "JSON"):
        play_series("recall", open_policy(RECALL, name, PATIENT), resolve_policy("recall", "random"), matches=2, seed=0)


@pytest.mark.integration
def test_a_process_that_does_not_start_is_refused(folder):
    for command, values in [
        ("process:/no/such/bot", ("/no/such/bot",)),
        ("process:", ("process:",)),
        ("process:bot 'unclosed", ("process:bot 'unclosed",)),
    ]:
        with refused("external-policy-failed", *values):
            open_policy(RPS, command)


@pytest.mark.integration
def test_a_process_that_is_late_is_killed_with_those_that_it_started(folder):
    late = "import subprocess\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    text = HELLO.replace("sys.stdin.readline()\nquestion", late + "sys.stdin.readline()\nquestion")
    name = script(folder, "late.py", f"{text}\nopen('child', 'w').write(str(child.pid))\ntime.sleep(600)")
    actor = ProcessActor(name.removeprefix("process:"), RPS, start_s=600.0, answer_s=0.1)
    with refused("external-policy-failed", 0.1):
        actor.act(Batch(np.zeros((1, 1), np.float32), {}, (None,)))
    assert actor._process.returncode == -signal.SIGKILL
    with refused("external-policy-failed"):
        actor.act(Batch(np.zeros((1, 1), np.float32), {}, (None,)))


@pytest.mark.integration
def test_policy_process_that_never_reads_times_out(folder):
    name = script(folder, "deaf.py", "import time\ntime.sleep(600)")
    with refused("external-policy-failed", "hello"):
        ProcessActor(name.removeprefix("process:"), RPS, start_s=0.1, answer_s=0.1)


@pytest.mark.integration
def test_a_process_ends_with_its_input_and_closing_twice_does_nothing():
    policy = open_policy(RECALL, f"process:{sys.executable} {EXAMPLES / 'bot.py'}", PATIENT)
    process = policy._actor._process
    assert policy.identity == "recaller 1.0"
    policy.close()
    policy.close()
    assert process.returncode == 0


@pytest.mark.integration
def test_unclosed_policy_process_is_ended_at_exit():
    policy = open_policy(RECALL, f"process:{sys.executable} {EXAMPLES / 'bot.py'}", PATIENT)
    process = policy._actor._process
    del policy
    assert process.returncode == 0


# --- servers ---------------------------------------------------------------------------------------------------------


class Server:
    """Answers as it is told to, one answer after the other; an answer is (status, body), None to hang up, "silent", or
    "slow" to answer byte by byte and without end."""

    def __init__(self):
        self.answers, self.asked, self.release = [], [], threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((question["type"], self.client_address, self.path))
                answer = outer.answers.pop(0)
                if answer is None:
                    self.close_connection = True
                    return
                if answer == "slow":
                    self.send_response(200)
                    self.send_header("Content-Length", str(10**9))
                    self.end_headers()
                    with suppress(OSError):  # nobody listens any more
                        while not outer.release.wait(0.001):
                            self.wfile.write(b" ")
                    self.close_connection = True
                    return
                if answer == "silent":
                    outer.release.wait()
                    self.close_connection = True
                    return
                status, body = answer
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = False
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.http.server_port}/act?model=2"

    def close(self):
        self.release.set()
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server():
    made, opened = Server(), []
    made.answers.append((200, {"protocol": 1, "identity": "served"}))

    def open_actor(answer_s=600.0):
        opened.append(HttpActor(made.address, RPS, start_s=600.0, answer_s=answer_s))
        return opened[-1]

    made.open = open_actor
    yield made
    for actor in opened:
        actor.close()
    made.close()


ONE = Batch(np.zeros((1, 1), np.float32), {}, (None,))


def test_a_server_is_asked_over_one_connection_and_once_more_where_that_had_gone_stale(server):
    actor = server.open()
    server.answers += [(200, {"id": 1, "actions": {"choice": [2]}}), None, (200, {"id": 2, "actions": {"choice": [1]}})]
    assert actor.identity == "served"
    assert actor.act(ONE).actions == {"choice": [2]}
    assert actor.act(ONE).actions == {"choice": [1]}
    kinds, connections, paths = zip(*server.asked, strict=True)
    assert kinds == ("hello", "act", "act", "act")
    assert connections[0] == connections[1] == connections[2] != connections[3]
    assert set(paths) == {"/act?model=2"}


@pytest.mark.parametrize(
    ("answers", "values"),
    [
        ([(500, {"error": "no memory left"})], (500, "no memory left")),
        ([(404, b"<html>nothing</html>")], (404, "<html>nothing")),
        ([(200, b"<html>")], ("JSON",)),
        ([(200, b"[" * 100_000)], ("JSON",)),
        ([None, None], ()),
    ],
)
def test_failing_policy_server_is_reported(server, answers, values):
    actor = server.open()
    server.answers += answers
    with refused("external-policy-failed", *values):
        actor.act(ONE)


@pytest.mark.parametrize("way", ["silent", "slow"])
def test_a_server_that_is_late_is_not_waited_for(server, way):
    actor = server.open(answer_s=0.05)
    server.answers.append(way)
    with refused("external-policy-failed", 0.05):
        actor.act(ONE)


def test_unreachable_policy_server_is_rejected():
    for address in ("http://127.0.0.1:1/", "http://:80/"):
        with refused("external-policy-failed", address):
            open_policy(RPS, address)


# --- the protocol ----------------------------------------------------------------------------------------------------


def test_the_game_is_declared_in_strict_json():
    for environment in ("rps", "recall", "mech-duel", "openspiel:kuhn_poker"):
        spec = declare(environment)
        game = json.loads(json.dumps(declared(spec), allow_nan=False))
        assert game["signature"] == spec.signature
        assert sum(int(np.prod(block["shape"])) for block in game["observation"]) == spec.observation_size
        assert [head["size"] for head in game["heads"]] == [head.size for head in spec.heads]


def test_an_identity_is_text_or_none():
    assert read_hello({"protocol": 1, "identity": "v1", "more": 2}) == "v1"
    assert read_hello({"protocol": 1, "identity": 3}) is None
