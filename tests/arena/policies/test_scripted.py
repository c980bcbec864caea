import torch

from arena.environments.base import Observation
from arena.environments.spec import ActionHead, HeadKind
from arena.policies.scripted import RandomPolicy

HEADS = (
    ActionHead("move", HeadKind.GAUSSIAN, 2, masked=False),
    ActionHead("trigger", HeadKind.BERNOULLI, 3, masked=True),
    ActionHead("target", HeadKind.CATEGORICAL, 4, masked=True),
)


def test_random_player_uses_every_legal_action_and_no_other():
    rows = 20_000
    rng = torch.Generator().manual_seed(5)
    legal = torch.rand(rows, 4, generator=rng) < 0.5
    legal[:, 0] |= ~legal.any(dim=-1)
    switches = torch.rand(rows, 3, generator=rng) < 0.5
    observation = Observation(
        values=torch.zeros(rows, 1),
        masks={"trigger": switches, "target": legal},
        active=torch.ones(rows, dtype=torch.bool),
    )

    actions, state = RandomPolicy(HEADS).act(observation, (), torch.ones(rows, dtype=torch.bool), rng)

    assert state == ()
    assert bool(legal.gather(1, actions["target"].unsqueeze(1)).all())
    assert not bool((actions["trigger"] & ~switches).any())
    assert 0.48 < float(actions["trigger"][switches].float().mean()) < 0.52
    assert -1.0 <= float(actions["move"].min()) < -0.99
    assert 0.99 < float(actions["move"].max()) <= 1.0
    free = actions["target"][legal.all(dim=-1)]
    shares = torch.bincount(free, minlength=4) / len(free)
    assert float((shares - 0.25).abs().max()) < 0.06
