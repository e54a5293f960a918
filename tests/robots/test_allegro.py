"""The Allegro hand in a world: shapes, rate limits, touch, and a scripted grasp that lifts."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch
from sampled import slow_but
from torch import Tensor

from rookery.assets.allegro import SPEED, WRIST, allegro
from rookery.assets.objects import find_object
from rookery.assets.scenery import ground
from rookery.robots.manipulators.allegro import (
    FIST,
    LOWER,
    OPEN,
    PINCH_AHEAD,
    PINCH_SHUT,
    UPPER,
    WRIST_SPEED,
    AllegroHand,
    add_allegro,
    pinch,
    power,
    wrist_angles,
)
from rookery.robots.manipulators.grasps import superquadric
from rookery.robots.manipulators.grasps.surface import sample_surface
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.errors import RookeryError
from rookery.sim.rotations import matrix, multiply
from rookery.sim.scene import Scene

DT = 0.0025
CONTROL_DT = 0.02
HEIGHT = 0.3


def table() -> mujoco.MjSpec:
    spec = ground(visual=False)
    spec.option.impratio = 10.0
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    return spec


def hand_world(n: int, thing: str | None = None) -> tuple[MujocoWorld, AllegroHand]:
    scene = Scene(table, dt=DT)
    if thing is not None:
        scene.add(lambda: find_object(thing).spec(visual=False), "thing")
    world = MujocoWorld(add_allegro(scene, height=HEIGHT, looks=False), n, threads=1)
    return world, AllegroHand(world, control_dt=CONTROL_DT)


def tips(angles: Tensor) -> np.ndarray:
    """[4, 3] m, of the tips in the grasp frame."""
    model = allegro(wrist=False, looks=False).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = angles.numpy()
    mujoco.mj_forward(model, data)
    frame = data.site("grasp")
    at = np.array([data.body(f"{f}_tip").xpos for f in ("ff", "mf", "rf", "th")])
    return (at - frame.xpos) @ frame.xmat.reshape(3, 3)


@pytest.mark.parametrize("close", [power, pinch])
def test_shapes_close_along_the_closing_axis(close) -> None:
    shapes = close(torch.linspace(0.0, 1.0, 6))
    assert shapes.shape == (6, 16)
    assert (shapes >= LOWER).all() and (shapes <= UPPER).all()
    at = np.array([tips(q) for q in shapes])
    gaps = at[:, :3, 1].mean(1) - at[:, 3, 1]
    assert (np.diff(gaps) < 0).all() and gaps[0] > 0.10
    assert (at[0, :3, 1] > 0.03).all() and at[0, 3, 1] < -0.03  # open: fingers on one side, the thumb on the other
    assert np.array_equal(close(torch.tensor([2.0])), close(torch.tensor([1.0])))


def test_a_pinch_meets_before_the_palm() -> None:
    at = tips(PINCH_SHUT)
    assert np.abs(at[:, 2] - PINCH_AHEAD).max() < 0.005
    assert np.linalg.norm(at[1] - at[3]) < 0.024  # closer than two radii: they press


def test_actions_and_limits() -> None:
    _, hand = hand_world(2)
    assert hand.whole.size == 22 and hand.fingers.size == 16 and hand.whole.units[15:19] == ("rad", "m", "m", "m")
    for spec in (hand.whole, hand.fingers):
        neutral = torch.tensor(spec.neutral)
        assert torch.allclose(hand.targets(neutral), hand.home[: spec.size], atol=1e-6)
        assert torch.allclose(hand.targets(torch.ones(spec.size)), torch.tensor(spec.high), atol=1e-6)
        assert torch.allclose(hand.targets(torch.full((spec.size,), -3.0)), torch.tensor(spec.low), atol=1e-6)
    actions = torch.rand(5, 22) * 2 - 1
    assert torch.allclose(hand.normalized(hand.targets(actions)), actions, atol=1e-5)
    assert torch.allclose(hand.home[:16], OPEN)
    with pytest.raises(RookeryError, match="control_dt must be positive"):
        AllegroHand(hand.world, control_dt=0.0)
    with pytest.raises(RookeryError, match="wrist=False"):
        add_allegro(Scene(), site="panda/flange")


def test_targets_move_no_faster_than_the_joints() -> None:
    _, hand = hand_world(2)
    ids = torch.arange(2)
    hand.reset(ids, hand.home.expand(2, -1))
    before = hand.target.clone()
    hand.command(torch.stack((hand.upper, hand.lower)))
    moved = hand.target - before
    assert moved[:, :16].abs().max() == pytest.approx(SPEED * CONTROL_DT, rel=1e-4)
    assert torch.allclose(moved[0, 16:], WRIST_SPEED * CONTROL_DT) and torch.allclose(moved[1, 16:], -moved[0, 16:])
    hand.command(hand.target[:, :16] + 0.01)  # fingers alone, a small step: all of it, and the wrist stays
    assert torch.allclose(hand.target[:, 16:], before[:, 16:] + moved[:, 16:])
    assert torch.allclose(hand.target[:, :16], before[:, :16] + moved[:, :16] + 0.01, atol=1e-6)
    assert torch.allclose(hand.actuators.control, hand.target)


def test_observations() -> None:
    world, hand = hand_world(2)
    joints = hand.home.repeat(2, 1)
    joints[1, 16:19] = torch.tensor([0.1, -0.1, 0.05])
    hand.reset(torch.arange(2), joints)
    world.forward()
    seen = hand.observe()
    sizes = {
        "joint_pos": 22,
        "joint_vel": 22,
        "joint_target": 22,
        "grasp_pos": 3,
        "grasp_quat": 4,
        "tip_pos": 12,
        "touch": 5,
    }
    assert {k: v.shape for k, v in seen.items()} == {k: (2, d) for k, d in sizes.items()}
    assert torch.allclose(seen["joint_pos"], joints)
    assert torch.allclose(seen["grasp_pos"], torch.tensor([[0, 0, HEIGHT], [0.1, -0.1, HEIGHT + 0.05]]), atol=1e-6)
    assert torch.allclose(wrist_angles(seen["grasp_quat"]), torch.zeros(2, 3), atol=1e-6)
    # in the grasp frame of a wrist at zero, x is the world's y, y its x and z points down
    own = tips(OPEN)
    world_tips = torch.tensor(np.stack((own[:, 1], own[:, 0], HEIGHT - own[:, 2]), axis=1), dtype=torch.float32)
    assert torch.allclose(seen["tip_pos"][0].view(4, 3), world_tips, atol=1e-5)
    assert not seen["touch"].any()


def test_wrist_angles_are_those_of_the_joints() -> None:
    world, hand = hand_world(64)
    joints = hand.home.repeat(64, 1)
    joints[:, 19:] = (torch.rand(64, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1) * torch.tensor(
        [3.0, 1.5, 3.0]
    )
    hand.reset(torch.arange(64), joints)
    world.forward()
    assert torch.allclose(wrist_angles(hand.grasp.quat[:, 0]), joints[:, 19:], atol=2e-4)
    assert WRIST[3:] == ("wrist_roll", "wrist_pitch", "wrist_yaw")


def test_a_fist_reaches_no_further_than_its_torques() -> None:
    """Fingers that close on each other press with no more than the motors have, and nothing diverges."""
    world, hand = hand_world(1)
    hand.reset(torch.arange(1), hand.home[None])
    for _ in range(60):
        hand.command(FIST[None])
        world.step(8)
    assert world.failures == 0
    assert hand.actuators.force[:, :16].abs().max() <= 0.35 + 1e-6
    assert hand.joints.vel.abs().max() < 0.3


def lift(name: str, close, n: int, seed: int) -> tuple[Tensor, AllegroHand]:
    """Height gained [n] m by objects that are approached along superquadric grasps, grasped and lifted by 0.15 m."""
    item = find_object(name)
    world, hand = hand_world(n, name)
    thing = world.bodies(["thing/object"])
    rng = np.random.default_rng(seed)
    points, _ = sample_surface(item.mesh, 500, rng)
    found = superquadric.sample(superquadric.fit(points), n, rng, table=-item.rest_height)
    poses = [found[i % len(found)] for i in range(n)]
    yaw = torch.tensor(rng.uniform(-0.6, 0.6, n), dtype=torch.float32)
    state = torch.zeros(n, 1, 13)
    state[:, 0, :2] = torch.tensor(rng.uniform(-0.03, 0.03, (n, 2)))
    state[:, 0, 2] = item.rest_height + 0.0005
    state[:, 0, 3] = (0.5 * yaw).cos()
    state[:, 0, 6] = (0.5 * yaw).sin()
    turn = state[:, 0, 3:7]
    position = torch.tensor(np.array([p.position for p in poses]), dtype=torch.float32)
    goal = state[:, 0, :3] + torch.einsum("nij,nj->ni", matrix(turn).view(-1, 3, 3), position)
    quat = multiply(turn, torch.tensor(np.array([p.quaternion for p in poses]), dtype=torch.float32))
    approach = matrix(quat).view(-1, 3, 3)[:, :, 2]
    angles = wrist_angles(quat)

    def targets(place: Tensor, closing: float) -> Tensor:
        return torch.cat((close(torch.full((n,), closing)), place - torch.tensor([0.0, 0.0, HEIGHT]), angles), dim=1)

    hand.reset(torch.arange(n), targets(goal - 0.1 * approach, 0.0))
    thing.set_state(torch.arange(n), state)
    world.forward()
    up = torch.tensor([0.0, 0.0, 0.15])
    for share in torch.linspace(0.0, 1.0, 40).tolist():  # 0.8 s there, 1 s closing, 1 s up, 0.5 s held
        hand.command(targets(goal - 0.1 * (1 - share) * approach, 0.0))
        world.step(8)
    for share in torch.linspace(0.0, 1.0, 50).tolist():
        hand.command(targets(goal, share))
        world.step(8)
    for share in torch.linspace(0.0, 1.5, 75).clamp(max=1.0).tolist():
        hand.command(targets(goal + share * up, 1.0))
        world.step(8)
    assert world.failures == 0
    return thing.pos[:, 0, 2] - item.rest_height, hand


GRASPS = [("cube_50", pinch), ("tomato_soup_can", power)]


@pytest.mark.parametrize(("name", "close"), slow_but(GRASPS[:1], GRASPS))
def test_a_script_grasps_and_lifts(name: str, close) -> None:
    height, hand = lift(name, close, 12, seed=0)
    held = height > 0.10
    assert held.float().mean() >= 0.75
    touch = hand.touch[held]
    assert ((touch > 0.1).sum(1) >= 1).all() and torch.isfinite(touch).all()
