"""Stable-Baselines3 trains drone-hover: python docs/examples/hover_sb3.py [steps]."""

import sys

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import rookery
from rookery.experiments.recipes import preset
from rookery.policies.training.evaluate import evaluate
from rookery.sim.adapters.sb3_env import Sb3VecEnv

inner = rookery.make("drone-hover", num_envs=512, config=preset("drone-hover").train_overrides)
env = VecNormalize(Sb3VecEnv(inner), norm_obs=False)
options = {
    "n_steps": 32,
    "batch_size": 2048,
    "n_epochs": 10,
    "learning_rate": lambda left: 3e-3 * left,
    "device": "cpu",
}
model = PPO("MlpPolicy", env, policy_kwargs={"log_std_init": -1.05}, **options)
model.learn(int(sys.argv[1]) if len(sys.argv) > 1 else 3_300_000)
model.save("hover_sb3.zip")


def act(obs):
    actions, _ = model.predict(obs["drone"][:, 0].numpy(), deterministic=True)
    return {"drone": torch.from_numpy(actions)[:, None]}


print("success", evaluate(rookery.make("drone-hover", 128), act, episodes=128)["success_rate"])
