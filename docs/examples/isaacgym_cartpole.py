"""Cartpole in the style of isaacgymenvs: a cart keeps a pole upright.

python docs/examples/isaacgym_cartpole.py trains it for half a minute by the PPO of Rookery.
"""

from __future__ import annotations

import math
import tempfile
from typing import Any

import mujoco
import torch

from rookery import isaacgym
from rookery.assets.scenery import ground
from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.scene import Scene

CFG = {
    "env": {
        "numObservations": 4,
        "numActions": 1,
        "resetDist": 3.0,  # m from the middle at which an episode ends
        "maxEffort": 400.0,  # N
        "clipObservations": 5.0,
        "clipActions": 1.0,
        "maxEpisodeLength": 500,
    },
    "sim": {"dt": 1.0 / 60.0, "substeps": 2},
}


def cartpole() -> mujoco.MjSpec:
    """A cart of 4 kg on a rail along y, with a pole of 1 m and 0.5 kg."""
    return mujoco.MjSpec.from_string("""
    <mujoco>
      <worldbody>
        <geom name="rail" type="capsule" fromto="0 -4 2 0 4 2" size="0.02" contype="0" conaffinity="0"/>
        <body name="cart" pos="0 0 2">
          <joint name="slider" type="slide" axis="0 1 0" range="-4 4" limited="true"/>
          <geom name="cart" type="box" size="0.1 0.15 0.08" mass="4" contype="0" conaffinity="0"/>
          <body name="pole">
            <joint name="hinge" axis="1 0 0" damping="0.01"/>
            <geom name="pole" type="capsule" fromto="0.12 0 0 0.12 0 1" size="0.03" mass="0.5" contype="0" conaffinity="0"/>
          </body>
        </body>
      </worldbody>
      <actuator><motor name="push" joint="slider"/></actuator>
    </mujoco>""")


class Cartpole(isaacgym.VecTask):
    """Observed: position and velocity of cart and pole. Action: a force on the cart."""

    def __init__(self, cfg: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        self.max_episode_length = cfg["env"]["maxEpisodeLength"]
        self.reset_dist = cfg["env"]["resetDist"]
        self.max_push_effort = cfg["env"]["maxEffort"]
        super().__init__(cfg, *args, **kwargs)
        self.dof_state = self.gym.acquire_dof_state_tensor(self.sim)
        self.dof_pos = self.dof_state.view(self.num_envs, -1, 2)[..., 0]
        self.dof_vel = self.dof_state.view(self.num_envs, -1, 2)[..., 1]
        self.forces = torch.zeros(self.num_envs, 2)

    def create_sim(self) -> None:
        self.sim = super().create_sim(Scene(ground).add(cartpole, "cartpole"))

    def reset_idx(self, env_ids: torch.Tensor) -> None:
        self.dof_pos[env_ids] = 0.2 * (torch.rand(len(env_ids), 2) - 0.5)
        self.dof_vel[env_ids] = 0.5 * (torch.rand(len(env_ids), 2) - 0.5)
        self.gym.set_dof_state_tensor_indexed(self.sim, self.dof_state, env_ids, len(env_ids))
        self.reset_buf[env_ids] = 0
        self.progress_buf[env_ids] = 0

    def pre_physics_step(self, actions: torch.Tensor) -> None:
        self.forces[:, 0] = self.max_push_effort * actions[:, 0]
        self.gym.set_dof_actuation_force_tensor(self.sim, self.forces)

    def compute_observations(self) -> None:
        self.gym.refresh_dof_state_tensor(self.sim)
        self.obs_buf[:, 0::2] = self.dof_pos
        self.obs_buf[:, 1::2] = self.dof_vel

    def compute_reward(self, actions: torch.Tensor) -> None:
        cart, angle = self.dof_pos.unbind(1)
        speed = self.dof_vel.abs()
        reward = 1.0 - angle**2 - 0.01 * speed[:, 0] - 0.005 * speed[:, 1]
        fallen = (cart.abs() > self.reset_dist) | (angle.abs() > math.pi / 2)
        self.rew_buf[:] = torch.where(fallen, -2.0, reward)
        late = self.progress_buf >= self.max_episode_length - 1
        self.reset_buf[:] = (fallen | late).long()


isaacgym.register("Cartpole", Cartpole, CFG)


def train(steps: int = 500_000, num_envs: int = 256) -> dict[str, Any]:
    """Train by Rookery's PPO, and give the figures of 64 episodes of the policy without exploration."""
    env = isaacgym.as_env(isaacgym.make(task="Cartpole", num_envs=num_envs, headless=True), "Cartpole")
    ppo = PPO(env, PPOConfig(rollout_steps=16, epochs=8, minibatches=2))
    with tempfile.TemporaryDirectory() as folder:
        Runner(ppo, RunnerConfig(total_steps=steps), folder).run()
    return evaluate(env, act_with(ppo.policies(), env), episodes=64)


if __name__ == "__main__":
    print(train())
