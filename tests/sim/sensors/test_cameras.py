"""Onboard cameras: where they look, what they show, and what they refuse."""

from __future__ import annotations

import math

import mujoco
import pytest
import torch
from scipy.spatial.transform import Rotation

from rookery.assets import scenery
from rookery.assets.drones import look_along, quadrotor_spec
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene
from rookery.sim.sensors.cameras import CLASSES, Cameras, geom_class

GEOM = mujoco.mjtGeom


def toy_ball() -> mujoco.MjSpec:
    return scenery.ball(0.2, 0.1)


def drone() -> mujoco.MjSpec:
    return quadrotor_spec(
        mass=0.03, inertia=(1.4e-5, 1.4e-5, 2.2e-5), rotor_positions=[[0.03, -0.03, 0], [-0.03, -0.03, 0], [-0.03, 0.03, 0],
        [0.03, 0.03, 0]], propeller_radius=0.02, rotor_directions=[-1, 1, -1, 1], body_radius=0.06, body_height=0.03,
    )  # fmt: skip


def flying() -> MujocoWorld:
    """Two worlds with two drones, nose to the x axis, the second 1 m ahead and 0.3 m left of the first."""
    return MujocoWorld(
        Scene(scenery.ground).add(drone, "drone_0", pos=(0, 0, 2)).add(drone, "drone_1", pos=(1, 0.3, 2)), 2
    )


def test_left_is_left_and_up_is_up():
    world = flying()
    camera = Cameras(world, ["drone_0/onboard"], 65, 49, "segmentation")
    for place, rows, columns in (
        ((3.0, 1.0, 2.0), slice(0, 49), slice(0, 32)),
        ((3.0, -1.0, 2.0), slice(0, 49), slice(33, 65)),
        ((3.0, 0.0, 3.0), slice(0, 24), slice(0, 65)),
        ((3.0, 0.0, 1.0), slice(25, 49), slice(0, 65)),
    ):
        camera.spheres(torch.tensor([place]).expand(2, 1, 3), 0.2)
        seen = camera.read()[0, 0] == CLASSES.index("target")
        assert seen.any()
        assert not torch.cat([seen.flatten(), ~seen[rows, columns].flatten()]).all()
        outside = seen.clone()
        outside[rows, columns] = False
        assert not outside.any()


def test_a_drone_sees_the_other_one_and_not_itself():
    seen = Cameras(flying(), ["drone_0/onboard", "drone_1/onboard"], 64, 48, "segmentation").read()
    assert (seen[:, 0] == CLASSES.index("drone")).any()
    assert not (seen[:, 1] == CLASSES.index("drone")).any()
    assert (seen == CLASSES.index("ground")).any()


def test_a_camera_turns_and_moves_with_its_body_in_each_world_apart():
    world = flying()
    camera = Cameras(world, ["drone_0/onboard"], 32, 24, "depth")
    before = camera.read().clone()
    bodies = world.bodies(["drone_0/base"])
    state = bodies.state[1:].clone()
    state[..., 3:7] = torch.from_numpy(Rotation.from_euler("y", 84.0, degrees=True).as_quat(scalar_first=True))
    bodies.set_state(torch.tensor([1]), state)
    world.forward()
    after = camera.read()
    assert torch.equal(after[0], before[0])
    # the nose points 6 degrees below x: 84 more and the camera looks straight down from 1.06 body radii below the middle
    assert after[1].mean() == pytest.approx(2.0 - 0.063 * math.sin(math.radians(84)), abs=0.05)
    assert after[1].std() < 0.05  # planar depth: the same all over a level ground


def test_depth_of_a_wall_is_planar():
    def wall() -> mujoco.MjSpec:
        spec = mujoco.MjSpec()
        spec.worldbody.add_geom(name="wall", type=GEOM.mjGEOM_BOX, size=[0.1, 50, 50], pos=[4.1, 0, 0])
        spec.worldbody.add_camera(name="fixed", pos=[0, 0, 0], quat=list(look_along([1, 0, 0])), fovy=90)
        return spec

    world = MujocoWorld(Scene(wall), 2)
    assert torch.allclose(Cameras(world, ["fixed"], 20, 10, "depth").read(), torch.tensor(4.0), atol=1e-5)


def test_nothing_in_view_is_max_range_class_0_and_sky():
    def empty() -> mujoco.MjSpec:
        spec = scenery.ground()
        spec.worldbody.add_camera(name="up", pos=[0, 0, 1], quat=[0, 1, 0, 0], fovy=60)
        return spec

    world = MujocoWorld(Scene(empty), 1)
    assert (Cameras(world, ["up"], 9, 7, "depth", 3.5).read() == 3.5).all()
    assert (Cameras(world, ["up"], 9, 7, "segmentation").read() == 0).all()
    rgb = Cameras(world, ["up"], 9, 7, "rgb").read().float()
    assert (rgb[..., 2] > rgb[..., 0]).all()


def test_what_is_beyond_max_range_is_not_seen():
    world = flying()
    far = Cameras(world, ["drone_0/onboard"], 32, 24, "depth", 8.0).read()
    for kind in ("depth", "segmentation"):
        near = Cameras(world, ["drone_0/onboard"], 32, 24, kind, 2.5).read()
        blank = 2.5 if kind == "depth" else 0
        assert torch.equal(near == blank, far >= 2.5)


def test_a_picture_is_drawn_again_whenever_something_has_moved():
    world = flying()
    camera = Cameras(world, ["drone_0/onboard"], 64, 48, "rgb")
    first = camera.read().clone()
    other = world.bodies(["drone_1/base"])
    state = other.state.clone()
    state[1, 0, 1] -= 0.5
    other.set_state(None, state)
    world.forward()
    second = camera.read().clone()
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])
    camera.spheres(torch.tensor([[[2.0, 0.0, 2.0]]]).expand(2, 1, 3), 0.1)
    third = camera.read().clone()
    assert not torch.equal(second[0], third[0])
    camera.spheres(torch.tensor([[[2.0, 0.0, 2.0]]]).expand(2, 1, 3), 0.1, rgb=(1.0, 0.0, 0.0))
    assert not torch.equal(third, camera.read())
    fresh = Cameras(world, ["drone_0/onboard"], 64, 48, "rgb")
    assert torch.equal(second, fresh.read())


def test_spheres_of_two_classes_and_of_ones_own():
    world = flying()
    camera = Cameras(world, ["drone_0/onboard", "drone_1/onboard"], 64, 48, "segmentation")
    place = torch.tensor([[[3.0, 0.0, 2.0], [4.0, 0.3, 2.0]]]).repeat(2, 1, 1)
    camera.spheres(place, 0.2, own=True)
    ball = torch.tensor([[[3.0, 0.9, 2.0]]]).repeat(2, 1, 1)
    camera.spheres(ball, 0.2, cls="ball")
    seen = camera.read().clone()
    target = seen == CLASSES.index("target")
    balls = seen == CLASSES.index("ball")
    assert balls[:, 0].any()
    assert balls[:, 1].any()
    # both drones are 2 or 3 m before their own target, a sphere each, straight ahead
    assert 0 < target[0, 0].sum() < 80
    assert target[0, 0][:, :31].sum() < target[0, 0][:, 31:].sum() + 10
    camera.spheres(place, 0.2, own=False)
    assert (camera.read() == CLASSES.index("target"))[0, 0].sum() > target[0, 0].sum()
    place[1, 0, 2] = 4.0
    camera.spheres(place, 0.2, own=False)
    assert torch.equal(camera.read() == CLASSES.index("ball"), balls)  # others keep their places


def test_classes_come_from_rotors_and_names():
    def gate() -> mujoco.MjSpec:
        spec = mujoco.MjSpec()
        body = spec.worldbody.add_body(name="gate")
        body.add_geom(name="top", type=GEOM.mjGEOM_BOX, size=[0.1, 0.5, 0.1])
        return spec

    def base() -> mujoco.MjSpec:
        spec = scenery.ground()
        for i, name in enumerate(("net", "pillar", "football")):
            spec.worldbody.add_geom(name=name, type=GEOM.mjGEOM_SPHERE, size=[0.1, 0, 0], pos=[5 + i, 0, 1])
        return spec

    scene = Scene(base).add(drone, "uav").add(gate, "gate_0", pos=(3, 0, 1)).add(toy_ball, "toy", pos=(0, 4, 1))
    model = scene.compile()
    found = {model.geom(g).name: geom_class(model, g) for g in range(model.ngeom)}
    assert found == {
        "ground": "ground", "net": "net", "pillar": "obstacle", "football": "obstacle", "uav/collision": "drone",
        "gate_0/top": "gate", "toy/ball": "ball",
    }  # fmt: skip


def test_colors_light_and_tiles():
    """A red ball is lit from above; the ground's tiles differ and keep their places while the drone moves."""

    def base() -> mujoco.MjSpec:
        spec = scenery.ground()
        spec.worldbody.add_geom(
            name="red", type=GEOM.mjGEOM_SPHERE, size=[0.5, 0, 0], pos=[3, 0, 2], rgba=[0.9, 0.05, 0.05, 1]
        )
        spec.worldbody.add_geom(
            name="ghost", type=GEOM.mjGEOM_SPHERE, size=[0.5, 0, 0], pos=[1.5, 0, 2], rgba=[1, 1, 1, 0]
        )
        spec.worldbody.add_camera(name="ahead", pos=[0, 0, 2], quat=list(look_along([1, 0, 0])), fovy=60)
        spec.worldbody.add_camera(name="down", pos=[0.25, 0.25, 1], quat=list(look_along([1e-6, 0, -1])), fovy=90)
        return spec

    world = MujocoWorld(Scene(base), 1)
    ahead, down = Cameras(world, ["ahead", "down"], 60, 60, "rgb").read()[0].int()
    middle = ahead[30, 30]
    assert middle[0] > 4 * middle[1]
    assert ahead[24, 30, 0] > ahead[36, 30, 0]  # brighter above than below
    # 1 m above a tile's middle, the picture covers 2 m: 4 tiles across, 15 pixels each
    row = down[30, :, 0]
    changes = (row[1:] - row[:-1]).abs() > 10
    assert changes.nonzero().flatten().diff().unique().tolist() == [15]


def test_meshes_are_drawn_as_their_hulls():
    def wedge() -> mujoco.MjSpec:
        spec = mujoco.MjSpec()
        points = [0, -1, -1, 0, 1, -1, 0, -1, 1, 0, 1, 1, 2, -1, -1, 2, 1, -1, 2, -1, 1, 2, 1, 1]
        spec.add_mesh(name="block", uservert=[0.5 * p for p in points])
        spec.worldbody.add_geom(name="block", type=GEOM.mjGEOM_MESH, meshname="block", pos=[3, 0, 0])
        spec.worldbody.add_camera(name="ahead", pos=[0, 0, 0], quat=list(look_along([1, 0, 0])), fovy=60)
        return spec

    depth = Cameras(MujocoWorld(Scene(wedge), 1), ["ahead"], 31, 31, "depth").read()[0, 0]
    assert depth[15, 15] == pytest.approx(3.0, abs=1e-4)
    assert depth[0, 15] == 20.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ["drone_0/onbord"]}, "did you mean 'drone_0/onboard'"),
        ({"names": []}, "at least one camera"),
        ({"names": ["drone_0/chase"]}, "turns by itself"),
        ({"kind": "deph"}, "did you mean 'depth'"),
        ({"width": 0}, "at least one pixel"),
        ({"height": -3}, "at least one pixel"),
        ({"max_range": 0.0}, "max_range"),
    ],
)
def test_refusals(change, message):
    with pytest.raises(RookeryError, match=message):
        Cameras(flying(), **{"names": ["drone_0/onboard"], **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cls": "targt"}, "did you mean 'target'"),
        ({"cls": "nothing"}, "unknown class"),
        ({"radius": 0.0}, "radius"),
        ({"pos": torch.zeros(1, 2, 3)}, r"\[2, M, 3\]"),
        ({"pos": torch.zeros(2, 3, 3), "own": True}, "shared evenly"),
    ],
)
def test_spheres_refused(change, message):
    camera = Cameras(flying(), ["drone_0/onboard", "drone_1/onboard"])
    with pytest.raises(RookeryError, match=message):
        camera.spheres(**{"pos": torch.zeros(2, 2, 3), "radius": 0.1, **change})


def test_height_fields_are_refused():
    def hills() -> mujoco.MjSpec:
        spec = scenery.ground()
        spec.add_hfield(name="hills", size=[1, 1, 1, 0.1], nrow=3, ncol=3, userdata=[0.0] * 8 + [1.0])
        spec.worldbody.add_geom(name="hills", type=GEOM.mjGEOM_HFIELD, hfieldname="hills")
        return spec

    with pytest.raises(RookeryError, match="height fields"):
        Cameras(MujocoWorld(Scene(hills).add(drone, "drone_0", pos=(0, 0, 2)), 1), ["drone_0/onboard"])
