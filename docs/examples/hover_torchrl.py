"""TorchRL trains drone-hover: python docs/examples/hover_torchrl.py [iterations]."""

import sys

import torch
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torchrl.collectors import Collector
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import rookery
from rookery.experiments.recipes import preset
from rookery.policies.training.evaluate import evaluate
from rookery.sim.adapters.torchrl_env import TorchRLEnv

env = TorchRLEnv(rookery.make("drone-hover", num_envs=512, config=preset("drone-hover").train_overrides))
size = {"num_cells": [64, 64], "activation_class": torch.nn.Tanh}
mean, scale, keys = MLP(16, 4, **size), AddStateIndependentNormalScale(4, scale_lb=0.05), ["loc", "scale"]
net = TensorDictModule(torch.nn.Sequential(mean, scale), ["observation"], keys)
actor = ProbabilisticActor(net, keys, spec=env.action_spec, distribution_class=TanhNormal, return_log_prob=True)
critic = ValueOperator(MLP(16, 1, **size), in_keys=["observation"])
gae, loss = GAE(gamma=0.99, lmbda=0.95, value_network=critic), ClipPPOLoss(actor, critic, entropy_bonus=False)
optimizer = torch.optim.Adam(loss.parameters(), 1e-3)
frames = 16384 * (int(sys.argv[1]) if len(sys.argv) > 1 else 200)
for data in Collector(env, actor, frames_per_batch=16384, total_frames=frames, auto_register_policy_transforms=True):
    gae(data)
    for batch in (b for _ in range(10) for b in data.reshape(-1)[torch.randperm(16384)].split(2048)):
        losses = loss(batch)
        optimizer.zero_grad()
        (losses["loss_objective"] + losses["loss_critic"]).backward()
        optimizer.step()
torch.save(actor.state_dict(), "hover_torchrl.pt")

report = evaluate(rookery.make("drone-hover", 128), lambda obs: {"drone": mean(obs["drone"]).tanh().detach()}, 128)
print("success", report["success_rate"])
