"""The Panda's controller against oracles: kinematics, what each kind of action does, and limits that hold whatever comes in."""

from __future__ import annotations

import math

import mujoco
import numba
import numpy as np
import pytest
import torch
from torch import Tensor

from rookery.assets.panda import JOINTS, LOWER, TORQUE, UPPER
from rookery.assets.scenery import box, table
from rookery.robots.manipulators.action_kinds import action_kinds, find_action
from rookery.robots.manipulators.chain import WORLDS_EACH, few_threads
from rookery.robots.manipulators.manipulator import Manipulator, add_manipulator
from rookery.robots.manipulators.panda import PANDA
from rookery.robots.manipulators.pose_search import PoseSearch, track_pose
from rookery.robots.manipulators.tool_actions import ROTATION_STEP, STEP, STIFFNESS
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene
from rookery.tasks.manipulation import meta_world

DT, K = 0.0025, 5
PLACE = {"pos": (0.1, -0.2, 0.3), "quat": (math.cos(0.4), 0.0, 0.0, math.sin(0.4))}
HOME = torch.tensor((0.0, 0.1, 0.0, -2.0, 0.0, 2.1, math.pi / 4), dtype=torch.float64)


def bench(
    n: int, action: str = "cartesian", *, thing: bool = False, integrator: str = "implicitfast", **options
) -> Manipulator:
    """Pandas at home over a table, on a base that is neither at the origin nor straight."""
    scene = Scene(lambda: table(visual=False), dt=DT, integrator=integrator)
    add_manipulator(scene, PANDA, find_action(action), **PLACE)
    if thing:
        scene.add(lambda: box([0.04] * 3, 0.1), "cube", pos=(0.5, 0.0, 0.02))
    robot = Manipulator(MujocoWorld(scene, n, threads=1), PANDA, find_action(action), control_dt=K * DT, **options)
    robot.reset(torch.arange(n), HOME.expand(n, 7))
    robot.refresh()
    return robot


def go(robot: Manipulator, action: Tensor, steps: int = 1) -> None:
    """Give [D] or [N, D] actions; the gripper stays open."""
    n = robot.world.num_envs
    full = torch.cat((action.float().expand(n, -1), torch.full((n, 1), -1.0)), 1)
    for _ in range(steps):
        robot.apply(full)
        robot.world.step(K)
        robot.refresh()


def some_joints(n: int, seed: int, spread: float = 0.6) -> Tensor:
    rng = np.random.default_rng(seed)
    low = np.array(LOWER) + 0.1
    high = np.array(UPPER) - 0.1
    return torch.tensor(np.clip(HOME.numpy() + rng.uniform(-spread, spread, (n, 7)), low, high))


def angle(a: Tensor, b: Tensor) -> Tensor:
    """[N] rad between rotation matrices, from the sine, which is exact for small ones."""
    return (0.5 * ((a - b).square().sum((1, 2)) / 2).sqrt()).clamp(max=1.0).asin() * 2


# kinematics


def test_the_tool_is_where_mujoco_has_it() -> None:
    robot = bench(16)
    robot.reset(torch.arange(16), some_joints(16, 0))
    robot.refresh()
    for i in range(16):
        site = robot.world.mj_data(i).site("panda/tcp")
        assert np.abs(robot.tool[i].numpy() - site.xpos).max() < 1e-6
        assert np.abs(robot.rotation[i].numpy() - site.xmat.reshape(3, 3)).max() < 1e-6
    assert torch.allclose(robot.opening, torch.full((16,), 0.08))
    assert torch.allclose(robot.goal.float(), robot.tool, atol=1e-6)


def test_joints_for_random_poses() -> None:
    robot = bench(1)
    other = bench(200)
    other.reset(torch.arange(200), some_joints(200, 1))
    goal = other.goal.clone()
    turn = other.goal_rotation.clone()
    q = robot.joints_for(goal, turn)
    other.reset(torch.arange(200), q)
    assert (other.goal - goal).norm(dim=1).max() < 1e-4 and angle(other.goal_rotation, turn).max() < 1e-3
    assert (q >= torch.tensor(LOWER)).all() and (q <= torch.tensor(UPPER)).all()
    with pytest.raises(RookeryError, match=r"\(2\.000, 0\.000, 0\.500\)"):
        robot.joints_for(torch.tensor([[2.0, 0.0, 0.5]]))


def test_track_pose_is_damped_least_squares() -> None:
    robot = bench(1)
    model = robot.world.model
    data = mujoco.MjData(robot.world.model)
    dofs = [model.joint(f"panda/{j}").dofadr[0] for j in JOINTS]
    rng = np.random.default_rng(2)
    site = model.site("panda/tcp").id
    low = np.array(LOWER)
    high = np.array(UPPER)
    home = HOME.numpy()
    for _ in range(10):
        q = some_joints(1, int(rng.integers(1000)), 0.4).numpy()
        data.qpos[dofs] = q[0]
        mujoco.mj_forward(model, data)
        goal = data.site_xpos[site] + rng.uniform(-0.05, 0.05, 3)
        spin = rng.uniform(-0.2, 0.2, 3)
        quat = np.zeros(4)
        turn = np.zeros(9)
        mujoco.mju_axisAngle2Quat(quat, spin / np.linalg.norm(spin), np.linalg.norm(spin))
        mujoco.mju_quat2Mat(turn, quat)
        wish = turn.reshape(3, 3) @ data.site_xmat[site].reshape(3, 3)
        linear = np.zeros((3, model.nv))
        angular = np.zeros((3, model.nv))
        mujoco.mj_jacSite(model, data, linear, angular, site)
        jac = np.concatenate((linear, angular))[:, dofs]
        error = np.concatenate((goal - data.site_xpos[site], spin))
        pull = 0.02 * (home - q[0])
        # min |J dq - e|^2 + d^2 |dq - pull|^2, as one system of equations
        system = np.concatenate((jac, 0.03 * np.eye(7)))
        want = q[0] + np.linalg.lstsq(system, np.concatenate((error, 0.03 * pull)), rcond=None)[0]
        track_pose(q, goal[None], wish[None], robot.chain, PoseSearch(low, high, home, 0.03, 0.02, 10.0), 1)
        assert np.abs(q[0] - np.clip(want, low, high)).max() < 1e-9


def test_results_do_not_depend_on_the_number_of_worlds() -> None:
    n = 3 * WORLDS_EACH + 1
    robot = bench(n, thing=False)
    q = some_joints(n, 3).numpy()
    goal, rotation = robot.goal.numpy(), robot.goal_rotation.numpy()
    search = PoseSearch(robot.lower, robot.upper, HOME.numpy(), 0.02, 0.02, 0.2)
    one = q[-5:].copy()
    track_pose(q, goal, rotation, robot.chain, search, 3)
    track_pose(one, goal[-5:], rotation[-5:], robot.chain, search, 3)
    assert np.array_equal(q[-5:], one)


def test_all_places_of_the_table_top_tasks_are_within_reach() -> None:
    """Corners of the ranges of Meta-World's ten tasks, and of all goals in the air."""
    scene = Scene(lambda: table(visual=False), dt=DT)
    add_manipulator(scene, PANDA, find_action("cartesian"), pos=meta_world.BASE, quat=meta_world.FACING)
    robot = Manipulator(MujocoWorld(scene, 1, threads=1), PANDA, find_action("cartesian"), home=PANDA.home_across)
    x, low = (-0.1, 0.1), 0.02  # m, the middle of what lies on the table
    places = [(a, b, c) for a in x for b in (0.6, 0.7, 0.8, 0.9) for c in (low, 0.05, 0.15, 0.3)]
    places += [(a, 0.9 - out, 0.09) for a in x for out in (0.0, 0.16, 0.2)]  # drawers
    places += [(a, b, c) for a in x for b in (0.8, 0.9) for c in (0.2, 0.3)]  # button
    places += [(a, b, 0.16) for a in (-0.1, 0.1, 0.3) for b in (0.7, 0.87)]  # windows; at (0.3, 0.9) it misses by 15 mm
    places += [(a, b, 0.13) for a in (-0.35, -0.25) for b in (0.4, 0.7)]  # the hole for the peg
    places += [(a, b, low) for a in (0.0, 0.2) for b in (0.5, 0.7)]  # the peg
    places += [(a, b, 0.15) for a in (0.0, 0.1) for b in (0.8, 0.9)] + [(-0.3, 0.4, 0.15), (-0.2, 0.5, 0.15)]  # door
    q = robot.joints_for(torch.tensor(places))
    assert (q >= torch.tensor(LOWER) + 0.04).all() and (q <= torch.tensor(UPPER) - 0.04).all()
    one = torch.arange(1)
    for i in range(len(places)):
        robot.reset(one, q[i : i + 1])
        assert robot.goal_rotation[0, 2, 2] < -0.99


# limits


@pytest.mark.parametrize("kind", ["joint_torque", "impedance"])
def test_torques_and_their_rates_hold_exactly(kind: str) -> None:
    robot = bench(8, kind)
    seen: list[Tensor] = []
    robot.world.inner_loops += (lambda i: seen.append(robot.actuators.control[:, :7].clone()),)
    g = torch.Generator().manual_seed(0)
    for _ in range(40):
        action = torch.where(torch.rand(8, robot.spec.size - 1, generator=g) < 0.5, -1.0, 1.0)
        go(robot, action)
    torques = torch.stack(seen)
    assert (torques.abs() <= torch.tensor(TORQUE, dtype=torch.float32)).all()
    assert torques.diff(dim=0).abs().max() <= PANDA.torque_rate * DT * (1 + 1e-5)
    assert torques.diff(dim=0).abs().max() > 0.99 * PANDA.torque_rate * DT


def test_the_tool_is_slower_than_the_robot_allows() -> None:
    """1.7 m/s (Franka Control Interface documentation); actions from one corner to another."""
    robot = bench(32)
    g = torch.Generator().manual_seed(1)
    fastest = 0.0
    last = robot.tool.clone()
    for step in range(160):
        if step % 8 == 0:
            action = torch.where(torch.rand(32, 3, generator=g) < 0.5, -1.0, 1.0)
        go(robot, action)
        fastest = max(fastest, float((robot.tool - last).norm(dim=1).max()) / (K * DT))
        last.copy_(robot.tool)
    print("fastest", fastest)
    assert 0.8 < fastest < 1.7


# kinds of actions


def test_gravity_compensation_holds_still() -> None:
    robot = bench(8, "joint_torque")
    robot.reset(torch.arange(8), some_joints(8, 5))
    start = robot.goal.float()
    go(robot, torch.zeros(7), 400)
    assert (robot.tool - start).norm(dim=1).max() < 1e-4


@pytest.mark.parametrize("kind", ["cartesian", "pose", "impedance"])
def test_the_tool_goes_where_told(kind: str) -> None:
    robot = bench(6, kind)
    start = robot.tool.clone()
    turn = robot.rotation.clone()
    d = robot.spec.size - 1
    ways = torch.eye(6)[:, :d] if d == 6 else torch.cat((torch.eye(3), -torch.eye(3)))
    go(robot, 0.4 * ways, 16)
    go(robot, torch.zeros(d), 120 if kind != "impedance" else 320)  # its turns settle with a time of 0.7 s
    move = 16 * 0.4 * STEP * ways[:, :3]
    near = 1e-3 if kind != "impedance" else 2e-3
    assert (robot.tool - start - move).norm(dim=1).max() < near
    spin = 16 * 0.4 * ROTATION_STEP
    for i in range(6):
        want = turn[i]
        if d == 6 and i >= 3:
            c, s = math.cos(spin), math.sin(spin)
            j, k = (i - 2) % 3, (i - 1) % 3
            about = torch.eye(3)
            about[j, j] = about[k, k] = c
            about[j, k] = -s
            about[k, j] = s
            want = about @ want
        assert angle(robot.rotation[i : i + 1], want[None]) < (0.005 if kind != "impedance" else 0.02)


def test_joint_position() -> None:
    robot = bench(8, "joint_position")
    goal = some_joints(8, 6).float()
    low = torch.tensor(robot.spec.low[:7])
    high = torch.tensor(robot.spec.high[:7])
    go(robot, 2 * (goal - low) / (high - low) - 1, 160)
    assert (robot.pos - goal).abs().max() < 1e-3 and robot.vel.abs().max() < 1e-3
    go(robot, torch.tensor(robot.spec.neutral[:7]), 160)
    assert (robot.pos - HOME.float()).abs().max() < 1e-3


def test_joint_velocity_is_reached_and_ends_before_the_limits() -> None:
    robot = bench(14, "joint_velocity")
    robot.reset(torch.arange(14), torch.tensor((0.0, 0, 0, -1.6, 0, 1.8, 0)).expand(14, 7))
    share = torch.tensor([0.3, -0.3])[:, None, None] * torch.eye(7)
    go(robot, share.reshape(14, 7), 24)
    want = share.reshape(14, 7) * torch.tensor(PANDA.speed)
    moving = want != 0
    assert (robot.vel[moving] / want[moving] - 1).abs().max() < 0.02
    assert robot.vel[~moving].abs().max() < 0.01
    go(robot, torch.zeros(7), 40)
    assert robot.vel.abs().max() < 0.01
    go(robot, share.sign().reshape(14, 7), 280)
    assert (robot.pos > torch.tensor(LOWER)).all() and (robot.pos < torch.tensor(UPPER)).all()
    assert robot.reference[:, 1].abs().max() < 1e-3  # (some arms lie on the table by then)


def test_joint_torques_are_those_commanded() -> None:
    robot = bench(7, "joint_torque")
    go(robot, 0.05 * torch.eye(7), 10)
    assert torch.allclose(robot.actuators.force[:, :7], 0.05 * torch.diag(torch.tensor(TORQUE).float()), atol=1e-5)
    assert (robot.vel.diagonal() > 0.05).all()


def test_impedance_is_a_spring() -> None:
    robot = bench(3, "impedance")
    hand = robot.world.bodies(["panda/hand"])
    go(robot, torch.zeros(6), 100)
    rest = robot.tool.clone()
    push = torch.zeros(3, 1, 6)
    push[:, 0, :3] = 8.0 * torch.eye(3)
    # forces act at the hand's centre of mass: the moment that moves them to the tool
    data = robot.world.mj_data(0)
    arm = torch.tensor(data.body("panda/hand").xipos - data.site("panda/tcp").xpos, dtype=torch.float32)
    push[:, 0, 3:] = -torch.linalg.cross(arm.expand(3, 3), push[:, 0, :3])
    hand.set_wrench(push)
    go(robot, torch.zeros(6), 240)
    shift = robot.tool - rest
    assert torch.allclose(shift.diagonal(), torch.full((3,), 8.0 / STIFFNESS[0]), rtol=0.05)
    assert (shift - torch.diag(shift.diagonal())).abs().max() < 0.1 * 8.0 / STIFFNESS[0]
    assert robot.vel.abs().max() < 1e-3  # no limit cycle
    hand.set_wrench(torch.zeros(3, 1, 6))
    go(robot, torch.zeros(6), 240)
    assert (robot.tool - rest).norm(dim=1).max() < 1e-3 and robot.vel.abs().max() < 1e-3


def test_unknown_kinds() -> None:
    with pytest.raises(RookeryError, match="cartesian"):
        find_action("cartesain")
    assert all(bench(1, kind).spec.kind == kind for kind in action_kinds())


# long runs


def test_a_long_random_walk_comes_home() -> None:
    """The tool's goal wanders to corners of the box and beyond the arm's reach; back at its start, so are the joints."""
    low = torch.tensor((0.0, -0.9, 0.32))
    high = torch.tensor((1.1, 0.7, 1.1))
    robot = bench(12, box=(low.tolist(), high.tolist()))
    start = robot.goal.float().clone()
    g = torch.Generator().manual_seed(2)
    for _ in range(10):
        place = low + torch.rand(12, 3, generator=g) * (high - low)
        for _ in range(30):
            go(robot, ((place - robot.goal.float()) / STEP).clamp(-1, 1))
    for _ in range(240):
        go(robot, ((start - robot.goal.float()) / STEP).clamp(-1, 1))
    print("off", (robot.tool - start).norm(dim=1).max(), (robot.pos - HOME.float()).abs().max())
    assert (robot.tool - start).norm(dim=1).max() < 2e-3
    assert (robot.pos - HOME.float()).abs().max() < 0.1


def test_a_grasped_cube_does_not_slip() -> None:
    robot = bench(1, thing=True, integrator="discrete")
    world = robot.world
    cube = robot.world.bodies(["cube/base"])
    above = robot.goal.float().clone()
    state = torch.zeros(1, 1, 13)
    state[0, 0, :3] = torch.tensor((above[0, 0], above[0, 1], 0.02))
    state[0, 0, 3:7] = torch.tensor((math.cos(0.4), 0.0, 0.0, math.sin(0.4)))
    cube.set_state(torch.arange(1), state)
    world.forward()

    def move(place: Tensor, effort: float, steps: int) -> None:
        for _ in range(steps):
            a = ((place - robot.goal.float()) / STEP).clamp(-0.5, 0.5)
            robot.apply(torch.cat((a, torch.full((1, 1), effort)), 1))
            world.step(K)
            robot.refresh()

    low = above.clone()
    low[:, 2] = 0.02
    move(low, -1.0, 160)
    move(low, 1.0, 60)
    assert float(robot.opening) == pytest.approx(0.04, abs=1e-3)
    move(above, 1.0, 120)
    held = cube.pos[:, 0] - robot.tool
    assert float(cube.pos[0, 0, 2]) > 0.1
    move(above, 1.0, 240)
    print("slip", (cube.pos[:, 0] - robot.tool - held).norm())
    assert float((cube.pos[:, 0] - robot.tool - held).norm()) < 1e-3


@pytest.mark.parametrize("kind", action_kinds())
def test_a_resumed_run_is_the_same(kind: str) -> None:
    def act(robot: Manipulator, seed: int) -> None:
        g = torch.Generator().manual_seed(seed)
        for _ in range(12):
            robot.apply(torch.rand(3, robot.spec.size, generator=g) * 2 - 1)
            robot.world.step(K)
            robot.refresh()

    one = bench(3, kind)
    two = bench(3, kind)
    act(one, 0)
    two.load_state_dict(one.state_dict())
    two.world.restore(one.world.snapshot())
    two.refresh()
    act(one, 1)
    act(two, 1)
    assert torch.equal(one.pos, two.pos) and torch.equal(one.tool, two.tool) and torch.equal(one.grip, two.grip)


def test_few_worlds_take_few_threads_and_give_them_back():
    before = numba.get_num_threads()
    seen = []

    @few_threads
    def kernel(first):
        seen.append(numba.get_num_threads())
        raise ValueError

    for worlds in (1, 100_000):
        with pytest.raises(ValueError):
            kernel(np.zeros((worlds, 1)))
        assert numba.get_num_threads() == before
    assert seen == [1, before]
