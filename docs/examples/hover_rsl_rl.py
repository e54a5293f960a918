"""rsl_rl trains drone-hover: python docs/examples/hover_rsl_rl.py [iterations]."""

import sys

from rsl_rl.runners import OnPolicyRunner

import rookery
from rookery.experiments.recipes import preset
from rookery.policies.training.evaluate import evaluate
from rookery.sim.adapters.rsl_rl_env import RslRlEnv

network = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "tanh"}
config = {
    "num_steps_per_env": 32,
    "save_interval": 1000,
    "multi_gpu": None,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": network | {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.35}},
    "critic": network,
    "algorithm": {"class_name": "PPO", "entropy_coef": 0.0, "num_learning_epochs": 10, "num_mini_batches": 8},
}
inner = rookery.make("drone-hover", num_envs=512, config=preset("drone-hover").train_overrides)
env = RslRlEnv(inner, reward_scale=0.02)
runner = OnPolicyRunner(env, config)
runner.learn(int(sys.argv[1]) if len(sys.argv) > 1 else 200, init_at_random_ep_len=True)
runner.save("hover_rsl_rl.pt")

policy = runner.get_inference_policy()
act = lambda obs: {"drone": policy({"policy": obs["drone"][:, 0]})[:, None]}  # noqa: E731
print("success", evaluate(rookery.make("drone-hover", 128), act, episodes=128)["success_rate"])
