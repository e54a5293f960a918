"""The loops below the policy, in C, against the engines' own: what the simulated drives give, the bundle's C gives."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

import rookery
from rookery.robots.drones.actuation import drone_actuation
from rookery.robots.drones.drone import LEVELS, action_spec
from rookery.robots.drones.kernels import MEMORY_SIZE, MOTORS, cascade
from rookery.robots.drones.table import DRONES, find_drone
from rookery.robots.manipulators.impedance import ToolSpring, impedance
from rookery.robots.manipulators.references import ControlRows, follow
from rookery.robots.manipulators.tool_actions import NULL_SPACE
from rookery.sim.deployment import Deployment
from rookery.sim.multirotor.layout import type_row
from rookery.sim.quantities import POSITION
from rookery.sim.specs import ActionSpec, Group, Term
from rookery.sim2real.build import build_contract
from tests.sim2real.conftest import make_env
from tests.sim2real.independent_runtime import Runtime, fill
from tests.sim2real.native import runtimes

FLIGHTS = [(name, "ctbr", False) for name in sorted(DRONES)] + [
    ("crazyflie21", kind, yaw) for kind in LEVELS for yaw in (False, True) if (kind, yaw) != ("ctbr", False)
]


@pytest.mark.parametrize(("name", "kind", "yaw"), FLIGHTS)
def test_a_multirotors_loops_are_the_compiled_cascade(name: str, kind: str, yaw: bool, tmp_path: Path) -> None:
    """Commands and states at random, sums and derivatives included, into saturation."""
    drone = find_drone(name)
    action = action_spec(drone, kind)
    deployment = Deployment(actuation={"drone": drone_actuation(drone, kind, 0.002, yaw)}, physics_dt=0.002)
    env = make_env(deployment, drone=Group(1, (Term("position", POSITION),), action))
    robot = runtimes(env, tmp_path)["drone"]
    rng = np.random.default_rng(0)
    memory = np.zeros((1, MEMORY_SIZE), np.float64)
    constants = np.array(type_row(drone, yaw))
    state = np.zeros((1, 13))
    robot.call("start_loops", robot.loops)
    low, high = np.array(action.low), np.array(action.high)
    saturated = 0
    for _ in range(200):
        state[0, :3] += rng.normal(0.0, 0.05, 3)
        state[0, 3:7] = _turned(
            state[0, 3:7] if state[0, 3:7].any() else np.array([1.0, 0, 0, 0]), rng.normal(0.0, 0.05, 3)
        )
        state[0, 7:13] += rng.normal(0.0, 0.1, 6)
        command = np.float32(rng.uniform(low, high)).astype(float)
        setpoint = command[None].copy()
        if kind == "rotor_thrust":
            setpoint[0] = [_speed(thrust, drone.thrust_curve) for thrust in command]
        else:
            cascade(LEVELS[kind], MOTORS, state, setpoint, memory, constants, 0.002)
        measured = {"position": state[0, :3], "rotation": state[0, 3:7], "velocity": state[0, 7:10],
                    "angular_velocity": state[0, 10:13]}  # fmt: skip
        fill(robot.sensed, {k: v for k, v in measured.items() if hasattr(robot.sensed, k)})
        got = robot.call("motors", robot.loops, robot.sensed, command, out=4)
        np.testing.assert_allclose(got, setpoint[0], atol=2e-4)
        saturated += got.max() == 1.0 or got.min() == 0.0
    assert saturated > 10 or kind == "rotor_thrust"


@pytest.mark.parametrize("lag", [True, False])
def test_rotors_without_lag_have_no_time_constants(lag: bool) -> None:
    for drone in DRONES.values():
        craft = drone_actuation(drone, "ctbr", 0.002, rotor_lag=lag).multirotor
        assert craft is not None
        assert (craft.tau_up, craft.tau_down) == ((drone.tau_up, drone.tau_down) if lag else (0.0, 0.0))
        assert min(drone.tau_up, drone.tau_down) > 0.0


def _turned(q: np.ndarray, by: np.ndarray) -> np.ndarray:
    out = np.zeros(4)
    turn = np.zeros(4)
    mujoco.mju_axisAngle2Quat(turn, by / np.linalg.norm(by), np.linalg.norm(by))
    mujoco.mju_mulQuat(out, q, turn)
    return out


def _speed(thrust: float, curve: tuple[float, float, float]) -> float:
    """The root of the thrust curve, by NumPy."""
    roots = np.roots([curve[2], curve[1], curve[0] - thrust])
    return float(np.clip(roots.real.max(), 0.0, 1.0))


def test_loops_that_do_not_fit_the_action_are_not_written(tmp_path: Path) -> None:
    """The header says why, and the rest of the policy is there."""
    drone = find_drone("crazyflie21")
    action = ActionSpec("mine", ("a", "b"), (0.0, 0.0), (1.0, 1.0), ("1", "1"), (0.0, 0.0))
    deployment = Deployment(actuation={"drone": drone_actuation(drone, "ctbr", 0.002)}, physics_dt=0.002)
    robot = runtimes(make_env(deployment, drone=Group(1, (Term("position", POSITION),), action)), tmp_path)["drone"]
    assert robot.loops is None
    assert (
        "No loops below the policy: the action of kind mine has no component roll_rate"
        in (tmp_path / "drone" / "policy.h").read_text()
    )
    assert robot.step(position=(1.0, 2.0, 3.0)).shape == (2,)


def servo_torques(robot: Runtime, task: str, prefix: str, spread: float, speed: float, seed: int) -> tuple[Any, Any]:
    """Torques by the C and by MuJoCo at a random state with random targets."""
    env = rookery.make(task, 1)
    (group,) = build_contract(env).to_json()["groups"].values()
    model = env.world.model
    env.close()
    joints = group["actuation"]["joints"]
    rng = np.random.default_rng(seed)
    data = mujoco.MjData(model)
    ids = [model.joint(f"{prefix}/{j['name']}") for j in joints]
    drives = [model.actuator(f"{prefix}/{j['name']}").id for j in joints]
    q = np.array([rng.uniform(j["lower"], j["upper"]) for j in joints])
    dq = rng.uniform(-speed, speed, len(joints))
    target = np.clip(q + rng.uniform(-spread, spread, len(q)), *([j[k] for j in joints] for k in ("lower", "upper")))
    q, dq, target = (np.float32(x).astype(float) for x in (q, dq, target))
    for i, joint in enumerate(ids):
        data.qpos[joint.qposadr[0]], data.qvel[joint.dofadr[0]], data.ctrl[drives[i]] = q[i], dq[i], target[i]
        np.testing.assert_array_equal(joint.axis, joints[i]["axis"])
    mujoco.mj_forward(model, data)
    fill(robot.sensed, {"angle": q, "velocity": dq})
    return robot.call("torques", robot.sensed, target, out=len(q)), data.actuator_force[drives]


@pytest.mark.parametrize(
    ("task", "prefix", "spread", "speed"),
    [
        ("go2-velocity", "go2", 1.5, 40.0),
        ("table-reach", "panda", 0.01, 0.02),
        ("hand-grasp", "hand", 0.3, 2.0),
        ("hand-reorient", "hand", 0.3, 2.0),
    ],
)
def test_servos_are_mujoco_s(task: str, prefix: str, spread: float, speed: float, tmp_path: Path) -> None:
    env = rookery.make(task, 1)
    (robot,) = runtimes(env, tmp_path).values()
    env.close()
    for seed in range(5):
        wanted, given = servo_torques(robot, task, prefix, spread, speed, seed)
        np.testing.assert_allclose(wanted, given, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("task", ["hand-grasp", "hand-reorient"])
def test_slow_targets_are_the_hands(task: str, tmp_path: Path) -> None:
    """Targets that move no faster than their joints, within their leash, step by step beside the task's."""
    env = rookery.make(task, 1, seed=1)
    env.reset()
    hand = env.task.hand
    (robot,) = runtimes(env, tmp_path).values()
    count = len(robot.sensed.angle)
    rng = np.random.default_rng(2)
    for step in range(15):
        angle = hand.joints.pos[0, :count].numpy().copy()
        fill(robot.sensed, {"angle": angle, "velocity": np.zeros(count)})
        if step == 0:
            robot.call("start_loops", robot.loops, robot.sensed)
            fill(robot.loops, {"wanted": hand.target[0, :count].numpy()})
        action = np.float32(rng.uniform(-1.0, 1.0, (1, 1, count)))
        env.step({next(iter(env.groups)): torch.from_numpy(action)})
        command = robot.call("command", action.reshape(-1), out=count)
        robot.call("take_command", robot.loops, robot.sensed, command)
        np.testing.assert_allclose(
            robot.call("targets", robot.loops, out=count), hand.target[0, :count].numpy(), atol=2e-6
        )
    env.close()


def arm_env(kind: str) -> Any:
    env = rookery.make("panda-lift", 1, seed=4, config={"action": kind})
    env.reset()
    return env


def kinematics_of(arm: Any, robot: Runtime) -> Any:
    """The arm's kinematics by MuJoCo."""
    model = arm.world.model
    data = mujoco.MjData(model)
    q = np.array([model.joint(n).qposadr[0] for n in arm.joint_names])
    v = np.array([model.joint(n).dofadr[0] for n in arm.joint_names])
    site = model.site(f"{arm.name}/{arm.model.tool}").id

    def solve(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        data.qpos[q] = angles
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        jacobian = np.zeros((6, model.nv))
        mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], site)
        return data.site_xpos[site].copy(), data.site_xmat[site].copy(), jacobian[:, v]

    return robot.kinematics(solve)


@pytest.mark.parametrize("kind", ["cartesian", "pose", "impedance"])
def test_goals_of_a_tool_are_the_arms(kind: str, tmp_path: Path) -> None:
    """The tool's goal, its rotation and the joints' goals, one control step after the other beside the simulated arm."""
    env = arm_env(kind)
    arm = env.task.robot
    (robot,) = runtimes(env, tmp_path).values()
    kinematics = kinematics_of(arm, robot)
    rng = np.random.default_rng(0)
    fill(robot.sensed, {"angle": arm.pos[0].numpy(), "velocity": arm.vel[0].numpy()})
    robot.call("start_loops", robot.loops, robot.sensed, kinematics, None)
    np.testing.assert_allclose(list(robot.loops.goal), arm.goal[0].numpy(), atol=1e-5)
    for _ in range(25):
        fill(robot.sensed, {"angle": arm.pos[0].numpy(), "velocity": arm.vel[0].numpy()})
        given = {"goal": arm.goal[0].numpy(), "goal_matrix": arm.goal_rotation[0].numpy()}
        if kind != "impedance":
            given |= {"wanted": arm.joint_goal[0].numpy(), "reference": arm.reference[0, 0].numpy()}
        fill(robot.loops, given)
        action = np.float32(rng.uniform(-1.0, 1.0, (1, 1, env.groups["arm"].action.size)))
        action[..., 0] = 1.0  # away, into the leash
        env.step({"arm": torch.from_numpy(action)})
        command = robot.call("command", action.reshape(-1), out=action.size)
        robot.call("take_command", robot.loops, robot.sensed, kinematics, None, command)
        np.testing.assert_allclose(list(robot.loops.goal), arm.goal[0].numpy(), atol=2e-6)
        np.testing.assert_allclose(list(robot.loops.goal_matrix), arm.goal_rotation[0].numpy().reshape(-1), atol=2e-6)
        assert robot.loops.opening == pytest.approx(float(arm.grip[0]), abs=1e-7)
        if kind != "impedance":
            np.testing.assert_allclose(list(robot.loops.wanted), arm.joint_goal[0].numpy(), atol=2e-5)
    env.close()


@pytest.mark.parametrize("kind", ["joint_position", "joint_velocity"])
def test_references_are_the_arms_without_its_masses(kind: str, tmp_path: Path) -> None:
    """Position, velocity and acceleration at every physics step, on the way to goals near and far."""
    env = arm_env(kind)
    arm = env.task.robot
    (robot,) = runtimes(env, tmp_path).values()
    limits, chain, dynamics, controls = arm.motion()
    free = limits._replace(torque=np.full(7, math.inf), rate=math.inf)
    rows = np.zeros((1, 1, controls.rows.shape[2]))
    reference = arm.reference.numpy().copy()
    fill(robot.sensed, {"angle": reference[0, 0], "velocity": np.zeros(7)})
    robot.call("start_loops", robot.loops, robot.sensed)
    rng = np.random.default_rng(1)
    moved = 0.0
    for step in range(600):
        if step % 60 == 0:
            reach = 10.0 ** rng.uniform(-4.0, 0.5)
            goal = np.clip(reference[0, 0] + reach * rng.uniform(-1, 1, 7), arm.lower, arm.upper)
            if kind == "joint_velocity":
                goal = rng.uniform(-1.0, 1.0, 7) * limits.speed
            fill(robot.loops, {"wanted": goal})
            fill(robot.loops, {"reference": reference[0, 0], "speed": reference[0, 1], "acceleration": reference[0, 2]})
        together = kind == "joint_position"
        follow(goal[None].copy(), reference, together, free, chain, dynamics, ControlRows(controls.grip, rows))
        target = robot.call("targets", robot.loops, out=7)
        np.testing.assert_allclose(list(robot.loops.reference), reference[0, 0], atol=3e-5)
        np.testing.assert_allclose(list(robot.loops.speed), reference[0, 1], atol=2e-3)
        np.testing.assert_allclose(target, rows[0, 0, :7], atol=1e-4)
        moved = max(moved, float(abs(reference[0, 1] / limits.speed).max()))
    assert moved > 0.5, "it never came near its limits"
    env.close()


def test_torques_follow_their_commands_within_the_rate(tmp_path: Path) -> None:
    env = arm_env("joint_torque")
    arm = env.task.robot
    (robot,) = runtimes(env, tmp_path).values()
    robot.call("start_loops", robot.loops, robot.sensed)
    rng = np.random.default_rng(3)
    for _ in range(8):
        action = np.float32(rng.uniform(-1.0, 1.0, (1, 1, 8)))
        arm.apply(torch.from_numpy(action[:, 0]))
        command = robot.call("command", action.reshape(-1), out=8)
        robot.call("take_command", robot.loops, robot.sensed, command)
        for k in range(arm.steps):
            got = robot.call("torques", robot.loops, out=7)
            np.testing.assert_allclose(got, arm.rows[0, k, :7].numpy(), atol=1e-3)
    env.close()


def test_springs_pull_the_tool_as_in_training(tmp_path: Path) -> None:
    env = arm_env("impedance")
    arm = env.task.robot
    (robot,) = runtimes(env, tmp_path).values()
    kinematics = kinematics_of(arm, robot)
    rng = np.random.default_rng(5)
    last = np.zeros((1, 7))
    out = np.zeros((1, 8))
    spring = ToolSpring(
        arm.home.numpy(), arm.action_state["stiffness"].numpy(), arm.action_state["damping"].numpy(), *NULL_SPACE,
        np.array(arm.model.torque, float), arm.model.torque_rate * arm.world.dt,
    )  # fmt: skip
    q = arm.pos.numpy()  # in single precision, as the task has them: no kernel is compiled for this test alone
    fill(robot.sensed, {"angle": q[0], "velocity": np.zeros(7)})
    robot.call("start_loops", robot.loops, robot.sensed, kinematics, None)
    for _ in range(20):
        q = q + np.float32(rng.normal(0.0, 0.02, q.shape))
        v = np.float32(rng.normal(0.0, 0.3, q.shape))
        impedance(q, v, arm.goal.numpy(), arm.goal_rotation.numpy(), arm.chain, spring, last, out)
        fill(robot.sensed, {"angle": q[0], "velocity": v[0]})
        got = robot.call("torques", robot.loops, robot.sensed, kinematics, None, out=7)
        np.testing.assert_allclose(got, out[0, :7], rtol=1e-3, atol=5e-3)
    env.close()


def test_an_arm_on_a_quadruped_follows_the_legs() -> None:
    """Names, order and numbers of all 18 joints, and of one agent for each part."""
    env = rookery.make("go2arm-reach", 1)
    (whole,) = build_contract(env).groups.values()
    env.close()
    parts = rookery.make("go2arm-reach", 1, config={"agents": "parts"})
    split = build_contract(parts).groups
    parts.close()
    assert whole.actuation is not None
    assert whole.actuation.actuators == whole.spec.action.names
    legs, arm = split["legs"].actuation, split["arm"].actuation
    assert legs is not None and arm is not None
    assert legs.joints + arm.joints == whole.actuation.joints
    assert [j.no_load_speed is None for j in whole.actuation.joints] == [False] * 12 + [True] * 6
