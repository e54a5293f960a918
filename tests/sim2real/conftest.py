"""A small drone task in the form of its declarations, its policy, and one exported bundle shared by all tests."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.standard import standard
from rookery.sim.actuation import Actuation, Gripper, Joint
from rookery.sim.deployment import Deployment
from rookery.sim.env import Env
from rookery.sim.quantities import POSITION, own, place
from rookery.sim.specs import ActionSpec, Group, Term, Weights
from rookery.sim.terms import Above, Clock
from rookery.sim.values import plain
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle


@dataclass(frozen=True)
class Config:
    """What a task's config may hold."""

    dt: float = 0.002
    start: tuple[float, ...] = (1.0, 2.0)
    reward: Weights = field(default_factory=lambda: Weights(distance=-0.5))


RUNS = Above(own("speed", 1, "m/s"), 0.5)


def make_group(count: int = 1) -> Group:
    action = ActionSpec(
        kind="ctbr",
        names=("thrust", "roll_rate", "pitch_rate"),
        low=(0.0, -6.0, -6.0),
        high=(0.6, 6.0, 6.0),
        units=("N", "rad/s", "rad/s"),
        neutral=(-0.1, 0.0, 0.0),
    )
    terms = (
        Term("position_error", place("target") - POSITION, noise=0.005),
        Term("rotation", Clock("phases", 9, frequency=2.0, runs=RUNS), initial="the identity"),
        Term(
            "linear_velocity",
            3,
            unit="m/s",
            frame="world",
            scale=0.3,
            clip=4.0,
            bias=0.1,
            delay=0.01,
            estimated="linear velocity",
        ),
    )
    return Group(count, terms, action)


def make_actuation() -> Actuation:
    joint = Joint("hinge", (0.0, 1.0, 0.0), home=0.1, lower=-1.0, upper=1.0, kp=40.0, kd=1.0, torque=23.7)
    grip = Gripper("gripper", open=0.08, closed=0.0, force=20.0, start=0.08)
    return Actuation(("target = command",), ("m1", "m2", "m3", "m4"), 0.002, joints=(joint,), gripper=grip)


class DeclaredEnv(Env):
    """The declarations of a task, without worlds."""

    control_dt = 0.01
    task_id = "drone-hover"

    def __init__(self, groups: dict[str, Group], deployment: Deployment) -> None:
        self.groups = groups
        self._deployment = deployment

    def deployment(self) -> Deployment:
        return self._deployment

    def reset(self, seed=None):
        raise NotImplementedError

    def step(self, actions):
        raise NotImplementedError

    def close(self):
        pass

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def make_env(deployment: Deployment | None = None, **groups: Group) -> DeclaredEnv:
    deployment = deployment or Deployment(config=plain(Config()), physics_dt=0.002)
    return DeclaredEnv(groups or {"drone": make_group()}, deployment)


def make_policy(
    hidden: tuple[int, ...] = (32, 32),
    activation: str = "tanh",
    inputs: int = 15,
    seed: int = 0,
    squash: str = "clip",
) -> Policy:
    """A policy with large weights and a normalizer far from the identity, so that every step of the network counts."""
    generator = torch.Generator().manual_seed(seed)
    policy = Policy(standard(inputs, 3, hidden, activation, obs_clip=5.0, squash=squash))
    with torch.no_grad():
        policy.get_buffer("normalize.mean").normal_(generator=generator)
        policy.get_buffer("normalize.std").uniform_(0.2, 3.0, generator=generator)
        for layer in layers_of(policy):
            layer.weight.normal_(0.0, layer.weight.shape[1] ** -0.5, generator=generator)
            layer.bias.normal_(0.0, 0.3, generator=generator)
    return policy


@pytest.fixture(scope="session")
def contract() -> Contract:
    return build_contract(make_env(), {"drone": make_policy()}, provenance={"steps": 1000, "seed": 3})


@pytest.fixture
def values(contract: Contract) -> dict[str, Any]:
    """The contract as JSON values."""
    return contract.to_json()


@pytest.fixture(scope="session")
def shared_bundle(contract: Contract, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good bundle; read it, do not change it."""
    return export_bundle({"drone": make_policy()}, contract, tmp_path_factory.mktemp("export") / "bundle")


@pytest.fixture
def bundle(shared_bundle: Path, tmp_path: Path) -> Path:
    """A good bundle of the test's own, to be broken."""
    return Path(shutil.copytree(shared_bundle, tmp_path / "bundle"))
