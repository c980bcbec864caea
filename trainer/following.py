"""Every rank but the first: it plays its environments and learns with the others; the league is rank 0's business.

It fetches opponents' checkpoints itself, into a cache of its own. `trainer.leading` is the other side of every message.
"""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors

from arena.environments import EnvironmentSpec
from arena.policies import NetworkPolicy
from league.wire import LeaseAnswer, UnplayablePlayer
from trainer.batches import open_batches
from trainer.checks import check_discount, check_minibatches
from trainer.collector import Collector, Episode
from trainer.dispatches import Decision, Figures, Matches, Played, Share, Start, Wish
from trainer.distributed import Ranks
from trainer.learner import Learner
from trainer.leases import LEASES_PER_CALL, LeaseBook
from trainer.lessons import Course
from trainer.link import Link
from trainer.membership import Membership
from trainer.opponents import SELF, DiskCache, Opponent, OpponentPool
from trainer.settings import TrainerConfig
from trainer.surroundings import Surroundings
from trainer.torchrun import seed_of

MOST_AHEAD = 64
"""Rounds of leases that a rank holds at most: matches of one decision use up so many in a rollout."""

OWN_CHANCE = {"rng.acting", "rng.update"}


class Errand:
    """What a lease book asks of the league, kept until rank 0 can be told, and what came of it."""

    def __init__(self) -> None:
        self._leases = 0
        self._unwanted: list[str] = []
        self._unplayable: dict[int, UnplayablePlayer] = {}
        self._answer: LeaseAnswer | None = None

    def request(self, count: int) -> LeaseAnswer | None:
        """Take what was brought; where nothing was, ask for so many the next time."""
        answer, self._answer = self._answer, None
        if answer is None:
            self._leases = count
        return answer

    def release(self, lease_ids: list[str], unplayable: list[UnplayablePlayer]) -> None:
        """Give leases back the next time."""
        self._unwanted += lease_ids
        self._unplayable |= {each.player_id: each for each in unplayable}

    def leave(self, *, stopping: bool) -> Wish:
        """All that was asked for; of leases to give back as many as one call takes, the others the next time."""
        unwanted, self._unwanted = self._unwanted[:LEASES_PER_CALL], self._unwanted[LEASES_PER_CALL:]
        unplayable = list(self._unplayable.values())
        wish = Wish(leases=self._leases, unwanted=unwanted, unplayable=unplayable, stopping=stopping)
        self._leases, self._unplayable = 0, {}
        return wish

    def bring(self, answer: LeaseAnswer | None) -> None:
        """Come back with what was granted."""
        self._answer = answer


class Follower:
    """One rank's part of a run, from where rank 0 says.

    Args:
        config: This rank's share of the settings.
        cache: Folder of downloaded checkpoints, this rank's own.
        link: The league, which is asked for checkpoints alone.
        ranks: All of them.
        version: Of this program.
        outside: Time and signals.

    Raises:
        ConfigError: Settings do not fit the environment.
        RankLostError: Another rank is gone.
    """

    def __init__(
        self, config: TrainerConfig, cache: Path, link: Link, *, ranks: Ranks, version: str, outside: Surroundings
    ) -> None:
        self._ranks, self._outside = ranks, outside
        seed = seed_of(config.run.seed, ranks.number)
        batches = open_batches(config.environment, config.run.model_copy(update={"seed": seed}))
        spec = batches[0].spec
        check_discount(batches[0], config.ppo.gamma)
        check_minibatches(config, spec)
        self._course = Course.of(batches, config.curriculum)
        self._learner = Learner(config, spec, ranks)
        self._errand = Errand()
        self._played: list[Played] = []
        self._book = self._make_book(config, spec, cache, Membership(link, config.league, spec, version), seed)
        self._begin()
        self._take_share()
        self._collector = Collector(
            batches,
            self._learner.network,
            self._book,
            self._take_in,
            self._learner.rng,
            self_play=config.environment.self_play_rows,
            device_cache_bytes=config.league.device_cache_bytes,
            ranks=ranks,
        )

    def run(self) -> None:
        """Play and learn until rank 0 says that it is over.

        Raises:
            DivergedError: Losses or gradients were not finite too often in a row.
            RankLostError: Another rank is gone.
        """
        rollout = self._learner.allocate()
        while (share := self._take_share()) and not share.over:
            if self._course is not None:
                self._course.advance(share.episodes, self._collector.playing)
            unrated = self._book.unrated
            filled = self._collector.collect(rollout, self._outside.stopping)
            self._ranks.tell(Matches(played=self._played).written_down())
            self._played = []
            if not filled:
                break
            if self._book.unrated > unrated:
                self._book.ahead = min(2 * self._book.ahead, MOST_AHEAD)
            metrics = self._learner.learn(rollout, self._outside.stopping)
            self._ranks.tell(Figures(decisions=int(rollout.active.sum()), metrics=metrics).written_down())
            self._obey(Decision.model_validate_json(self._ranks.from_first(b"")))
        self._give_state()

    def _make_book(
        self, config: TrainerConfig, spec: EnvironmentSpec, cache: Path, membership: Membership, seed: int
    ) -> LeaseBook:
        pool = OpponentPool(
            spec,
            membership.download,
            DiskCache(cache, config.league.disk_cache_bytes),
            memory_limit_bytes=config.league.memory_cache_bytes,
            device="cpu",
            modules=[config.network.module],
        )
        live = NetworkPolicy(self._learner.network, spec.name, spec.signature)
        return LeaseBook(
            pool,
            Opponent(SELF, config.league.learner, live),
            request=self._errand.request,
            release=self._errand.release,
            now=self._outside.now,
            rows=config.environment.num_envs,
            self_play=config.environment.self_play_rows,
            seed=seed,
        )

    def _begin(self) -> None:
        start = Start.model_validate_json(self._ranks.from_first(b""))
        self._take_over(start.steps, start.updates, start.began_step)
        if self._course is not None:
            self._course.advance(start.taught_at, ())
        if self._ranks.number <= len(start.states):
            own = start.states[self._ranks.number - 1]
            self._book.restore(own["leases"], start.written)
            tensors = self._learner.tensors() | {name: _bytes(own["chance"][name]) for name in OWN_CHANCE}
            self._learner.restore(tensors, start.steps, start.updates)

    def _take_over(self, steps: int, updates: int, began_step: int) -> None:
        """Go on with rank 0's weights and statistics, and with chance of its own."""
        own = {name: each for name, each in self._learner.tensors().items() if name in OWN_CHANCE}
        self._learner.restore(load_tensors(self._ranks.from_first(b"")) | own, steps, updates)
        self._learner.began_step = began_step

    def _take_share(self) -> Share:
        """Say what is needed, and hear what there is and whether it is over."""
        self._book.refill()
        self._ranks.tell(self._errand.leave(stopping=self._outside.stopping()).written_down())
        share = Share.model_validate_json(self._ranks.from_first(b""))
        self._errand.bring(share.answers[self._ranks.number - 1])
        self._book.refill()
        return share

    def _take_in(self, episode: Episode) -> None:
        played = episode.assignment
        if self._course is not None and not self._course.whole(played):
            episode = replace(episode, assignment=replace(played, lease=None))
        self._played.append(Played.of(episode))

    def _obey(self, decision: Decision) -> None:
        learner = self._learner
        if decision.anew:
            self._take_over(learner.steps, learner.updates, learner.steps)
        if decision.save:
            self._give_state()

    def _give_state(self) -> None:
        chance = {name: _text(self._learner.tensors()[name]) for name in OWN_CHANCE}
        state: dict[str, Any] = {"leases": self._book.saved(self._collector.pending), "chance": chance}
        self._ranks.tell(json.dumps(state).encode())


def _text(numbers: torch.Tensor) -> str:
    return base64.b64encode(numbers.numpy().tobytes()).decode()


def _bytes(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
