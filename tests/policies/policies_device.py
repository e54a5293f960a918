"""Every way to learn, each small enough for a test, to be made on any device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from policies_choices import Process
from policies_drift import Drift
from policies_drive import Drive
from policies_fake import FakeEnv
from policies_flock import FlockEnv
from policies_reach import ReachEnv
from policies_spot import SpotEnv
from policies_toy import ToyEnv
from skilled import constant, skilled
from torch import Tensor, nn

from rookery.policies.algorithms.base import Algorithm
from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.imitation.dagger import DAgger, DAggerConfig
from rookery.policies.imitation.teacher import ControllerTeacher, Teacher
from rookery.sim.env import Env
from rookery.sim.envs.device_env import on_device
from rookery.sim.specs import ActionSpec, Discrete, Mirror

PPO_BASE = PPOConfig(rollout_steps=8, minibatches=2, epochs=2, hidden=(8,), compiled=False)
OFF_POLICY: dict[str, Any] = {
    "rollout_steps": 4, "learning_starts": 32, "batch": 24, "buffer_size": 400, "hidden": (16,), "updates_per_step": 0.5,
    "policy_every": 1,
}  # fmt: skip
PICTURES: dict[str, Any] = {
    "encoder": "cnn", "encoder_channels": (4, 6), "encoder_kernels": (3, 2), "encoder_strides": (2, 1),
}  # fmt: skip


class Amid(FakeEnv):
    """Agents decide every third step of an episode."""

    @property
    def deciding(self) -> dict[str, Tensor] | None:
        return {"point": (self.clock % 3 == 0).unsqueeze(1).expand(-1, self.x.shape[1]).clone()}


class Mirrored(ToyEnv):
    def __init__(self) -> None:
        super().__init__()
        self.groups = {"point": replace(self.groups["point"], mirror=Mirror((-1, 2), (-1,), ()))}


class Masked(Process):
    """Of two options one is allowed; it pays for the pair of it and a continuous component."""

    task_id = "masked"

    def __init__(self) -> None:
        which = Discrete("which", ("left", "right"))
        action = ActionSpec("pick", ("how",), (-1.0,), (1.0,), ("1",), (0.0,), choices=(which,), masked=True)
        super().__init__(8, 2, action, 5)
        self.allowed = torch.zeros(8, dtype=torch.int64)

    def begin(self, ids: Tensor) -> None:
        self.allowed[ids] = torch.randint(2, (len(ids),), generator=self.generator)

    def act(self, action: Tensor) -> Tensor:
        return action[:, 1] - action[:, 0]

    def observe(self) -> Tensor:
        return nn.functional.one_hot(self.allowed, 2).float()

    @property
    def action_mask(self) -> dict[str, Tensor]:
        return {next(iter(self.groups)): nn.functional.one_hot(self.allowed, 2).bool().unsqueeze(1)}


def own_network(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.LayerNorm(inputs), nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


Place = Callable[[Env], Env]


def ppo(make: Callable[[], Env], **changes: Any) -> Callable[[Place], Algorithm]:
    return lambda place: PPO(place(make()), replace(PPO_BASE, **changes), 3)


def sac(make: Callable[[], Env], **changes: Any) -> Callable[[Place], Algorithm]:
    return lambda place: SAC(place(make()), SACConfig(**OFF_POLICY | {"compiled": False} | changes), 3)


def td3(make: Callable[[], Env], **changes: Any) -> Callable[[Place], Algorithm]:
    return lambda place: TD3(place(make()), TD3Config(**OFF_POLICY | changes), 3)


def dagger(make: Callable[[], Env], teacher: Callable[[Env], Teacher], **changes: Any) -> Callable[[Place], Algorithm]:
    config = DAggerConfig(rollout_steps=8, hidden=(8,), batch=24, **changes)

    def build(place: Place) -> Algorithm:
        env = place(make())
        return DAgger(env, config, 3, {"teacher": teacher(env)})

    return build


def controller(env: Env) -> Teacher:
    act = env.controller()
    assert act is not None
    return ControllerTeacher(act)


def hierarchy(place: Place) -> Algorithm:
    """A high level above two skills, one of which learns too."""
    env = place(FakeEnv(drop_out=True, agents=2))
    policies = {"up": constant(env.groups["point"], 0.5), "down": constant(env.groups["point"], -0.5)}
    return PPO(skilled(env, policies), replace(PPO_BASE, learn_skills="together", skill_warmup=1), 3)


CASES: dict[str, Callable[[Place], Algorithm]] = {
    "ppo": ppo(FakeEnv),
    "ppo-agents": ppo(lambda: FakeEnv(agents=3, drop_out=True), share=False, schedule="linear", value_loss="huber"),
    "ppo-sets": ppo(lambda: FakeEnv(agents=3), policies=("first=point_0", "others=point_1,point_2"), critic_warmup=1),
    "ppo-central": ppo(lambda: FakeEnv(agents=2), critic="central", value_clip=0.2, reference_kl_coef=0.1),
    "ppo-gru": ppo(lambda: FakeEnv(agents=2, drop_out=True), memory="gru", memory_size=6),
    "ppo-estimator": ppo(lambda: Drift(8, 2, 2, reveal=True), estimator="predict", estimator_hidden=(8,)),
    "ppo-privileged": ppo(lambda: Drift(8, 2), estimator="privileged"),
    "ppo-attention": ppo(lambda: FlockEnv(8), encoder="attention", encoder_options=("size=6", "heads=2")),
    "ppo-pictures": ppo(lambda: SpotEnv(8, history=2), actor_frames=1, **PICTURES),
    "ppo-network": ppo(lambda: FakeEnv(obs=6), network="policies_device:own_network"),
    "ppo-mirror": ppo(Mirrored, mirror=True, normalize_observations=False),
    "ppo-choices": ppo(Masked),
    "ppo-decisions": ppo(lambda: Amid(num_envs=6, agents=3, horizon=11), critic="central"),
    "ppo-skills": hierarchy,
    "sac": sac(ToyEnv),
    "sac-agents": sac(lambda: ToyEnv(agents=3, drop_out=True), policy_every=2, critics=3, target_critics=2, n_step=3),
    "sac-dropout": sac(ToyEnv, critic_layer_norm=True, critic_dropout=0.1),
    "sac-batch-norm": sac(ToyEnv, critic_batch_norm=True, tau=1.0),
    "sac-sphere": sac(ToyEnv, critic_hypersphere=True, critic_unit_weights=True, atoms=11, return_limit=5.0),
    "sac-central": sac(lambda: FakeEnv(agents=2), critic="central"),
    "sac-gru": sac(ToyEnv, memory="gru", memory_size=5, memory_steps=6, memory_burn_in=2),
    "sac-priorities": sac(ToyEnv, priority_alpha=0.6),
    "sac-mirror": sac(Mirrored, mirror=True),
    "sac-pictures": sac(lambda: SpotEnv(8), picture_shift=1, **PICTURES),
    "sac-hindsight": sac(ReachEnv, hindsight_share=0.8, goal="offset", goal_within=0.1, goal_reward=1.0),
    "fastsac": sac(lambda: ToyEnv(8), atoms=11, weight_decay=0.1, gamma=0.97, tau=0.1),
    "td3": td3(ToyEnv, policy_every=2),
    "td3-gru": td3(ToyEnv, memory="gru", memory_size=5, memory_steps=6, memory_burn_in=2),
    "fasttd3": td3(
        lambda: ToyEnv(8), atoms=11, weight_decay=0.1, policy_value="min", exploration_noise_last=0.4, schedule="linear"
    ),
    "dagger": dagger(lambda: ToyEnv(agents=2, drop_out=True), controller),
}
"""From what puts an environment on a device to the algorithm that learns in it."""


def learned(name: str, device: torch.device, updates: int = 3) -> tuple[Algorithm, list[dict[str, float]]]:
    """An algorithm after some updates on a device, and their figures."""
    algorithm = CASES[name](lambda env: on_device(env, device))
    drive = Drive(algorithm)
    return algorithm, [drive.iterate(1, i / updates) for i in range(updates)]
