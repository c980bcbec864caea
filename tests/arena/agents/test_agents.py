"""Policies from outside: what they are shown, what may be answered, and what a fault costs."""

import math

import numpy as np
import pytest
import torch
from refused import assert_names, refused

from arena.agents import Batch, ExternalPolicy, Reply, kind_of, open_policy
from arena.agents.decode_actions import choose
from arena.agents.python import PythonAgent
from arena.environments import HeadKind, declare
from arena.environments.base import Observation
from arena.environments.spec import ActionHead
from arena.play.runner import FORFEIT, play, play_pairs
from arena.play.series import play_series, resolve_policy
from arena.play.side_policy import SidePolicies

HEADS = (
    ActionHead("move", HeadKind.GAUSSIAN, 2, masked=True),
    ActionHead("fire", HeadKind.BERNOULLI, 3, masked=True),
    ActionHead("target", HeadKind.CATEGORICAL, 4, masked=True),
)
BARRED = {"move": [1, 1], "fire": [1, 1, 0], "target": [0, 1, 1, 0]}
SOUND = {"move": [[0.5, -2.0]] * 2, "fire": [[1, 0, 1]] * 2, "target": [1, 2]}


def batch_of(agents=2, masks=BARRED):
    rows = {name: np.array([mask] * agents, dtype=bool) for name, mask in masks.items()}
    return Batch(np.zeros((agents, 3), np.float32), rows, (None,) * agents)


def chosen(answered, batch=None):
    return choose(HEADS, answered, batch or batch_of(), torch.Generator().manual_seed(0))


# --- answers ---------------------------------------------------------------------------------------------------------


def test_actions_are_clipped_and_masked_switches_cleared():
    choices = chosen(SOUND)
    assert choices.faults == {}
    assert choices.actions["move"].tolist() == [[0.5, -1.0]] * 2
    assert choices.actions["fire"].tolist() == [[True, False, False]] * 2
    assert choices.actions["target"].tolist() == [1, 2]
    assert [choices.actions[head.name].dtype for head in HEADS] == [torch.float32, torch.bool, torch.int64]


def test_logits_are_sampled_among_legal_options():
    agents = 400
    even = {"move": np.zeros((agents, 2)), "fire_logits": np.zeros((agents, 3)), "target_logits": np.zeros((agents, 4))}
    even["target_logits"][:, 2] = math.log(3.0)
    choices = chosen(even, batch_of(agents))
    assert choices.faults == {}
    assert sorted(set(choices.actions["target"].tolist())) == [1, 2]
    assert (choices.actions["target"] == 2).float().mean() == pytest.approx(0.75, abs=0.1)
    assert choices.actions["fire"].float().mean(0).tolist() == pytest.approx([0.5, 0.5, 0.0], abs=0.1)


@pytest.mark.parametrize(
    ("head", "value", "told"),
    [
        ("move", [math.nan, 0.0], "move"),
        ("move", [math.inf, 0.0], "move"),
        ("fire", [2, 0, 0], "fire"),
        ("fire_logits", [math.nan, 0.0, 0.0], "fire_logits"),
        ("target", 4, "target is 4"),
        ("target", -1, "target is -1"),
        ("target", 1.5, "target is 1.5, no option"),
        ("target", math.nan, "target is not a number"),
        ("target", 3, "target is 3"),
        ("target_logits", [0.0, math.nan, 0.0, 0.0], "target_logits"),
        ("target_logits", [0.0, -math.inf, -math.inf, 0.0], "target_logits"),
    ],
)
def test_illegal_action_is_a_fault_of_its_agent_and_replaced(head, value, told):
    name = head.removesuffix("_logits")
    sound = {"fire_logits": [0.0, 0.0, 0.0], "target_logits": [0.0] * 4}.get(head, SOUND[name][0])
    answered = {other: rows for other, rows in SOUND.items() if other != name} | {head: [value, sound]}
    choices = chosen(answered)
    assert list(choices.faults) == [0]
    assert told in choices.faults[0]
    assert choices.actions["move"].isfinite().all()
    assert choices.actions["target"][0] in (1, 2)


@pytest.mark.parametrize("mask", [[0, 0, 0, 0], [1, 1, 1, 1]])
def test_empty_mask_allows_any_option(mask):
    choices = chosen(SOUND | {"target": [3, 0]}, batch_of(masks=BARRED | {"target": mask}))
    assert choices.faults == {}
    drawn = {name: rows for name, rows in SOUND.items() if name != "target"} | {"target_logits": [[0.0] * 4] * 2}
    assert chosen(drawn, batch_of(masks=BARRED | {"target": mask})).faults == {}


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"target": None}, ("target",)),
        ({"target": [[1], [2, 3]]}, ("target",)),
        ({"target": ["1", "2"]}, ("target",)),
        ({"target": [1, 2, 3]}, ("(3,)", "(2,)")),
        ({"target": [[1], [2]]}, ("(2, 1)",)),
        ({"move": [[0.0], [0.0]]}, ("(2, 2)",)),
        ({"target_logits": [[0.0] * 4] * 2}, ("target",)),
        ({"jump": [1, 1]}, ("jump",)),
        ({"move_logits": [[0.0] * 2] * 2}, ("move_logits",)),
    ],
)
def test_unreadable_answer_is_rejected(changes, values):
    with refused("external-policy-failed", *values):
        chosen(SOUND | changes)


def test_missing_head_is_named_with_its_accepted_keys():
    with refused("external-policy-failed", "fire", "fire_logits"):
        chosen({"move": SOUND["move"], "target": SOUND["target"]})


# --- who is asked, and what is remembered ----------------------------------------------------------------------------

RPS = declare("rps")
RECALL = declare("recall")


class Noting:
    """Answers 0 and counts its own decisions, one by one; notes how it was asked."""

    def __init__(self, head):
        self.head, self.asked, self.identity = head, [], None

    def act(self, batch):
        self.asked.append([kept or 0 for kept in batch.memory])
        first = batch.masks[self.head].argmax(axis=1) if batch.masks else np.zeros(len(batch), int)
        return Reply({self.head: first}, [(kept or 0) + 1 for kept in batch.memory])

    def close(self):
        self.asked = None


def observed(active):
    rows = len(active)
    return Observation(torch.zeros(rows, 1), {}, torch.tensor(active))


def test_active_agents_have_separate_memory_per_episode():
    actor = Noting("choice")
    policy, rng = ExternalPolicy(RPS, actor, "noting"), torch.Generator()
    state, never = policy.initial_state(3), torch.zeros(3, dtype=torch.bool)
    for active, starts in [
        ([True, False, True], never),
        ([True, True, False], never),
        ([False, False, False], torch.tensor([False, False, True])),
        ([True, True, True], never),
    ]:
        actions, state = policy.act(observed(active), state, starts, rng)
        assert actions["choice"].shape == (3,)
    assert actor.asked == [[0, 0], [1, 0], [2, 1, 0]], "nobody is asked where nobody acts"


def test_memory_of_any_type_is_stored_unchanged():
    kept = []

    def answer(batch):
        kept.append(batch.memory)
        return {"choice": [0, 0]}, [np.full(2, 1.0), np.full(2, 2.0)]

    policy, rng = ExternalPolicy(RPS, PythonAgent(answer), "arrays"), torch.Generator()
    state = policy.initial_state(2)
    for _ in range(2):
        _, state = policy.act(observed([True, True]), state, torch.zeros(2, dtype=torch.bool), rng)
    assert kept[0] == (None, None)
    assert [row.tolist() for row in kept[1]] == [[1.0, 1.0], [2.0, 2.0]]


def test_memory_for_some_agents_only_is_refused():
    policy = ExternalPolicy(RPS, PythonAgent(lambda batch: ({"choice": [0, 0]}, [1])), "short")
    with refused("external-policy-failed", 1, 2):
        policy.act(observed([True, True]), policy.initial_state(2), torch.ones(2, dtype=torch.bool), torch.Generator())


def test_unreadable_answer_error_names_the_policy():
    policy = ExternalPolicy(RPS, PythonAgent(lambda batch: {"choice": [[0, 0]]}), "bots:wrong")
    with refused("external-policy-failed", "bots:wrong", "choice", 1, 2):
        policy.act(observed([True]), policy.initial_state(1), torch.ones(1, dtype=torch.bool), torch.Generator())


def test_matches_that_have_their_result_are_not_asked_for():
    actor = Noting("answer")
    ours = ExternalPolicy(RECALL, actor, "ours")
    lineup = SidePolicies([ours, resolve_policy("recall", "random"), ours], 1)
    seen = Observation(torch.zeros(3, 6), {"answer": torch.ones(3, 5, dtype=torch.bool)}, torch.ones(3).bool())
    lineup.act(seen, torch.ones(3).bool(), torch.Generator(), torch.tensor([True, True, False]))
    assert [len(each) for each in actor.asked] == [1]
    assert lineup.external
    assert not lineup.faults.any()


# --- forfeits --------------------------------------------------------------------------------------------------------


def rogue(wrong):
    """Plays 0, and where `wrong` says so of (number of the question, agents) an option that there is not."""
    asked = []

    def answer(batch):
        asked.append(len(batch))
        legal = batch.masks["answer"].argmax(axis=1) if batch.masks else np.zeros(len(batch), int)
        return {"answer" if batch.masks else "choice": np.where(wrong(len(asked), len(batch)), 9, legal)}

    return answer, asked


def test_illegal_action_forfeits_its_match_only():
    answer, asked = rogue(lambda question, agents: (question == 3) & (np.arange(agents) == 1))
    told = []
    policy = ExternalPolicy(RECALL, PythonAgent(answer), "rogue", told.append)
    random = resolve_policy("recall", "random")
    results = play("recall", policy, random, [1, 2, 3], torch.Generator().manual_seed(0))
    assert [result.reason for result in results] == ["answer", FORFEIT, "answer"]
    assert (results[1].score, results[1].decisions, results[1].seed) == (0.0, 3, 2)
    assert [result.decisions for result in results] == [8, 3, 8]
    assert asked == [3, 3, 3, 2, 2, 2, 2, 2], "its other matches go on, and it is not asked for the lost one"
    (fault,) = told
    assert_names(fault, "rogue", "answer", 9)
    away = play("recall", random, policy, [1], torch.Generator(), max_envs=1)
    assert away[0].score <= 1.0


def test_forfeits_lose_on_either_side_and_simultaneous_ones_draw():
    policy = ExternalPolicy(RPS, PythonAgent(lambda batch: {"choice": [7] * len(batch)}), "rogue")
    other = ExternalPolicy(RPS, PythonAgent(lambda batch: {"choice": [7] * len(batch)}), "other")
    random = resolve_policy("rps", "random")
    pairs = [(policy, random), (random, policy), (policy, other)]
    results = play_pairs("rps", pairs, [1, 2, 3], torch.Generator())
    assert [(result.score, result.reason) for result in results] == [(0.0, FORFEIT), (1.0, FORFEIT), (0.5, FORFEIT)]


def test_rows_that_play_one_match_after_the_other_forfeit_each_on_its_own():
    answer, _ = rogue(lambda question, agents: np.full(agents, question in (2, 8 + 8 + 4)))
    policy = ExternalPolicy(RECALL, PythonAgent(answer), "rogue")
    random = resolve_policy("recall", "random")
    # one row: the first match is forfeited at its 2nd decision and plays on unasked, so question 3 opens the second
    results = play("recall", policy, random, [1, 2, 3, 4], torch.Generator().manual_seed(0), max_envs=1)
    assert [(result.reason, result.decisions) for result in results] == [
        (FORFEIT, 2),
        ("answer", 8),
        ("answer", 8),
        (FORFEIT, 2),
    ]


def test_a_series_counts_forfeits_among_its_reasons():
    policy = ExternalPolicy(RPS, PythonAgent(lambda batch: {"choice": [7] * len(batch)}), "rogue")
    finished = []
    series = play_series("rps", policy, policy, matches=4, seed=0, on_finished=finished.append)
    assert series.reasons == {FORFEIT: 4}
    assert sum(finished) == 4


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("bots:greedy", "python"),
        ("my.package.bots:Greedy", "python"),
        ("process:python bot.py --fast", "process"),
        ("http://127.0.0.1:8000/act", "http"),
        ("https://bots.example/act", "http"),
        ("runs/a.onnx", "onnx"),
        ("/home/me/a.pt", None),
        ("random", None),
        ("runs/main", None),
        ("a.safetensors", None),
        ("bots:", None),
    ],
)
def test_external_policy_is_recognised_by_its_spelling(name, form):
    assert kind_of(name) == form


def test_unknown_policy_error_lists_the_forms():
    with refused("external-policy-failed", "MODULE:ATTRIBUTE"):
        open_policy(RPS, "nobody")
