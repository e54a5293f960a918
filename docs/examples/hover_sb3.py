"""Stable-Baselines3 trains drone-hover: python docs/examples/hover_sb3.py [steps]."""

import sys

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import rookery
from rookery.policies.training.evaluate import evaluate
from rookery.sim.adapters.sb3_env import Sb3VecEnv

inner = rookery.make("drone-hover", num_envs=1024)
env = VecNormalize(Sb3VecEnv(inner), norm_reward=False)
options = {"n_steps": 32, "batch_size": 8192, "n_epochs": 4, "learning_rate": 1e-3, "device": "cpu"}
model = PPO("MlpPolicy", env, policy_kwargs={"log_std_init": -0.7}, **options)
model.learn(int(sys.argv[1]) if len(sys.argv) > 1 else 3_300_000)


def act(obs):
    rows = env.normalize_obs(obs["drone"][:, 0].numpy())
    return {"drone": torch.from_numpy(model.predict(rows, deterministic=True)[0])[:, None]}


print("success", evaluate(inner, act, episodes=128)["success_rate"])
