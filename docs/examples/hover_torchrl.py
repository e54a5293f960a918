"""TorchRL trains drone-hover: python docs/examples/hover_torchrl.py [iterations]."""

import sys

import torch
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torchrl.collectors import Collector
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import rookery
from rookery.policies.training.evaluate import evaluate
from rookery.sim.adapters.torchrl_env import TorchRLEnv

env = TorchRLEnv(inner := rookery.make("drone-hover", num_envs=1024))
size = {"num_cells": [64, 64], "activation_class": torch.nn.Tanh}
scale = AddStateIndependentNormalScale(4, scale_lb=0.05)
net = TensorDictModule(torch.nn.Sequential(MLP(16, 4, **size), scale), ["observation"], ["loc", "scale"])
actor = ProbabilisticActor(
    net, ["loc", "scale"], spec=env.action_spec, distribution_class=TanhNormal, return_log_prob=True
)
critic = ValueOperator(MLP(16, 1, **size), in_keys=["observation"])
gae, loss = GAE(gamma=0.99, lmbda=0.95, value_network=critic), ClipPPOLoss(actor, critic, entropy_bonus=False)
optimiser = torch.optim.Adam(loss.parameters(), 1e-3)
frames = 32768 * (int(sys.argv[1]) if len(sys.argv) > 1 else 100)
for data in Collector(env, actor, frames_per_batch=32768, total_frames=frames, auto_register_policy_transforms=True):
    gae(data)
    for batch in (b for _ in range(4) for b in data.reshape(-1)[torch.randperm(32768)].split(8192)):
        losses = loss(batch)
        optimiser.zero_grad()
        (losses["loss_objective"] + losses["loss_critic"]).backward()
        optimiser.step()

report = evaluate(inner, lambda obs: {"drone": net.module[0](obs["drone"]).tanh().detach()}, episodes=128)
print("success", report["success_rate"])
