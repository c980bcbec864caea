"""Train connect four with PPO of TorchRL against the opponents of a league."""

import sys
import time

import torch
from pettingzoo import make
from safetensors.torch import load, save
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Binary
from torchrl.envs import DTypeCastTransform, GymWrapper, TransformedEnv
from torchrl.envs.gym_like import default_info_dict_reader
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from league.client import attach
from league.client.session.opponent_env import OpponentEnv
from league.wire import LearnerCreate

LEARNER = LearnerCreate(name="torchrl", role="main", environment="connect-four-torchrl", signature="four-torchrl-1")
STEPS, EPOCHS, MINIBATCHES, SNAPSHOT_UPDATES = 256, 8, 4, 8


def network(outputs):
    return nn.Sequential(nn.Linear(84, 128), nn.Tanh(), nn.Linear(128, outputs))


@torch.no_grad()
def act(actor, observation, mask):
    logits = actor(torch.from_numpy(observation))
    return int(MaskedCategorical(logits=logits, mask=torch.from_numpy(mask).bool()).sample())


def load_opponent(checkpoint):
    opponent = actor
    if checkpoint is not None:
        opponent = network(7)
        opponent.load_state_dict(load(checkpoint))
    return lambda observation, mask: act(opponent, observation, mask)


def make_env(session):
    env = GymWrapper(
        OpponentEnv(session, make("aec", "classic/connect_four-v3"), load_opponent), categorical_action_encoding=True
    )
    masks = default_info_dict_reader(["action_mask"], {"action_mask": Binary(7, dtype=torch.int8)})
    cast = DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"])
    return TransformedEnv(env.set_info_dict_reader(masks), cast)


actor, critic = network(7), ValueOperator(network(1), in_keys=["observation"])
policy = ProbabilisticActor(
    TensorDictModule(actor, in_keys=["observation"], out_keys=["logits"]),
    in_keys={"logits": "logits", "mask": "action_mask"},
    distribution_class=MaskedCategorical,
    return_log_prob=True,
)
advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
ppo = ClipPPOLoss(policy, critic, entropy_coeff=0.01)
optimizer = torch.optim.Adam(ppo.parameters(), lr=1e-3)

with attach(LEARNER, worker="torchrl-1") as session:
    end = time.monotonic() + float(sys.argv[1])
    collector = Collector(
        make_env(session), policy, frames_per_batch=STEPS, total_frames=-1, auto_register_policy_transforms=True
    )
    for number, rollout in enumerate(collector):
        advantage(rollout)
        for _ in range(EPOCHS):
            for rows in torch.randperm(STEPS).chunk(MINIBATCHES):
                losses = ppo(rollout[rows])
                optimizer.zero_grad()
                sum(losses[f"loss_{name}"] for name in ("objective", "critic", "entropy")).backward()
                nn.utils.clip_grad_norm_(ppo.parameters(), 0.5)
                optimizer.step()
        step = (number + 1) * STEPS
        session.log({name: losses[name].item() for name in ("loss_objective", "loss_critic", "entropy")}, step)
        if number % SNAPSHOT_UPDATES == 0:
            session.publish(save(actor.state_dict()), step)
        if session.should_stop or time.monotonic() > end:
            break
    collector.shutdown()
