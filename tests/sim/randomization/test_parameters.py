"""The writes that robots and tasks share: a factor on the scene's values, a difference from them, and sliding friction."""

from __future__ import annotations

import mujoco
import pytest
import torch

from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.randomization.parameters import scaled, shifted, sliding
from rookery.sim.scene import Scene
from rookery.sim.world import World

IDS = torch.tensor([1, 2])
VALUES = torch.tensor([0.5, 3.0])
BODIES = ["crates/small", "crates/large"]
GEOMS = ["crates/left", "crates/right"]


def crates() -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    for i, (name, geom) in enumerate((("small", "left"), ("large", "right"))):
        body = spec.worldbody.add_body(name=name, pos=[i, 0, 1])
        body.add_freejoint()
        body.add_geom(
            name=geom, type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.1 + 0.1 * i, 0.2, 0.3], friction=[0.6 + i, 0.02, 0.003]
        )
    return spec


@pytest.fixture
def world() -> World:
    return MujocoWorld(Scene(mujoco.MjSpec, dt=0.01).add(crates, "crates"), 4)


def test_a_factor_multiplies_all_its_fields_in_the_worlds_given_alone(world):
    p = world.params
    before = {field: p.get(field, BODIES) for field in ("mass", "inertia")}
    write = scaled(p, BODIES, "mass", "inertia")
    write(IDS, torch.full((2,), 7.0))
    write(IDS, VALUES)  # of the scene's values, not of those that were there
    factor = torch.tensor([1.0, 0.5, 3.0, 1.0])
    torch.testing.assert_close(p.get("mass", BODIES), before["mass"] * factor[:, None])
    torch.testing.assert_close(p.get("inertia", BODIES), before["inertia"] * factor[:, None, None])


def test_a_difference_is_added_to_the_scenes_values_in_the_worlds_given_alone(world):
    p = world.params
    before = {field: p.get(field, BODIES) for field in ("mass", "inertia")}
    write = shifted(p, BODIES, "mass")
    write(IDS, torch.full((2,), 7.0))
    write(IDS, VALUES)  # to the scene's values, not to those that were there
    added = torch.tensor([0.0, 0.5, 3.0, 0.0])
    torch.testing.assert_close(p.get("mass", BODIES), before["mass"] + added[:, None])
    torch.testing.assert_close(p.get("inertia", BODIES), before["inertia"])


def test_a_difference_along_one_axis_keeps_what_stands_on_the_others(world):
    p = world.params
    before = p.get("com", BODIES)
    shifted(p, BODIES, "com", 0)(IDS, torch.tensor([0.01, -0.02]))
    shifted(p, BODIES, "com", 1)(IDS, torch.tensor([0.03, 0.04]))
    added = torch.tensor([[0.0, 0.0, 0.0], [0.01, 0.03, 0.0], [-0.02, 0.04, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(p.get("com", BODIES), before + added[:, None])


def test_sliding_friction_is_the_value_itself_and_the_others_stay(world):
    sliding(world.params, GEOMS)(IDS, VALUES)
    friction = world.params.get("friction", GEOMS)
    assert friction[1:3, :, 0].tolist() == [[0.5, 0.5], [3.0, 3.0]]
    assert friction[[0, 3], :, 0].flatten().tolist() == pytest.approx([0.6, 1.6] * 2)
    assert torch.equal(friction[..., 1:], torch.tensor([0.02, 0.003]).expand(4, 2, 2))
