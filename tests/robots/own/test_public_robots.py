"""Quadrupeds whose URDFs come with pybullet stand; files with a true defect are refused by a sentence."""

from __future__ import annotations

from pathlib import Path

import pybullet_data
import pytest
import torch

import rookery
from rookery.robots.own.quadruped import load_quadruped
from rookery.sim.errors import RookeryError

DATA = Path(pybullet_data.getDataPath())


@pytest.mark.parametrize(
    ("file", "mass"),
    [
        ("a1/a1.urdf", 12.458),
        pytest.param("aliengo/aliengo.urdf", 20.638, marks=pytest.mark.slow),
        ("laikago/laikago_toes_zup.urdf", 25.567),
        pytest.param("quadruped/spirit40.urdf", 11.51, marks=pytest.mark.slow),
        pytest.param("quadruped/vision60.urdf", 26.9, marks=pytest.mark.slow),
    ],
)
def test_public_quadrupeds_stand(file, mass):
    """`mass`: kg, the sum of the file's <mass> values, trunk included."""
    robot = load_quadruped(DATA / file)
    assert robot.model.spec().compile().body_mass.sum() == pytest.approx(mass, rel=1e-4)
    config = {"robot": str(DATA / file), "push_s": 0.0, "stand_share": 1.0, "start_joints": 0.0}
    env = rookery.make("go2-velocity", config=config)
    env.reset()
    still = {"robot": torch.tensor(env.groups["robot"].action.neutral).expand(1, 1, -1)}
    for _ in range(100):
        _, _, terminated, _, _ = env.step(still)
        assert not terminated.any()
    assert env.unwrapped.task.robot.up[0, 2] > 0.98


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("mini_cheetah/mini_cheetah.urdf", "'thigh_fr' has the principal moments .* which no rigid body has"),
        ("laikago/laikago_toes_limits.urdf", "'base' has 13.715 kg and no moments of inertia"),
        ("quadruped/minitaur.urdf", "it has 16 joints, and four legs of three are needed"),
        ("kuka_iiwa/model.urdf", "it has 7 joints, and four legs of three are needed"),
        ("franka_panda/panda.urdf", "it has 9 joints"),
    ],
)
def test_other_public_robots_are_refused(file, message):
    with pytest.raises(RookeryError, match=message):
        load_quadruped(DATA / file)
