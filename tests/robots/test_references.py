"""The Panda's references: joints together, within limits whatever is asked for, and torques as calm as the real arm's."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor

from rookery.assets.panda import ARMATURE, LOWER, UPPER
from rookery.robots.manipulators.action_kinds import find_action
from rookery.robots.manipulators.manipulator import RATE_SHARE, Manipulator, add_manipulator
from rookery.robots.manipulators.panda import PANDA
from rookery.robots.manipulators.references import ArmDynamics, ControlRows, ReferenceLimits, follow
from rookery.robots.manipulators.tool_actions import LEAD, STEP
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.scene import Scene

DT, K = 0.0025, 5
LIMITS = np.array((PANDA.speed, PANDA.acceleration, PANDA.jerk))
LOW = np.array(LOWER) + 0.05
HIGH = np.array(UPPER) - 0.05


def arms(n: int, action: str = "cartesian", dt: float = DT) -> Manipulator:
    """Pandas at home, with nothing to touch."""
    scene = Scene(mujoco.MjSpec, dt=dt, integrator="discrete")
    add_manipulator(scene, PANDA, find_action(action))
    robot = Manipulator(MujocoWorld(scene, n, threads=1), PANDA, find_action(action), control_dt=K * DT)
    robot.reset(torch.arange(n), torch.tensor(PANDA.home).expand(n, 7))
    robot.refresh()
    return robot


def advance(robot: Manipulator, goal: np.ndarray, reference: np.ndarray, together: bool = True, dt: float = DT) -> None:
    """One physics step of bare references [n, 3, 7]."""
    n = len(goal)
    rows = np.zeros((n, 1, 8))  # in double precision, as the arm's own: no kernel is compiled for this test alone
    grip = np.zeros(n, np.float32)
    rate = RATE_SHARE * PANDA.torque_rate
    limits = ReferenceLimits(*(np.array(x, float) for x in (LOW, HIGH, *LIMITS, PANDA.inertial_torque)), rate)
    dynamics = ArmDynamics(robot._links, np.full(7, ARMATURE), np.zeros(7), dt)
    follow(goal, reference, together, limits, robot.chain, dynamics, ControlRows(grip, rows))


def mass_matrix(model: mujoco.MjModel, q: np.ndarray) -> np.ndarray:
    """[7, 7] kg m^2 of the arm, fingers still, by MuJoCo."""
    data = mujoco.MjData(model)
    out = np.zeros((7, model.nv))
    data.qpos[:7] = q
    mujoco.mj_forward(model, data)
    for unit, row in zip(np.eye(model.nv), out, strict=False):
        mujoco.mj_mulM(model, data, row, unit)
    return out[:, :7]


# joints go together


@pytest.mark.parametrize("dt", [0.0025, 0.0125 / 3, 0.001])
def test_joints_go_straight_to_a_goal_and_stop_there(dt: float) -> None:
    n = 64
    rng = np.random.default_rng(0)
    robot = arms(1)
    start = rng.uniform(LOW, HIGH, (n, 7))
    goal = np.clip(start + rng.normal(size=(n, 7)) * rng.choice([0.02, 0.2, 2.0], (n, 1)), LOW, HIGH)
    length = np.linalg.norm(goal - start, axis=1)
    line = (goal - start) / length[:, None]
    reference = np.zeros((n, 3, 7))
    reference[:, 0] = start
    aside = beyond = np.zeros(n)
    for _ in range(round(5.0 / dt)):
        advance(robot, goal, reference, dt=dt)
        moved = reference[:, 0] - start
        along = (moved * line).sum(1)
        aside = np.maximum(aside, np.linalg.norm(moved - along[:, None] * line, axis=1))
        beyond = np.maximum(beyond, along - length)
    print("aside", aside.max(), "beyond", beyond.max())
    assert aside.max() < 1e-4
    assert beyond.max() < 5e-4
    assert np.abs(reference[:, 0] - goal).max() < 1e-5 and np.abs(reference[:, 1:]).max() < 1e-3


def test_a_velocity_keeps_its_direction_while_it_is_reached() -> None:
    n = 32
    rng = np.random.default_rng(1)
    robot = arms(1)
    wish = 0.4 * np.array(PANDA.speed) * rng.uniform(-1, 1, (n, 7))
    reference = np.zeros((n, 3, 7))
    reference[:, 0] = PANDA.home
    for _ in range(60):
        advance(robot, wish, reference, together=False)
        v = reference[:, 1]
        cosine = (v * wish).sum(1) / np.linalg.norm(v, axis=1) / np.linalg.norm(wish, axis=1)
        assert cosine.min() > 1 - 1e-9
    assert np.abs(v - wish).max() < 0.01


@pytest.mark.parametrize("kind", ["cartesian", "pose"])
def test_straight_moves_at_full_speed_are_straight(kind: str) -> None:
    n = 48
    steps = 24
    rng = np.random.default_rng(2)
    robot = arms(n, kind)
    way = rng.uniform(-1.0, 1.0, (n, 3))
    way /= np.abs(way).max(1, keepdims=True)
    middle = np.array((0.5, 0.0, 0.3)) + rng.uniform(-0.05, 0.05, (n, 3))
    q = robot.joints_for(torch.tensor(middle - 0.5 * steps * STEP * way))
    robot.reset(torch.arange(n), q)
    robot.refresh()
    start = robot.tool.double().numpy()
    line = way / np.linalg.norm(way, axis=1, keepdims=True)
    action = torch.zeros(n, robot.spec.size)
    aside = np.zeros(n)
    for step in range(steps + 40):
        action[:, :3] = torch.tensor(way) * (step < steps)
        robot.apply(action)
        robot.world.step(K)
        robot.refresh()
        moved = robot.tool.double().numpy() - start
        aside = np.maximum(aside, np.linalg.norm(moved - (moved * line).sum(1)[:, None] * line, axis=1))
        ahead = robot.goal.numpy() - robot.tool_at(robot.reference[:, 0])[0].numpy()
        assert np.abs(ahead).max() < LEAD + 1e-9
    short = (robot.goal - robot.tool).norm(dim=1)
    print("aside mm", 1e3 * np.median(aside), 1e3 * aside.max(), "short mm", 1e3 * short.max())
    assert aside.max() < 0.005
    assert short.max() < 0.002


# limits


def test_the_mass_matrix_is_mujocos() -> None:
    """By what it does: with nothing but the torque's rate to limit it, the first acceleration is rate / |M d| along d."""
    robot = arms(1)
    rng = np.random.default_rng(3)
    none = np.full(7, 1e9)
    for _ in range(5):
        q = rng.uniform(-1.0, 1.0, 7)
        goal = np.array([q + rng.normal(size=7)])
        reference = np.zeros((1, 3, 7))
        rows = np.zeros((1, 1, 8))
        reference[0, 0] = q
        dynamics = ArmDynamics(robot._links, np.full(7, ARMATURE), np.zeros(7), DT)
        controls = ControlRows(np.zeros(1, np.float32), rows)
        follow(goal, reference, True, ReferenceLimits(-none, *[none] * 5, 100.0), robot.chain, dynamics, controls)
        change = mass_matrix(robot.world.model, q) @ reference[0, 2]
        assert np.abs(change).max() == pytest.approx(100.0 * DT, rel=1e-9)


@pytest.mark.parametrize("together", [True, False])
def test_references_keep_all_limits_whatever_is_asked_for(together: bool) -> None:
    """Goals, or speeds, that jump from limit to limit, at random and in step with the arm."""
    n = 48
    rng = np.random.default_rng(4)
    robot = arms(1)
    low, high = (LOW, HIGH) if together else (-np.array(PANDA.speed), np.array(PANDA.speed))
    reference = np.zeros((n, 3, 7))
    goal = np.zeros((n, 7))
    reference[:, 0] = 0.5 * (LOW + HIGH)
    goal[:] = reference[:, 0] if together else 0.0
    worst = np.zeros((3, 7))
    beyond = -1.0
    before = reference.copy()
    for step in range(1600):
        new = np.where(rng.random((n, 7)) < 0.5, low, high)
        new[: n // 3] = rng.uniform(low, high, (n // 3, 7))
        if step >= 800:  # in the second half some goals lie on the other side whenever that is fastest
            flip = (np.abs(reference[:, 1]) > 0.7 * LIMITS[0]) & (rng.random((n, 7)) < 0.2)
            goal = np.where(flip, np.where(reference[:, 1] > 0, low, high), goal)
        goal = np.where(rng.random((n, 7)) < np.linspace(0.001, 0.3, n)[:, None], new, goal)
        advance(robot, goal, reference, together)
        moved = np.abs(reference[:, :2] - before[:, :2]).max(0) / DT
        worst = np.maximum(worst, [*moved, np.abs(reference[:, 2] - before[:, 2]).max(0) / DT])
        beyond = max(beyond, (reference[:, 0] - HIGH).max(), (LOW - reference[:, 0]).max())
        before = reference.copy()
    print("shares", (worst / LIMITS).round(2), "beyond the margin, rad", beyond)
    assert (worst <= LIMITS * (1 + 1e-6)).all()
    assert (worst[0] > 0.6 * LIMITS[0]).all() and (worst[1] > 0.5 * LIMITS[1]).all()  # it was hard enough
    assert beyond < 0.04  # of 0.05, the margin to the limits of position


def torques(robot: Manipulator, act: list[Tensor]) -> np.ndarray:
    """[K T, N, 7] N m that moved the joints in each physics step, by inverse dynamics, without gravity's.

    Not the servos' own figure: that is of the step's beginning, and what an implicit integrator applies is that of its end.
    """
    world = robot.world
    model = robot.world.model
    seen = []
    world.inner_loops += (lambda i: seen.append((world.batch.bind("qpos").copy(), world.batch.bind("qvel").copy())),)
    for action in act:
        robot.apply(action)
        world.step(robot.steps)
        robot.refresh()
    data = mujoco.MjData(model)
    force = np.zeros(model.nv)
    out = np.zeros((len(seen) - 1, world.num_envs, 7))
    for k, ((q, v), (_, after)) in enumerate(itertools.pairwise(seen)):
        for i in range(world.num_envs):
            data.qpos[:] = q[i]
            data.qvel[:] = v[i]
            mujoco.mj_fwdPosition(model, data)
            mujoco.mj_fwdVelocity(model, data)
            mujoco.mj_mulM(model, data, force, (after[i] - v[i]) / world.dt)
            out[k, i] = (force + data.qfrc_bias - data.qfrc_passive - data.qfrc_gravcomp)[:7]
    return out


@pytest.mark.parametrize("held", [1, 8])
@pytest.mark.parametrize("kind", ["cartesian", "pose", "joint_position", "joint_velocity"])
def test_torques_rate_in_free_motion(kind: str, held: int) -> None:
    """Actions from corner to corner: 99.9 % of the physics steps, the worst joint of each, are within the robot's limit."""
    n, g = 6, torch.Generator().manual_seed(5)
    robot = arms(n, kind)
    act = list[Tensor]()
    robot.box = torch.tensor(((0.3, -0.4, 0.05), (0.7, 0.4, 0.6)), dtype=torch.float64)
    for step in range(96):
        if step % held == 0:
            action = torch.where(torch.rand(n, robot.spec.size, generator=g) < 0.5, -1.0, 1.0)
            action[:, -1] = -1.0
        act.append(action)
    rates = np.abs(np.diff(torques(robot, act), axis=0)).max(2) / robot.world.dt
    print("N m/s, median, 99 %, 99.9 %, most", np.quantile(rates, (0.5, 0.99, 0.999, 1.0)).round())
    assert np.quantile(rates, 0.999) < PANDA.torque_rate
    assert np.quantile(rates, 0.5) > 50.0  # it moved
