"""TorchRL trains swarm-surround by MAPPO, critics see all drones: python docs/examples/surround_torchrl.py [iterations]."""

import sys

import torch
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torchrl.collectors import Collector
from torchrl.modules import MultiAgentMLP, ProbabilisticActor, TanhNormal
from torchrl.objectives import ClipPPOLoss

import rookery
from rookery.experiments.recipes import preset
from rookery.policies.training.evaluate import evaluate
from rookery.sim.adapters.torchrl_env import TorchRLMultiAgentEnv

own = {"weights": {"closeness": 0.01, "spread": 0.005}, "config": preset("swarm-surround").train_overrides}
env = TorchRLMultiAgentEnv(rookery.make("swarm-surround", num_envs=512, **own))
mean = MultiAgentMLP(43, 4, n_agents=4, centralized=False, share_params=True, depth=2, num_cells=64)
net = torch.nn.Sequential(mean, AddStateIndependentNormalScale(4, scale_mapping="biased_softplus_0.35"))
net, tanh = TensorDictModule(net, env.observation_keys, ["loc", "scale"]), {"distribution_class": TanhNormal}
actor = ProbabilisticActor(net, net.out_keys, env.action_keys, spec=env.action_spec, return_log_prob=True, **tanh)
critic = MultiAgentMLP(43, 1, n_agents=4, centralized=True, share_params=False, depth=2, num_cells=64)
loss = ClipPPOLoss(actor, TensorDictModule(critic, env.observation_keys, ["state_value"]), normalize_advantage=True)
keys = {key: ("drone", key) for key in ("action", "reward", "done", "terminated")}
loss.set_keys(**keys, sample_log_prob=("drone", "action_log_prob"))
optimizer = torch.optim.Adam(loss.parameters(), 1e-3)
frames = 16384 * (int(sys.argv[1]) if len(sys.argv) > 1 else 72)
for data in Collector(env, actor, frames_per_batch=16384, total_frames=frames, auto_register_policy_transforms=True):
    loss.value_estimator(data, params=loss.critic_network_params, target_params=loss.target_critic_network_params)
    for batch in (b for _ in range(8) for b in data.reshape(-1)[torch.randperm(16384)].split(1024)):
        optimizer.zero_grad()
        sum(value for key, value in loss(batch).items() if key in ("loss_objective", "loss_critic")).backward()
        torch.nn.utils.clip_grad_norm_(loss.parameters(), 1.0), optimizer.step()

report = evaluate(rookery.make("swarm-surround", 128), lambda obs: {"drone": mean(obs["drone"]).tanh().detach()}, 128)
print("success", report["success_rate"])
