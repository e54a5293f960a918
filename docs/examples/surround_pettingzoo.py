"""A loop over PettingZoo's interface trains swarm-surround: python docs/examples/surround_pettingzoo.py [control steps].

DAgger (Ross et al. 2011): the drones fly by one policy, which learns what the task's controller would do where they are.
"""

import random
import sys

import torch
from torch import nn

import rookery
from rookery.policies.training.evaluate import evaluate

env = rookery.ParallelEnv(rookery.make("swarm-surround", num_envs=1))
expert = env.env.controller()
policy = nn.Sequential(nn.Linear(43, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 4), nn.Tanh())
optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
replay = []
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000):
    obs = seen if env.agents else env.reset()[0]  # noqa: F821
    rows = torch.stack([torch.from_numpy(obs[name]) for name in env.agents])
    replay.append((rows, expert({"drone": rows[None]})["drone"][0].clamp(-1, 1)))
    seen, *_ = env.step(dict(zip(env.agents, policy(rows).detach(), strict=True)))
    inputs, wanted = (torch.cat(part) for part in zip(*random.choices(replay, k=64), strict=True))
    optimizer.zero_grad()
    (policy(inputs) - wanted).square().mean().backward()
    optimizer.step()

act = lambda obs: {"drone": policy(obs["drone"]).detach()}  # noqa: E731
print("success", evaluate(rookery.make("swarm-surround", 128), act, episodes=128)["success_rate"])
