"""Ant in the style of isaacgymenvs: four legs with two joints each run along x.

python docs/examples/isaacgym_ant.py trains it for some minutes by the PPO of Rookery.
"""

from __future__ import annotations

import tempfile
from typing import Any

import mujoco
import torch
from torch import Tensor

from rookery import isaacgym
from rookery.assets.scenery import ground
from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.scene import Scene

CFG = {
    "env": {
        "numObservations": 60,
        "numActions": 8,
        "episodeLength": 1000,
        "powerScale": 1.0,
        "headingWeight": 0.5,
        "upWeight": 0.1,
        "actionsCost": 0.005,
        "energyCost": 0.05,
        "dofVelocityScale": 0.2,
        "contactForceScale": 0.1,
        "jointsAtLimitCost": 0.1,
        "deathCost": -2.0,
        "terminationHeight": 0.31,  # m
        "clipActions": 1.0,
        "clipObservations": 5.0,
    },
    "sim": {"dt": 1.0 / 60.0, "substeps": 4},
}
GEAR = 15.0  # N m
CORNERS = ((1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0))
SHIN = 0.4  # m, along x and along y


def ant() -> mujoco.MjSpec:
    """A ball with a leg to each corner: the hip turns about the upright, the ankle about the level axis across the leg."""
    spec = mujoco.MjSpec()
    kind = mujoco.mjtGeom
    torso = spec.worldbody.add_body(name="torso", pos=[0, 0, 0.55])
    torso.add_freejoint(name="root")
    torso.add_geom(name="torso", type=kind.mjGEOM_SPHERE, size=[0.25, 0, 0], density=5.0)
    for i, (x, y) in enumerate(CORNERS):
        shape: dict[str, Any] = {"type": kind.mjGEOM_CAPSULE, "size": [0.08, 0, 0], "density": 5.0}
        torso.add_geom(name=f"shoulder_{i}", fromto=[0, 0, 0, 0.2 * x, 0.2 * y, 0], **shape)
        thigh = torso.add_body(name=f"thigh_{i}", pos=[0.2 * x, 0.2 * y, 0])
        thigh.add_geom(name=f"thigh_{i}", fromto=[0, 0, 0, 0.2 * x, 0.2 * y, 0], **shape)
        shin = thigh.add_body(name=f"foot_{i}", pos=[0.2 * x, 0.2 * y, 0])
        shin.add_geom(name=f"foot_{i}", fromto=[0, 0, 0, SHIN * x, SHIN * y, 0], friction=[1.5, 0.1, 0.1], **shape)
        shin.add_site(name=f"foot_{i}")
        _joint(spec, thigh, f"hip_{i}", [0, 0, 1], [-40, 40])
        _joint(spec, shin, f"ankle_{i}", [-y, x, 0], [30, 100])
        for sensor in (mujoco.mjtSensor.mjSENS_FORCE, mujoco.mjtSensor.mjSENS_TORQUE):
            name = f"{'force' if sensor == mujoco.mjtSensor.mjSENS_FORCE else 'torque'}_{i}"
            spec.add_sensor(name=name, type=sensor, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=f"foot_{i}")
    return spec


def _joint(spec: mujoco.MjSpec, body: Any, name: str, axis: list[float], degrees: list[float]) -> None:
    """A hinge with a motor."""
    body.add_joint(name=name, axis=axis, range=degrees, limited=True, armature=0.01, damping=[0.1, 0.0, 0.0])
    motor = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    motor.set_to_motor()
    motor.gear[0] = GEAR


def rotate_back(quat: Tensor, vector: Tensor) -> Tensor:
    """Vectors [n, 3] of the world in the axes of bodies with quaternions [n, 4] xyzw."""
    w, u = quat[:, 3:], -quat[:, :3]
    turned = 2.0 * torch.linalg.cross(u, vector)
    return vector + w * turned + torch.linalg.cross(u, turned)


class Ant(isaacgym.VecTask):
    """Observed: height, velocities in the body's axes, heading, joints, forces in the shins, last actions."""

    def __init__(self, cfg: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        self.max_episode_length = cfg["env"]["episodeLength"]
        self.settings = cfg["env"]
        super().__init__(cfg, *args, **kwargs)
        n = self.num_envs
        self.root_states = self.gym.acquire_actor_root_state_tensor(self.sim)
        self.initial_root = self.root_states.clone()
        self.initial_root[:, 7:13] = 0
        self.dof_state = self.gym.acquire_dof_state_tensor(self.sim)
        self.dof_pos = self.dof_state.view(n, -1, 2)[..., 0]
        self.dof_vel = self.dof_state.view(n, -1, 2)[..., 1]
        self.sensors = self.gym.acquire_force_sensor_tensor(self.sim).view(n, -1)
        limits = torch.tensor([[-40.0, 40.0], [30.0, 100.0]]).deg2rad().repeat(4, 1)
        self.low, self.high = limits[:, 0], limits[:, 1]
        self.start = torch.zeros(8).clamp(self.low, self.high)
        self.start[1::2] = 60.0 * torch.pi / 180.0
        self.target = torch.tensor([1000.0, 0.0, 0.0])
        self.potentials = torch.zeros(n)
        self.prev_potentials = torch.zeros(n)

    def create_sim(self) -> None:
        self.sim = super().create_sim(Scene(ground).add(ant, "ant"))

    def reset_idx(self, env_ids: Tensor) -> None:
        n = len(env_ids)
        self.dof_pos[env_ids] = (self.start + 0.4 * (torch.rand(n, 8) - 0.5)).clamp(self.low, self.high)
        self.dof_vel[env_ids] = 0.2 * (torch.rand(n, 8) - 0.5)
        self.root_states[env_ids] = self.initial_root[env_ids]
        self.gym.set_actor_root_state_tensor_indexed(self.sim, self.root_states, env_ids, n)
        self.gym.set_dof_state_tensor_indexed(self.sim, self.dof_state, env_ids, n)
        away = self.target - self.initial_root[env_ids, 0:3]
        self.potentials[env_ids] = self.prev_potentials[env_ids] = -away[:, :2].norm(dim=1) / self.dt
        self.actions[env_ids] = 0
        self.reset_buf[env_ids] = 0
        self.progress_buf[env_ids] = 0

    def pre_physics_step(self, actions: Tensor) -> None:
        self.gym.set_dof_actuation_force_tensor(self.sim, actions * GEAR * self.settings["powerScale"])

    def post_physics_step(self) -> None:
        self.prev_potentials[:] = self.potentials
        super().post_physics_step()

    def compute_observations(self) -> None:
        self.gym.refresh_actor_root_state_tensor(self.sim)
        self.gym.refresh_dof_state_tensor(self.sim)
        self.gym.refresh_force_sensor_tensor(self.sim)
        pos, quat = self.root_states[:, 0:3], self.root_states[:, 3:7]
        away = self.target - pos
        away[:, 2] = 0
        self.potentials[:] = -away.norm(dim=1) / self.dt
        x, y, z, w = quat.unbind(1)
        yaw = torch.atan2(2 * (w * z + x * y), 1 - 2 * (y**2 + z**2))
        roll = torch.atan2(2 * (w * x + y * z), 1 - 2 * (x**2 + y**2))
        bearing = torch.atan2(away[:, 1], away[:, 0]) - yaw
        self.up = 1 - 2 * (x**2 + y**2)
        self.heading = bearing.cos()
        upright = torch.stack(
            (pos[:, 2], yaw, roll, torch.atan2(bearing.sin(), bearing.cos()), self.up, self.heading), dim=1
        )
        self.dof_scaled = (2 * self.dof_pos - self.high - self.low) / (self.high - self.low)
        parts = (
            upright,
            rotate_back(quat, self.root_states[:, 7:10]),
            rotate_back(quat, self.root_states[:, 10:13]),
            self.dof_scaled,
            self.dof_vel * self.settings["dofVelocityScale"],
            self.sensors * self.settings["contactForceScale"],
            self.actions,
        )
        torch.cat(parts, dim=1, out=self.obs_buf)

    def compute_reward(self, actions: Tensor) -> None:
        s = self.settings
        progress = self.potentials - self.prev_potentials
        heading = s["headingWeight"] * (self.heading / 0.8).clamp(max=1.0)
        upright = s["upWeight"] * (self.up > 0.93)
        energy = s["energyCost"] * (actions * self.dof_vel * s["dofVelocityScale"]).abs().sum(1)
        effort = s["actionsCost"] * (actions**2).sum(1)
        limits = s["jointsAtLimitCost"] * (self.dof_scaled > 0.99).sum(1)
        fallen = self.root_states[:, 2] < s["terminationHeight"]
        total = progress + 0.5 + upright + heading - effort - energy - limits
        self.rew_buf[:] = torch.where(fallen, s["deathCost"], total)
        self.reset_buf[:] = (fallen | (self.progress_buf >= self.max_episode_length - 1)).long()


isaacgym.register("Ant", Ant, CFG)


def train(steps: int = 3_000_000, num_envs: int = 512) -> dict[str, Any]:
    """Train by Rookery's PPO, and give the figures of 64 episodes of the policy without exploration."""
    env = isaacgym.as_env(isaacgym.make(task="Ant", num_envs=num_envs, headless=True), "Ant")
    ppo = PPO(env, PPOConfig(rollout_steps=16, hidden=(128, 64), activation="elu"))
    with tempfile.TemporaryDirectory() as folder:
        Runner(ppo, RunnerConfig(total_steps=steps), folder).run()
    return evaluate(env, act_with(ppo.policies(), env), episodes=64)


if __name__ == "__main__":
    print(train())
