import pytest
import torch

from arena.environments import make
from arena.environments.base import Observation
from arena.environments.classic.memory_probe import DECISIONS, WAIT, WRONG_REWARD


def waiting(num_envs: int) -> dict[str, torch.Tensor]:
    return {"answer": torch.full((num_envs, 2), WAIT)}


def play_to_the_question(num_envs: int) -> tuple:
    """An environment whose next decision answers, and the cues (E, N) that were shown."""
    env = make("recall", num_envs=num_envs)
    cues = env.reset().values[..., :4].argmax(dim=-1)
    for _ in range(DECISIONS - 1):
        step = env.step(waiting(num_envs))
    assert bool((step.observation.values[..., 4] == 1.0).all())
    return env, cues


def test_cue_is_shown_once_and_to_its_owner_only():
    env = make("recall", num_envs=64)
    first = env.reset().values
    assert bool((first[..., :4].sum(dim=-1) == 1.0).all())
    assert not torch.equal(first[:, 0, :4], first[:, 1, :4])

    for _ in range(DECISIONS - 1):
        later = env.step(waiting(64)).observation.values
        assert float(later[..., :4].abs().sum()) == 0.0


def test_only_the_question_can_be_answered():
    env = make("recall", num_envs=2)
    observation = env.reset()
    for _ in range(DECISIONS - 1):
        assert observation.masks["answer"][0, 0].tolist() == [True, False, False, False, False]
        observation = env.step(waiting(2)).observation

    assert observation.masks["answer"][0, 0].tolist() == [False, True, True, True, True]


@pytest.mark.holds("T13")
def test_right_answer_pays_and_decides_the_match():
    env, cues = play_to_the_question(4)
    right, wrong = cues + 1, (cues + 1) % 4 + 1
    answer = torch.stack(
        [
            torch.tensor([right[0, 0], wrong[0, 1]]),
            torch.tensor([wrong[1, 0], right[1, 1]]),
            right[2],
            wrong[3],
        ]
    )

    step = env.step({"answer": answer})

    expected = torch.tensor([[1, WRONG_REWARD], [WRONG_REWARD, 1], [1, 1], [WRONG_REWARD, WRONG_REWARD]])
    torch.testing.assert_close(step.reward, expected)
    assert step.outcome.score.tolist() == [1.0, 0.0, 0.5, 0.5]
    assert step.outcome.decisions.tolist() == [DECISIONS] * 4
    assert step.terminated.all()


def test_episode_follows_from_its_seed_in_a_batch_of_any_size():
    def noise(observation: Observation, row: int) -> list:
        return observation.values[row].tolist()

    many, alone = make("recall", num_envs=5, seed=1), make("recall", num_envs=1, seed=2)
    seen = [noise(many.reset(torch.arange(5)), 3)]
    again = [noise(alone.reset(torch.tensor([3])), 0)]
    for _ in range(DECISIONS - 1):
        seen.append(noise(many.step(waiting(5)).observation, 3))
        again.append(noise(alone.step(waiting(1)).observation, 0))

    assert seen == again


@pytest.mark.holds("T3")
def test_final_observation_belongs_to_the_episode_that_ended():
    env, _ = play_to_the_question(3)

    step = env.step({"answer": torch.ones(3, 2, dtype=torch.int64)})

    assert float(step.final_observation.values[..., :5].abs().sum()) == 0.0
    assert bool((step.observation.values[..., :4].sum(dim=-1) == 1.0).all())


def test_next_seed_written_by_the_caller_opens_the_next_episode():
    env, _ = play_to_the_question(2)
    env.next_seeds[1] = 77
    opened = env.step({"answer": torch.ones(2, 2, dtype=torch.int64)}).observation

    assert env.seeds[1].item() == 77
    fresh = make("recall", num_envs=2).reset(torch.tensor([0, 77]))
    assert torch.equal(opened.values[1], fresh.values[1])
