"""The contract is enough: a runtime without Rookery flies, walks and reaches by it, and fails where the contract is wrong.

The plants are plain MuJoCo, stepped with rotor thrusts, joint torques or servo targets. Episodes begin where those of the
environments begin.
"""

from __future__ import annotations

import ast
import copy
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import rookery
from rookery.experiments.runs import open_run
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim2real.export.bundle import export_bundle
from tests.sim2real import independent_runtime
from tests.sim2real.independent_runtime import LegDrive, MotorDrive, Runtime, ToolDrive, Values, clocks_in

Bundle = Callable[[str], Path]
Edit = Callable[[Values], None]
COMMAND = "commanded velocity forward, velocity left, yaw rate to the left"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Folder of the bundle of a policy of the zoo, exported once."""
    folder = tmp_path_factory.mktemp("bundles")

    def export(task: str) -> Path:
        out = folder / task
        if not out.exists():
            policies, contract = open_run(Path(task))
            export_bundle(policies, contract, out)
        return out

    return export


def runtime_of(folder: Path, edit: Edit | None = None) -> Runtime:
    """The runtime of a bundle, with a contract that was changed."""
    values = copy.deepcopy(Runtime(folder).contract)
    if edit is not None:
        edit(values)
    return Runtime(folder, values)


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


def test_the_runtime_refuses_version_1(bundle: Bundle) -> None:
    with pytest.raises(ValueError, match="export the policy again with `rookery export`"):
        runtime_of(bundle("drone-hover"), lambda v: v.update(schema_version=1))


# Flying


def hover(runtime: Runtime, seed: int, seconds: float = 5.0, mass: float = 1.0) -> float:
    """m, distance from the target after a flight with the mass times a factor; inf where the drone leaves the room."""
    model, data, task = start("drone-hover", seed)
    model.body("drone_0/base").mass *= mass
    mujoco.mj_setConst(model, mujoco.MjData(model))
    target = task.target[0, 0].double().numpy()
    drive = MotorDrive(runtime.group)
    drone = CRAZYFLIE_21  # the plant's motors, from the robot and not from the contract
    places = [model.actuator(f"drone_0/rotor_{i}").id for i in (1, 2, 3, 4)]
    reaction = model.actuator("drone_0/reaction").id
    base = model.body("drone_0/base").id
    u = np.full(4, drone.hover_speed)
    for _ in range(round(seconds / runtime.contract["control_dt"])):
        command: dict[str, float] = {}
        for k in range(runtime.substeps):
            state = {
                "target": target, "position": data.qpos[:3], "rotation": data.qpos[3:7], "velocity": data.qvel[:3],
                "angular velocity": data.qvel[3:6],
            }  # fmt: skip
            if k == 0:
                command = runtime.act(state)
            motors = drive.step(command, state)
            wanted = np.array([motors[f"rotor_{i}"] for i in (1, 2, 3, 4)])
            tau = np.where(wanted > u, drone.tau_up, drone.tau_down)
            u = wanted + (u - wanted) * np.exp(-model.opt.timestep / tau)
            data.ctrl[places] = np.polyval(drone.thrust_curve[::-1], u)
            data.ctrl[reaction] = np.dot(drone.directions, np.polyval(drone.torque_curve[::-1], u))
            mujoco.mj_step(model, data)
        if np.linalg.norm(data.qpos[:3] - target) > 4.0:
            return math.inf
    return float(np.linalg.norm(data.xpos[base] - target))


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_hover(bundle: Bundle, seed: int) -> None:
    assert hover(runtime_of(bundle("drone-hover")), seed) < 0.05


def test_hover_with_memory(bundle: Bundle) -> None:
    """A policy with memory finds out that the drone is heavier; one without sags."""
    assert hover(runtime_of(bundle("drone-hover-gru")), 1, mass=1.3) < 0.03
    assert hover(runtime_of(bundle("drone-hover")), 1, mass=1.3) > 0.05


def swap(values: list[Any], i: int, j: int) -> None:
    values[i], values[j] = values[j], values[i]


def expression(name: str, change: Callable[[Values], Values]) -> Edit:
    return lambda values: term(values, name).update(expression=change(term(values, name)["expression"]))


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


@pytest.mark.parametrize("fault", HOVER_FAULTS)
def test_hover_notices(bundle: Bundle, fault: str) -> None:
    """A wrong line of the contract, and the drone does not come to its target in one of four flights."""
    runtime = [runtime_of(bundle("drone-hover"), HOVER_FAULTS[fault]) for _ in range(4)]
    assert max(hover(r, seed) for seed, r in enumerate(runtime, 1)) > 0.05


# Walking


def walk(runtime: Runtime, seed: int, speed: float = 0.5, seconds: float = 5.0) -> float:
    """m/s, rms error of the horizontal velocity behind a low-pass of 0.2 s, after the first second; inf for a fall."""
    model, data, _ = start("go2-velocity", seed, start_yaw=0.0)
    model.opt.disableflags |= (
        mujoco.mjtDisableBit.mjDSBL_ACTUATION
    )  # the runtime's torques in place of the model's servos
    joints = [j["name"] for j in runtime.group["actuation"]["joints"]]
    q = np.array([model.joint(f"go2/{n}").qposadr[0] for n in joints])
    dof = {n: model.joint(f"go2/{n}").dofadr[0] for n in joints}
    v = np.array(list(dof.values()))
    drive = LegDrive(runtime.group)
    dt = runtime.contract["control_dt"]
    smooth, errors = np.zeros(2), []
    for step in range(round((seconds + 1.0) / dt)):
        command: dict[str, float] = {}
        for k in range(runtime.substeps):
            state = {
                "joint angles": data.qpos[q], "joint velocities": data.qvel[v], "rotation": data.qpos[3:7],
                "angular velocity": data.qvel[3:6], COMMAND: (speed, 0.0, 0.0),
            }  # fmt: skip
            if k == 0:
                command = runtime.act(state)
            for name, torque in drive.step(command, state).items():
                data.qfrc_applied[dof[name]] = torque
            mujoco.mj_step(model, data)
        axes = independent_runtime.rotation(data.qpos[3:7])
        if axes[2, 2] < 0.5 or data.qpos[2] < 0.15:
            return math.inf
        yaw = math.atan2(axes[1, 0], axes[0, 0])
        level = np.array([[math.cos(yaw), math.sin(yaw)], [-math.sin(yaw), math.cos(yaw)]]) @ data.qvel[:2]
        smooth += (level - smooth) * dt / 0.2
        if step * dt >= 1.0:
            errors.append(np.sum((smooth - (speed, 0.0)) ** 2))
    return math.sqrt(np.mean(errors))


@pytest.mark.parametrize("seed", [1, 2])
def test_walk(bundle: Bundle, seed: int) -> None:
    assert walk(runtime_of(bundle("go2-velocity")), seed) < 0.15


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


@pytest.mark.parametrize("fault", WALK_FAULTS)
def test_walk_notices(bundle: Bundle, fault: str) -> None:
    assert walk(runtime_of(bundle("go2-velocity"), WALK_FAULTS[fault]), 1) > 0.15


# Reaching


def reach(runtime: Runtime, seed: int, seconds: float = 6.25) -> float:
    """m, the least distance of the tool from its goal."""
    model, data, task = start("table-reach", seed)
    goal = task.target[0].double().numpy()
    names = [f"panda/{j['name']}" for j in runtime.group["actuation"]["joints"]]
    mount = task.robot.name
    names = [n.replace("panda", mount) for n in names]
    q = np.array([model.joint(n).qposadr[0] for n in names])
    v = np.array([model.joint(n).dofadr[0] for n in names])
    fingers = [model.joint(f"{mount}/{n}").qposadr[0] for n in ("finger_left", "finger_right")]
    site = model.site(f"{mount}/{runtime.group['actuation']['tool_goal']['tool']}").id
    scratch = mujoco.MjData(model)

    def kinematics(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scratch.qpos[q] = angles
        mujoco.mj_kinematics(model, scratch)
        mujoco.mj_comPos(model, scratch)
        jacobian = np.zeros((6, model.nv))
        mujoco.mj_jacSite(model, scratch, jacobian[:3], jacobian[3:], site)
        return scratch.site_xpos[site].copy(), scratch.site_xmat[site].reshape(3, 3).copy(), jacobian[:, v]

    drive = ToolDrive(runtime.group, kinematics, data.qpos[q])
    puck = model.body("puck/base").jntadr[0]
    place = model.jnt_qposadr[puck]
    least = math.inf
    for _ in range(round(seconds / runtime.contract["control_dt"])):
        tool = kinematics(data.qpos[q])[0]
        state = {
            "tool's position": tool, "goal's position": goal, "distance between the fingers": data.qpos[fingers].sum(),
            "first object's position": data.qpos[place : place + 3], "second object's position": np.zeros(3),
            "first object's rotation": data.qpos[place + 3 : place + 7], "second object's rotation": np.zeros(4),
            "1 where there is a first object": 1.0, "1 where there is a second object": 0.0,
        }  # fmt: skip
        drive.command(runtime.act(state), state)
        for _ in range(runtime.substeps):
            for name, target in drive.step().items():
                data.ctrl[model.actuator(f"{mount}/{name}").id] = target
            mujoco.mj_step(model, data)
        least = min(least, float(np.linalg.norm(kinematics(data.qpos[q])[0] - goal)))
    return least


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_reach(bundle: Bundle, seed: int) -> None:
    assert reach(runtime_of(bundle("table-reach")), seed) < 0.05


REACH_FAULTS: dict[str, Edit] = {
    "order of the action": lambda v: swap(action(v)["names"], 0, 1),
    "sign of the goal": expression("goal", opposite),
    "leash": lambda v: actuation(v)["tool_goal"].update(leash=0.0, lead=0.0),
    "box": lambda v: actuation(v)["tool_goal"].update(box=[[-0.01, 0.5, 0.0], [0.01, 0.52, 0.02]]),
}


@pytest.mark.parametrize("fault", REACH_FAULTS)
def test_reach_notices(bundle: Bundle, fault: str) -> None:
    runtimes = [runtime_of(bundle("table-reach"), REACH_FAULTS[fault]) for _ in range(3)]
    assert max(reach(r, seed) for seed, r in enumerate(runtimes, 1)) > 0.05
