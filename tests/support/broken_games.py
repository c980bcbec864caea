"""Games that break one rule each."""

import pickle
import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch
from honest_game import (
    AGENTS,
    DIES_AFTER,
    LIMIT,
    MORTAL,
    OPTIONS,
    Honest,
    at,
    brought,
    changing_sight,
    changing_spec,
    changing_steps,
    with_outcome,
)

from arena.errors import InvalidActionError

honest = brought(Honest)
certainly_random = changing_spec(chance=False)
unspoken = changing_spec(zero_sum=None)
careless = changing_spec(reproducible=False)
boundless = changing_spec(max_decisions=0)

blind = changing_sight(lambda env, values, mask, active: (at(values, (..., 2, 1), torch.nan), mask, active))
dimming = changing_sight(
    lambda env, values, mask, active: (
        values.masked_fill((env.decision == 2).view(-1, 1, 1) & (torch.arange(3) == 2), -torch.inf),
        mask,
        active,
    )
)
wide = changing_sight(lambda env, values, mask, active: (at(values, (..., 3, 2), 7.0), mask, active))
precise = changing_sight(lambda env, values, mask, active: (values.double(), mask, active))
maskless = changing_sight(lambda env, values, mask, active: (values, None, active))
stuck = changing_sight(lambda env, values, mask, active: (values, at(mask, (0, 2), False), active))
haunted = changing_sight(lambda env, values, mask, active: (values.where(active.unsqueeze(-1), 0.5), mask, active))
tempting = changing_sight(lambda env, values, mask, active: (values, mask | ~active.unsqueeze(-1), active))


class Leaving(Honest):
    """Option 2 ends the program."""

    def worth(self, actions):
        if int(actions["option"].max()) == 2:
            sys.exit("enough")
        return super().worth(actions)


leaving = brought(Leaving)


class Undying(Honest):
    """Who has died acts again in the fifth decision."""

    def active(self):
        return super().active() | (self.decision.unsqueeze(1) == DIES_AFTER + 2)


undying = brought(Undying)


class Crashing(Honest):
    """Option 2 divides by zero."""

    def worth(self, actions):
        return super().worth(actions) + 1 // int(2 - actions["option"].max())


crashing = brought(Crashing)


class Picky(Honest):
    """Refuses an option that its mask allows."""

    def require_legal(self, actions):
        if bool((actions["option"] == 2).any()):
            raise InvalidActionError("nobody may choose 2")


picky = brought(Picky)

priceless = changing_steps(lambda env, step: replace(step, reward=at(step.reward, (0, 1), torch.inf)))
generous = changing_steps(lambda env, step: replace(step, reward=step.reward + 1.0))
ambiguous = changing_steps(lambda env, step: replace(step, truncated=step.truncated | step.terminated))
exuberant = changing_steps(lambda env, step: with_outcome(step, score=step.outcome.score.where(~step.over, 2.0)))
groundless = changing_steps(lambda env, step: with_outcome(step, reason=step.outcome.reason.where(~step.over, 9)))
hasty = changing_steps(lambda env, step: with_outcome(step, score=step.outcome.score.where(step.over, 1.0)))
miscounted = changing_steps(lambda env, step: with_outcome(step, decisions=step.outcome.decisions - 1))
late = changing_steps(lambda env, step: replace(step, final_observation=step.observation))
deserted = changing_steps(
    lambda env, step: replace(
        step,
        final_observation=replace(step.final_observation, active=step.final_observation.active & ~step.over[:, None]),
    )
)


class Eternal(Honest):
    """Matches of seeds that are divisible by 4 never end."""

    def length(self):
        return super().length() + 1000 * (self.seeds % 4 == 0)


eternal = brought(Eternal)


class Endless(Honest):
    """Only the limit ends its matches."""

    def length(self):
        return torch.full_like(self.seeds, LIMIT)


class Timed(Endless):
    """The same, and that is its rule."""

    def declare(self, name):
        return replace(super().declare(name), limit_decides=True)


endless, timed = brought(Endless), brought(Timed)


class Headstrong(Honest):
    """Takes seeds of its own for the next match, whatever was announced."""

    def reopen(self, over):
        self.next_seeds += over
        super().reopen(over)


headstrong = brought(Headstrong)


class Clinging(Honest):
    """Returns the memory that it writes the next rewards to."""

    def step(self, actions):
        step = super().step(actions)
        self.kept = getattr(self, "kept", torch.zeros_like(step.reward))
        self.kept.copy_(step.reward)
        return replace(step, reward=self.kept)


clinging = brought(Clinging)


class Whimsical(Honest):
    """Throws its dice by a generator that all matches ever played share."""

    chance = torch.Generator().manual_seed(0)

    def worth(self, actions):
        return super().worth(actions) + torch.rand(self.num_envs, generator=self.chance)


whimsical = brought(Whimsical)


class Placed(Honest):
    """Favours matches in later rows."""

    def worth(self, actions):
        return super().worth(actions) + torch.arange(self.num_envs)


placed = brought(Placed)


class Neighbourly(Honest):
    """Pays what is earned in other matches."""

    def worth(self, actions):
        worth = super().worth(actions)
        return worth + worth.sum()


neighbourly = brought(Neighbourly)


class Moody(Honest):
    """Pays by the seed of the environment."""

    def __init__(self, name, *, num_envs, device, seed):
        super().__init__(name, num_envs=num_envs, device=device, seed=seed)
        self.mood = seed % 1000 / 1000.0

    def worth(self, actions):
        return super().worth(actions) + self.mood


moody = brought(Moody)


class Unforgetting(Honest):
    """Keeps a match's points for the next."""

    def clear(self, rows):
        self.decision.masked_fill_(rows, 0)

    def worth(self, actions):
        return super().worth(actions) + 0.01 * self.points


unforgetting = brought(Unforgetting)


class Hesitant(Honest):
    """Clears a match's points when it is reset, not when it goes on to the next match by itself."""

    def reset(self, seeds=None):
        self.points.zero_()
        return super().reset(seeds)

    def clear(self, rows):
        self.decision.masked_fill_(rows, 0)

    def worth(self, actions):
        return super().worth(actions) + 0.01 * self.points


hesitant = brought(Hesitant)


class Prophetic(Honest):
    """Scores a match by the one after it."""

    def scores(self):
        return (self.next_seeds % 2).double()


prophetic = brought(Prophetic)


class Seance(Honest):
    """Heeds what the dead do."""

    def worth(self, actions):
        return super().worth(actions) + actions["option"][:, MORTAL]


seance = brought(Seance)


class Fragile(Honest):
    """Breaks by options that do not exist."""

    def require_legal(self, actions):
        torch.arange(OPTIONS)[actions["option"]]


fragile = brought(Fragile)


class Rash(Honest):
    """Has changed when it refuses."""

    def require_legal(self, actions):
        self.points += (actions["option"] * self.active()).sum(dim=1)
        super().require_legal(actions)

    def worth(self, actions):
        return super().worth(actions) + 0.01 * self.points


rash = brought(Rash)


class Lenient(Honest):
    """Takes any option."""

    def require_legal(self, actions):
        pass


lenient = brought(Lenient)


class Spoilt(Honest):
    """Takes any option, and pays what is no number for one that does not exist."""

    def require_legal(self, actions):
        pass

    def worth(self, actions):
        return super().worth(actions).where((actions["option"] < OPTIONS).all(dim=1), torch.inf)


spoilt = brought(Spoilt)


class Gullible(Honest):
    """Takes seeds below 0."""

    def reset(self, seeds=None):
        return super().reset(None if seeds is None else seeds.abs())


gullible = brought(Gullible)


class Expected(Honest):
    """Ignores its seeds, and declares chance."""

    def dice(self):
        return torch.zeros(self.num_envs, AGENTS, 2)

    def length(self):
        return torch.full_like(self.seeds, 4)


expected = brought(Expected)


class Certain(Expected):
    """Ignores its seeds, and does not say whether it has chance."""

    def declare(self, name):
        return replace(super().declare(name), chance=None)


certain = brought(Certain)


class Generous(Honest):
    """Pays more than it takes, and does not say that it is zero-sum."""

    def declare(self, name):
        return replace(super().declare(name), zero_sum=None)

    def step(self, actions):
        step = super().step(actions)
        return replace(step, reward=step.reward + 1.0)


unequal = brought(Generous)


class Masked(Honest):
    """Has unlike sides that are shown the same clock, and no dice."""

    def declare(self, name):
        return replace(super().declare(name), roles=("scout", "tank", "gun", "wall"))

    def observe(self):
        seen = super().observe()
        return replace(seen, values=seen.values * torch.tensor([1.0, 0.0, 0.0]))


untold = brought(Masked)


class Partial(Honest):
    """Is easier at home."""

    def worth(self, actions):
        return super().worth(actions) + 5.0


partial = brought(Partial)


class Confused(Honest):
    """Says that away has won where home has."""

    def scores(self):
        return 1.0 - super().scores()


confused = brought(Confused)


class Littering(Honest):
    """Writes a log where it is played."""

    def worth(self, actions):
        with Path("played.log").open("a") as log:
            log.write("again\n")
        return super().worth(actions)


littering = brought(Littering)


RELEASED = threading.Event()


class Lingering(Honest):
    """Starts threads once: one that programs wait for, and two that they do not."""

    pool = None

    def worth(self, actions):
        if self.pool is None:
            type(self).pool = ThreadPoolExecutor(1)
            self.pool.submit(int)
            for daemon in (False, True):
                threading.Thread(target=RELEASED.wait, name=f"linger-{daemon}", daemon=daemon).start()
        return super().worth(actions)


lingering = brought(Lingering)


class Pickled(Honest):
    """Unpickles what it pays."""

    def worth(self, actions):
        return super().worth(actions) + len(pickle.loads(PICKLE))


PICKLE = pickle.dumps(OrderedDict())
pickled = brought(Pickled)


class Growing(Honest):
    """Lasts longer with every one that is made."""

    made = 0

    def declare(self, name):
        type(self).made += 1
        return replace(super().declare(name), max_decisions=LIMIT + self.made)


growing = brought(Growing)
