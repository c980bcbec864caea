"""Training in matches of several rounds."""

import pytest
import torch
from fake_games import FakeGame, never, tagged
from small_runs import logged, same_results, spooled

from arena.environments import RoundsSpec
from arena.environments.wrappers.counting import PURPOSE_ROUND
from arena.environments.wrappers.rounds import Rounds
from arena.policies import NetworkPolicy
from arena.seeding import derive
from trainer.config.loading import preset, resolve
from trainer.opponents.assignment import MatchAssignment
from trainer.opponents.pool import SELF, Opponent
from trainer.ppo.learner import Learner
from trainer.rollout.collector import RolloutCollector

E, ROUNDS = 3, 3


class Matches:
    """Deals every row its own matches: who plays whom does not hang on whose match ends first."""

    def __init__(self, opponents):
        self.opponents, self.dealt = opponents, [[] for _ in range(E)]

    def next_match(self, row):
        number = len(self.dealt[row])
        opponent, seed = self.opponents[(row + number) % len(self.opponents)], 100 * row + number
        self.dealt[row].append(MatchAssignment(opponent, bool(number % 2), seed, None, seed, self_play_match=False))
        return self.dealt[row][-1]


class SingleRounds:
    """Deals every round of another dealer's matches as a match of its own."""

    def __init__(self, matches):
        self.matches, self.ahead = matches, [[] for _ in range(E)]

    def next_match(self, row):
        if not self.ahead[row]:
            match = self.matches.next_match(row)
            seeds = [match.seed, *(derive(derive(match.seed, PURPOSE_ROUND), number) for number in range(1, ROUNDS))]
            self.ahead[row] = [
                MatchAssignment(match.opponent, match.away, seed, None, match.seed, self_play_match=False)
                for seed in seeds
            ]
        return self.ahead[row].pop(0)


def play(environment, settings, dealer_of):
    """Collect three rollouts: their fields, the finished matches, and the dealer of them."""
    learner = Learner(settings, environment.spec)
    live = Opponent(SELF, "self", NetworkPolicy(learner.network, "fake", environment.spec.signature))
    matches, finished = Matches([live, tagged(1.0), tagged(2.0), tagged(3.0)]), []
    collector = RolloutCollector(
        [environment],
        learner.network,
        dealer_of(matches),
        finished.append,
        learner.rng,
        self_play=frozenset(),
        device_cache_bytes=2**20,
    )
    rollout, collected = learner.allocate(), []
    for _ in range(3):
        assert collector.collect(rollout, never)
        collected.append({name: tensor.clone() for name, tensor in vars(rollout).items()})
    return collected, finished, matches


def in_rounds(game):
    return Rounds(game, RoundsSpec.of("fake:rounds", game.spec, ROUNDS), seed=0)


@pytest.fixture
def games():
    """The same game, in matches of rounds and round by round; some rounds are cut off by a limit."""
    return in_rounds(FakeGame(E)), FakeGame(E)


def test_rollouts_are_those_of_the_game_round_by_round(games, config, either_way):
    settings = config(network=either_way)
    matches, _, _ = play(games[0], settings, lambda matches: matches)
    rounds, _, _ = play(games[1], settings, SingleRounds)
    for one, other in zip(matches, rounds, strict=True):
        for name in one:
            assert torch.equal(one[name], other[name]), name
    assert sum(int(each["truncated"].sum()) for each in matches) > 3


def test_a_match_is_reported_once_and_is_the_sum_of_its_rounds(games, config):
    _, finished, dealer = play(games[0], config(), lambda matches: matches)
    _, rounds, _ = play(games[1], config(), SingleRounds)
    assert len(finished) >= E
    for match in finished:
        assert any(match.assignment is dealt for row in dealer.dealt for dealt in row)
        parts = [each for each in rounds if each.assignment.sequence == match.assignment.seed]
        assert len(parts) == ROUNDS
        assert match.decisions == sum(each.decisions for each in parts)
        assert match.mean_return == pytest.approx(sum(each.mean_return for each in parts))
        lead = sum(each.score - 0.5 for each in parts)
        assert match.score == (lead > 0) + 0.5 * (lead == 0)
        assert match.reason == ("points" if lead else "level")
    assert len({id(match.assignment) for match in finished}) == len(finished)


def test_opponent_and_side_stay_for_all_rounds_of_a_match(config):
    game = FakeGame(E, length=lambda seed: 2)
    _, finished, dealer = play(in_rounds(game), config(), lambda matches: matches)
    for decision, actions in enumerate(game.played):
        for row in range(E):
            match = dealer.dealt[row][decision // (2 * ROUNDS)]
            tag = getattr(match.opponent.policy, "tag", None)
            if tag is not None:
                assert (actions["move"][row, 0 if match.away else 1] == tag).all()
    assert len(finished) == E * 36 // (2 * ROUNDS)


def test_truncated_round_is_bootstrapped_and_the_match_continues(config):
    """Rounds of 2 decisions, each cut off: the learner values what it would have seen next."""
    game = FakeGame(E, length=lambda seed: 2, limited=lambda seed: True)
    collected, finished, _ = play(in_rounds(game), config(), lambda matches: matches)
    split_into_sequences = collected[0]["truncated"]
    assert split_into_sequences[1::2].all()
    assert not split_into_sequences[::2].any()
    assert (collected[0]["final_value"] != 0.0).equal(split_into_sequences)
    assert {match.decisions for match in finished} == {2 * ROUNDS}


def test_a_run_reports_every_match_once(worker_of, client, tmp_path):
    sizes = ["environment.num_envs=8", "rollout.num_steps=8", "rollout.bptt_horizon=8", "environment.self_play=0.0"]
    worker_of(client, resolve("rps:rounds=4", None, [*sizes, "run.total_timesteps=256"])).run()
    matches = logged(client, "rps:rounds=4")
    assert same_results(spooled(tmp_path), matches)
    assert len(matches) == 256 // 4
    assert {match.decisions for match in matches} == {4}
    assert {match.score for match in matches} <= {0.0, 0.5, 1.0}
    assert {match.reason for match in matches} <= {"points", "level"}


@pytest.mark.parametrize("game", ["openspiel:kuhn_poker", "rps", "mech-duel"])
def test_presets_are_those_of_the_game(game):
    plain, rounds = preset(game), preset(f"{game}:rounds=20")
    assert plain["environment"].pop("name") == game
    assert rounds["environment"].pop("name") == f"{game}:rounds=20"
    assert plain["league"].pop("lease_budget") > rounds["league"].pop("lease_budget") == 1
    assert preset(f"{game}:rounds=4")["league"]["lease_budget"] == preset(game)["league"]["lease_budget"] // 4
    assert plain == rounds != {}
