"""The bundle is enough: a runtime of plain calls of its C flies, walks and reaches, and fails where the contract is wrong.

The plants are plain MuJoCo, stepped with rotor thrusts, joint torques or servo targets. Episodes begin where those of the
environments begin.
"""

from __future__ import annotations

import ast
import copy
import json
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from sampled import slow_but

import rookery
from rookery.experiments.runs import open_run
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim.terms import from_json
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.c import c_source, policy_arrays
from tests.sim2real import independent_runtime
from tests.sim2real.independent_runtime import Runtime, fill

Values = dict[str, Any]
Bundle = Callable[..., "Robot"]
Edit = Callable[[Values], None]
FORWARD = "commanded_velocity_forward_velocity_left_yaw_rate_to_the_left"


class Robot(Runtime):
    """The runtime with the names that the contract gives its motors and joints."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        contract = json.loads((folder / "contract.json").read_text())
        (group,) = contract["groups"].values()
        self.actuation = group["actuation"]
        self.dt = contract["control_dt"]
        self.substeps = self.sizes["LOOP_STEPS"]
        assert self.substeps == round(self.dt / self.actuation["period"])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The C of a policy of the zoo, by its contract or by one that was changed, compiled once."""
    folder = tmp_path_factory.mktemp("bundles")
    zoo: dict[str, Any] = {}

    def export(task: str, edit: Edit | None = None, name: str = "") -> Robot:
        out = folder / f"{task}{name}".replace(" ", "_")
        if task not in zoo:
            zoo[task] = open_run(Path(task))
        if not out.exists():
            out.mkdir()
            policies, contract = zoo[task]
            values = contract.to_json()
            if edit is not None:
                edit(values)
                said_again(values)
                contract = Contract.from_json(values)
            ((group, policy),) = policies.items()
            code, header = c_source(contract, group, policy_arrays(policy), "rookery", "policy.h")
            (out / "policy.c").write_text(code)
            (out / "policy.h").write_text(header)
            contract.write(out / "contract.json")
        return Robot(out)

    yield export
    shutil.rmtree(folder)


def said_again(values: Values) -> None:
    """The lines of terms that follow from expressions that were changed."""
    (group,) = values["groups"].values()
    for term in group["observation"]:
        e = from_json(term["expression"])
        term.update(unit=e.unit, frame=e.frame, formula=e.formula)


def start(task: str, seed: int, **config: Any) -> tuple[mujoco.MjModel, mujoco.MjData, Any]:
    """The model of a task, its data at the start of an episode, and the task."""
    env = rookery.make(task, 1, engine="mujoco", seed=seed, config=config)
    env.reset(seed=seed)
    data = env.mj_data(0)
    model = copy.copy(env.world.model)
    fresh = mujoco.MjData(model)
    fresh.qpos[:], fresh.qvel[:] = data.qpos, data.qvel
    mujoco.mj_forward(model, fresh)
    env.close()
    return model, fresh, env.task


def term(values: Values, name: str) -> Values:
    (group,) = values["groups"].values()
    return next(t for t in group["observation"] if t["name"] == name)


def actuation(values: Values) -> Values:
    (group,) = values["groups"].values()
    return group["actuation"]


def action(values: Values) -> Values:
    (group,) = values["groups"].values()
    return group["action"]


def test_the_runtime_imports_nothing_of_rookery() -> None:
    tree = ast.parse(Path(independent_runtime.__file__).read_text())
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module).split(".")[0])
    assert names - set(sys.stdlib_module_names) == {"numpy"}


# Flying


def hover(robot: Robot, seed: int, seconds: float = 5.0, mass: float = 1.0) -> float:
    """m, distance from the target after a flight with the mass times a factor; inf where the drone leaves the room."""
    model, data, task = start("drone-hover", seed)
    model.body("drone_0/base").mass *= mass
    mujoco.mj_setConst(model, mujoco.MjData(model))
    target = task.target[0, 0].double().numpy()
    drone = CRAZYFLIE_21  # the plant's motors, from the robot and not from the contract
    numbers = [int(r["name"].removeprefix("rotor_")) for r in robot.actuation["multirotor"]["rotors"]]
    places = [model.actuator(f"drone_0/rotor_{i}").id for i in numbers]
    reaction = model.actuator("drone_0/reaction").id
    base = model.body("drone_0/base").id
    directions = np.array([drone.directions[i - 1] for i in numbers])
    u = np.full(4, drone.hover_speed)
    robot.start()
    robot.call("start_loops", robot.loops)
    for _ in range(round(seconds / robot.dt)):
        command = robot.step(
            target=target, position=data.qpos[:3], rotation=data.qpos[3:7], velocity=data.qvel[:3],
            angular_velocity=data.qvel[3:6],
        )  # fmt: skip
        for _ in range(robot.substeps):
            fill(robot.sensed, {"angular_velocity": data.qvel[3:6]})
            wanted = robot.call("motors", robot.loops, robot.sensed, command, out=4)
            tau = np.where(wanted > u, drone.tau_up, drone.tau_down)
            u = wanted + (u - wanted) * np.exp(-model.opt.timestep / tau)
            data.ctrl[places] = np.polyval(drone.thrust_curve[::-1], u)
            data.ctrl[reaction] = np.dot(directions, np.polyval(drone.torque_curve[::-1], u))
            mujoco.mj_step(model, data)
        if np.linalg.norm(data.qpos[:3] - target) > 4.0:
            return math.inf
    return float(np.linalg.norm(data.xpos[base] - target))


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_hover(bundle: Bundle, seed: int) -> None:
    assert hover(bundle("drone-hover"), seed) < 0.05


def test_hover_with_memory(bundle: Bundle) -> None:
    """A policy with memory finds out that the drone is heavier; one without sags."""
    assert hover(bundle("drone-hover-gru"), 1, mass=1.3) < 0.03
    assert hover(bundle("drone-hover"), 1, mass=1.3) > 0.05


def swap(values: list[Any], i: int, j: int) -> None:
    values[i], values[j] = values[j], values[i]


def expression(name: str, change: Callable[[Values], Values]) -> Edit:
    return lambda values: term(values, name).update(expression=change(term(values, name)["expression"]))


def clocks_in(e: Any) -> list[Values]:
    """The clocks that an expression shows."""
    if isinstance(e, list):
        return [c for one in e for c in clocks_in(one)]
    if not isinstance(e, dict):
        return []
    return [e] if e.get("kind") == "clock" else [c for one in e.values() for c in clocks_in(one)]


def opposite(e: Values) -> Values:
    return {"kind": "scaled", "of": e, "factor": -1.0}


def unturned(e: Values) -> Values:
    """The same without the rotation into other axes."""
    return e["of"]


def turn_mixer(values: Values) -> None:
    for rotor in actuation(values)["multirotor"]["rotors"]:
        rotor["mix"][0] *= -1


def exchange_rotors(values: Values) -> None:
    first, second, *_ = actuation(values)["multirotor"]["rotors"]
    first["name"], second["name"] = second["name"], first["name"]


def no_damping(values: Values) -> None:
    actuation(values)["multirotor"]["loops"][0]["kd"] = [0.0, 0.0, 0.0]


HOVER_FAULTS: dict[str, Edit] = {
    "sign of position_error": expression("position_error", opposite),
    "frame of position_error": expression("position_error", unturned),
    "frame of the velocity": expression("linear_velocity", unturned),
    "frame of up": expression("up", unturned),
    "order of the action": lambda v: swap(action(v)["names"], 0, 1),
    "order of the rotors": exchange_rotors,
    "sign of the roll mixer": turn_mixer,
    "derivative of the rate loop": no_damping,
    "thrust curve": lambda v: actuation(v)["multirotor"].update(thrust_curve=[0.0, 0.0, 0.05]),
}


@pytest.mark.parametrize(
    "fault", slow_but(["order of the action", "frame of the velocity", "thrust curve"], HOVER_FAULTS)
)
def test_hover_notices(bundle: Bundle, fault: str) -> None:
    """A wrong line of the contract, and the drone does not come to its target in one of four flights."""
    robot = bundle("drone-hover", HOVER_FAULTS[fault], fault)
    assert any(hover(robot, seed) > 0.05 for seed in (1, 2, 3, 4))


# Walking


def walk(robot: Robot, seed: int, speed: float = 0.5, seconds: float = 5.0) -> float:
    """m/s, rms error of the horizontal velocity behind a low-pass of 0.2 s, after the first second; inf for a fall."""
    model, data, _ = start("go2-velocity", seed, start_yaw=0.0)
    # the torques of the bundle in place of the model's servos
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
    joints = [j["name"] for j in robot.actuation["joints"]]
    q = np.array([model.joint(f"go2/{n}").qposadr[0] for n in joints])
    v = np.array([model.joint(f"go2/{n}").dofadr[0] for n in joints])
    smooth, errors = np.zeros(2), []
    robot.start()
    fill(robot.sensed, {"angle": data.qpos[q], "velocity": data.qvel[v]})
    robot.call("start_loops", robot.loops, robot.sensed)
    for step in range(round((seconds + 1.0) / robot.dt)):
        command = robot.step(
            joint_angles=data.qpos[q], joint_velocities=data.qvel[v], rotation=data.qpos[3:7],
            angular_velocity=data.qvel[3:6], **{FORWARD: (speed, 0.0, 0.0)},
        )  # fmt: skip
        robot.call("take_command", robot.loops, robot.sensed, command)
        for _ in range(robot.substeps):
            fill(robot.sensed, {"angle": data.qpos[q], "velocity": data.qvel[v]})
            target = robot.call("targets", robot.loops, out=12)
            data.qfrc_applied[v] = robot.call("torques", robot.sensed, target, out=12)
            mujoco.mj_step(model, data)
        axes = data.xmat[model.body("go2/base").id].reshape(3, 3)
        if axes[2, 2] < 0.5 or data.qpos[2] < 0.15:
            return math.inf
        yaw = math.atan2(axes[1, 0], axes[0, 0])
        level = np.array([[math.cos(yaw), math.sin(yaw)], [-math.sin(yaw), math.cos(yaw)]]) @ data.qvel[:2]
        smooth += (level - smooth) * robot.dt / 0.2
        if step * robot.dt >= 1.0:
            errors.append(np.sum((smooth - (speed, 0.0)) ** 2))
    return math.sqrt(np.mean(errors))


@pytest.mark.parametrize("seed", [1, 2])
def test_walk(bundle: Bundle, seed: int) -> None:
    assert walk(bundle("go2-velocity"), seed) < 0.15


def bend_home(values: Values) -> None:
    for joint in actuation(values)["joints"]:
        joint["home"] *= -1.0


def soften(values: Values) -> None:
    for joint in actuation(values)["joints"]:
        joint["kp"] *= 0.4


WALK_FAULTS: dict[str, Edit] = {
    "home pose": bend_home,
    "sign of up": expression("up", opposite),
    "order of the action": lambda v: (swap(action(v)["names"], 0, 3), swap(action(v)["names"], 1, 4))[0],
    "stiffness": soften,
    "gait clock": lambda v: clocks_in(term(v, "gait"))[0].update(frequency=0.5),
}


@pytest.mark.parametrize("fault", slow_but(["gait clock", "stiffness"], WALK_FAULTS))
def test_walk_notices(bundle: Bundle, fault: str) -> None:
    assert walk(bundle("go2-velocity", WALK_FAULTS[fault], fault), 1) > 0.15


# Reaching


def reach(robot: Robot, seed: int, seconds: float = 6.25) -> float:
    """m, the least distance of the tool from its goal."""
    model, data, task = start("table-reach", seed)
    goal = task.target[0].double().numpy()
    mount = task.robot.name
    names = [f"{mount}/{j['name']}" for j in robot.actuation["joints"]]
    q = np.array([model.joint(n).qposadr[0] for n in names])
    v = np.array([model.joint(n).dofadr[0] for n in names])
    drives = [model.actuator(n).id for n in names]
    gripper = model.actuator(f"{mount}/{robot.actuation['gripper']['name']}").id
    fingers = [model.joint(f"{mount}/{n}").qposadr[0] for n in ("finger_left", "finger_right")]
    site = model.site(f"{mount}/{robot.actuation['tool_goal']['tool']}").id
    scratch = mujoco.MjData(model)

    def solve(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scratch.qpos[q] = angles
        mujoco.mj_kinematics(model, scratch)
        mujoco.mj_comPos(model, scratch)
        jacobian = np.zeros((6, model.nv))
        mujoco.mj_jacSite(model, scratch, jacobian[:3], jacobian[3:], site)
        return scratch.site_xpos[site].copy(), scratch.site_xmat[site].reshape(3, 3).copy(), jacobian[:, v]

    kinematics = robot.kinematics(solve)
    puck = model.jnt_qposadr[model.body("puck/base").jntadr[0]]
    least = math.inf
    robot.start()
    fill(robot.sensed, {"angle": data.qpos[q], "velocity": data.qvel[v]})
    robot.call("start_loops", robot.loops, robot.sensed, kinematics, None)
    for _ in range(round(seconds / robot.dt)):
        command = robot.step(
            tools_position=solve(data.qpos[q])[0], goals_position=goal, distance_between_the_fingers=data.qpos[fingers].sum(),
            first_objects_position=data.qpos[puck : puck + 3], second_objects_position=np.zeros(3),
            first_objects_rotation=data.qpos[puck + 3 : puck + 7], second_objects_rotation=np.zeros(4),
            q_1_where_there_is_a_first_object=1.0, q_1_where_there_is_a_second_object=0.0,
        )  # fmt: skip
        fill(robot.sensed, {"angle": data.qpos[q], "velocity": data.qvel[v]})
        robot.call("take_command", robot.loops, robot.sensed, kinematics, None, command)
        for _ in range(robot.substeps):
            data.ctrl[drives] = robot.call("targets", robot.loops, out=len(names))
            data.ctrl[gripper] = robot.loops.opening
            mujoco.mj_step(model, data)
        least = min(least, float(np.linalg.norm(solve(data.qpos[q])[0] - goal)))
    return least


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_reach(bundle: Bundle, seed: int) -> None:
    assert reach(bundle("table-reach"), seed) < 0.05


REACH_FAULTS: dict[str, Edit] = {
    "order of the action": lambda v: swap(action(v)["names"], 0, 1),
    "sign of the goal": expression("goal", opposite),
    "leash": lambda v: actuation(v)["tool_goal"].update(leash=0.0, lead=0.0),
    "box": lambda v: actuation(v)["tool_goal"].update(box=[[-0.01, 0.5, 0.0], [0.01, 0.52, 0.02]]),
}


@pytest.mark.parametrize("fault", slow_but(["leash"], REACH_FAULTS))
def test_reach_notices(bundle: Bundle, fault: str) -> None:
    robot = bundle("table-reach", REACH_FAULTS[fault], fault)
    assert any(reach(robot, seed) > 0.05 for seed in (1, 2, 3))
