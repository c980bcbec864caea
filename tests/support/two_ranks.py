"""Two ranks of one run, as threads, against a league in this process."""

import random
import threading

from ranks import ThreadGroup
from small_runs import rps

from league.client import LeagueClient
from trainer.checkpointing import format as state
from trainer.distributed.follower import Follower
from trainer.distributed.launch import RankInfo, shard_config
from trainer.league_client.retrying_client import RetryingClient
from trainer.ppo.learner import build_network

SECOND_OF_TWO = RankInfo(1, 2, 1, 2)

SEEDING = threading.Lock()
"""Initial weights come from torch's own generator, which all threads share: two ranks would mix up each other's."""


def together(*calls):
    """What came of calls, each in a thread, or what each raised."""
    came = [None] * len(calls)

    def work(number):
        try:
            came[number] = calls[number]()
        except Exception as error:  # noqa: BLE001  the test looks at it
            came[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return came


def build_alone(*arguments):
    """A network whose initial weights are those of its seed, whatever other threads do."""
    with SEEDING:
        return build_network(*arguments)


class Run:
    """Two ranks of one run in a folder, against a league in this process."""

    def __init__(self, worker_of, transport, outside, tmp_path, monkeypatch):
        monkeypatch.setattr("trainer.ppo.learner.build_network", build_alone)
        self._worker_of, self._transport, self._outside, self._tmp_path = worker_of, transport, outside, tmp_path
        self.lines = []
        self.learners = [None, None]
        self.followers = []

    def go(self, *settings, at_update=None, game=rps):
        """Train; `at_update` is called on rank 1 before it learns, with the number of the update."""
        config = game("league.heartbeat_s=1e9", *settings)
        own = shard_config(config, SECOND_OF_TWO)
        first, second = ThreadGroup(2).ranks()

        def lead():
            try:
                worker = self._worker_of(
                    LeagueClient(http=self._transport), config, lines=self.lines, ranks=first, own=own
                )
                self.learners[0], self.session = worker.learner, worker.session
                worker.run()
            except BaseException:
                first.leave()
                raise

        def follow():
            try:
                cache = self._tmp_path / "run" / "opponents" / "rank-1"
                link = RetryingClient(
                    LeagueClient(http=self._transport), clock=lambda: 0.0, rng=random.Random(0), backoff_max_s=1.0
                )
                quiet = self._outside.run_context()
                follower = Follower(own, cache, link, ranks=second, version="0", run_context=quiet)
                self.learners[1], learn = follower._learner, follower._learner.learn
                self.followers.append(follower)

                def learning(*arguments):
                    if at_update:
                        at_update(follower._learner.updates + 1)
                    return learn(*arguments)

                follower._learner.learn = learning
                follower.run()
            except BaseException:
                second.leave()
                raise

        return together(lead, follow)

    def go_alone(self, *settings):
        """Train as one process."""
        worker = self._worker_of(
            LeagueClient(http=self._transport), rps("league.heartbeat_s=1e9", *settings), lines=self.lines
        )
        worker.run()
        return worker

    def shared(self, number):
        return {name: each for name, each in self.learners[number].tensors().items() if not name.startswith("rng.")}

    def saved(self):
        return state.load(self._tmp_path / "run" / "state.safetensors")
