"""rsl_rl trains drone-hover: python docs/examples/hover_rsl_rl.py [iterations]."""

import sys

from rsl_rl.runners import OnPolicyRunner

import rookery
from rookery.policies.training.evaluate import evaluate
from rookery.sim.adapters.rsl_rl_env import RslRlEnv

network = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "tanh", "obs_normalization": True}
config = {
    "num_steps_per_env": 32,
    "save_interval": 1000,
    "multi_gpu": None,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": network | {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.5}},
    "critic": network,
    "algorithm": {"class_name": "PPO", "entropy_coef": 0.0, "num_learning_epochs": 4, "num_mini_batches": 4},
}
env = RslRlEnv(rookery.make("drone-hover", num_envs=1024))
runner = OnPolicyRunner(env, config)
runner.learn(int(sys.argv[1]) if len(sys.argv) > 1 else 100, init_at_random_ep_len=True)

policy = runner.get_inference_policy()
report = evaluate(env.env, lambda obs: {"drone": policy({"policy": obs["drone"][:, 0]})[:, None]}, episodes=128)
print("success", report["success_rate"])
