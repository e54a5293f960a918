"""From measured state to the network's input, in C: along a rollout it is what the task observes; and in closed loop the C does
what the Python policy does.

The struct is filled with quantities that the engine's state gives (`Task.measured`), never with observations. What the policy's
computer knows itself, its last action, its clocks, the step before and the frames of a history, the C has to keep.
"""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import torch

import rookery
from rookery.experiments.runs import open_run
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim.quantities import LAST_ACTION
from rookery.sim.specs import Group
from rookery.sim.terms.c import identifier
from rookery.sim2real.build import build_contract
from rookery.sim2real.export.state_c import StateC
from rookery.tasks.registry import TASKS
from tests.sim2real.independent_runtime import Runtime, fill
from tests.sim2real.native import small_policies, write_c

WORLDS = 2
STEPS = 10
OFTEN: list[tuple[str, dict[str, Any]]] = [
    ("drone-hover", {}), ("drone-track", {}), ("go2-velocity", {"terrain": "stairs", "history": 5}), ("panda-lift", {}),
    ("table-push", {"hide_goal": True}), ("volley-1v1", {}), ("swarm-surround", {}), ("hand-reorient", {}),
]  # fmt: skip
SETS = {name for name, entry in TASKS.items() if entry.members or entry.wrapper}
SELDOM: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in sorted(TASKS) if name not in SETS and (name, {}) not in OFTEN),
    ("table-reach", {"observation": "full"}), ("go2arm-loco-manipulation", {"history": 3}),
]  # fmt: skip


def name_of(case: tuple[str, dict[str, Any]]) -> str:
    return "-".join([case[0], *(f"{k}={v}" for k, v in case[1].items())])


class Seen:
    """One group's C beside its task: a runtime with a state and a controller for each agent of each world."""

    def __init__(self, env: Any, group: str, folder: Path) -> None:
        policies = small_policies(env)
        contract = build_contract(env, policies)
        self.spec: Group = env.groups[group]
        self.runtime = write_c(contract, policies, group, folder)
        self.state = StateC(contract, group, "rookery")
        states = [(i, a) for i in range(env.num_envs) for a in range(self.spec.count)]
        self.controllers = {at: type(self.runtime.controller)() for at in states}
        self.begun = dict.fromkeys(states, False)

    def begin(self, at: tuple[int, int], measured: dict[str, torch.Tensor]) -> None:
        """An episode starts: what training draws or puts there is told, see the header."""
        controller = self.controllers[at]
        self.runtime.call("start", controller)
        for name, clock in self.state.clocks.items():
            fill(controller, {name: measured[clock.name][at].numpy()})
        last = self.state.last_action
        if last is not None and last.initial not in ("0", "the neutral action"):
            fill(controller, {"last_action": measured[last.name][at].numpy()})

    def observe(self, at: tuple[int, int], measured: dict[str, torch.Tensor]) -> np.ndarray:
        state = self.runtime.state
        fill(state, {name: measured[q.name][at].numpy() for name, q in self.state.members.items()})
        size = self.runtime.sizes["POLICY_OBSERVATIONS"]
        return self.runtime.call("observe_state", self.controllers[at], state, out=size)

    def acted(self, at: tuple[int, int], action: np.ndarray) -> None:
        self.runtime.call("acted", self.controllers[at], self.runtime.state, action)


def allowed(spec: Group, measured: dict[str, torch.Tensor], wanted: np.ndarray) -> np.ndarray:
    """Of float32 computed in another order: some units in the last place of a value and of what it is made of, scaled."""
    out = []
    for t in spec.observation:
        most = max(
            (float(measured[q.name].abs().max()) for q in t.expression.leaves() if q.name in measured), default=1.0
        )
        out += [abs(t.effective_scale) * (4e-6 + 4e-7 * most)] * t.size
    return np.tile(out, spec.history) + 1e-5 * abs(wanted)


def compare(task_id: str, config: dict[str, Any], folder: Path) -> int:
    """Compare along random actions, over ends of episodes too; the number of compared observations."""
    env = rookery.make(task_id, WORLDS, seed=3, config=config)
    obs, _ = env.reset()
    seen = {group: Seen(env, group, folder / group) for group in env.groups}
    rng = torch.Generator().manual_seed(1)
    begun = torch.ones(WORLDS, dtype=torch.bool)
    count = 0
    for step in range(STEPS):
        measured = {g: {k: v.float().clone() for k, v in values.items()} for g, values in env.task.measured().items()}
        env.observe_terms()
        actions = {}
        for g, one in seen.items():
            measured[g] = {k: v.float().clone() for k, v in env.sensors.read(g).items()} | measured[g]
            shape = (WORLDS, one.spec.count, one.spec.action.size)
            actions[g] = torch.empty(shape).uniform_(-1.5, 1.5, generator=rng).clamp(-1.0, 1.0)
            for at in one.controllers:
                if begun[at[0]]:
                    one.begin(at, measured[g])
                got = one.observe(at, measured[g])
                if env.active is None or bool(env.active[g][at]):
                    wanted = obs[g][at].numpy().astype(float)
                    error = abs(got - wanted)
                    bad = error > allowed(one.spec, measured[g], wanted)
                    assert not bad.any(), (
                        f"{g}, step {step}: {_named(one.spec, int(bad.argmax()))} off by {error[bad][0]:.3g}"
                    )
                    count += 1
                one.acted(at, actions[g][at].numpy())
        if step == STEPS // 2:
            env.steps[:1] = env.max_episode_steps - 1  # one world begins anew
        obs = env.step(actions)[0]
        begun = env.episode_start.clone()
    env.close()
    return count


def _named(spec: Group, at: int) -> str:
    at %= spec.frame_size
    for t in spec.observation:
        if at < t.size:
            return t.name
        at -= t.size
    raise AssertionError


@pytest.mark.parametrize("case", OFTEN, ids=name_of)
def test_the_c_observes_what_the_task_does(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    assert compare(*case, tmp_path) >= WORLDS * STEPS


@pytest.mark.slow
@pytest.mark.parametrize("case", SELDOM, ids=name_of)
def test_the_c_observes_what_other_tasks_do(case: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    assert compare(*case, tmp_path) >= WORLDS * STEPS


def exported(task: str, folder: Path) -> tuple[Runtime, Any]:
    """The C of a policy of the zoo, and the policy."""
    policies, contract = open_run(Path(task))
    ((group, policy),) = policies.items()
    return write_c(contract, policies, group, folder), policy


def test_a_drone_flies_by_the_c_as_by_the_policy(tmp_path: Path) -> None:
    """From the simulated state to motor commands at 500 Hz, beside the policy and the simulated loops: in a plant that takes
    thrusts, step by step of the physics."""
    robot, policy = exported("drone-hover", tmp_path)
    quiet = {"effects": "none"}
    env = rookery.make("drone-hover", 1, engine="mujoco", seed=5, config=quiet)
    obs, _ = env.reset(seed=5)
    plant = rookery.make(
        "drone-hover", 1, engine="mujoco", config=quiet | {"action": "rotor_thrust", "control_dt": env.task.cfg.dt}
    )
    plant.reset()
    drones, bodies = plant.task.drones, plant.task.drones.bodies
    drones.reset(torch.arange(1), env.task.drones.bodies.state)
    target = env.task.target[0, 0].numpy()
    curve = np.poly1d(CRAZYFLIE_21.thrust_curve[::-1])
    robot.start()
    robot.call("start_loops", robot.loops)
    apart = []
    for _ in range(300):
        with torch.no_grad():
            obs = env.step({"drone": policy(obs["drone"])})[0]
        seen = {
            "position": bodies.pos,
            "rotation": bodies.quat,
            "velocity": bodies.lin_vel,
            "angular_velocity": bodies.ang_vel,
        }
        command = robot.step(target=target, **{name: value[0, 0].numpy() for name, value in seen.items()})
        for _ in range(robot.sizes["LOOP_STEPS"]):
            fill(robot.sensed, {"angular_velocity": bodies.ang_vel[0, 0].numpy()})
            motors = robot.call("motors", robot.loops, robot.sensed, command, out=4)
            thrust = torch.tensor(curve(motors), dtype=torch.float32)
            plant.step({"drone": drones.normalized(thrust)[None, None]})
        apart.append(float((bodies.pos - env.task.drones.bodies.pos).abs().max()))
    away = float((bodies.pos[0, 0] - env.task.target[0, 0]).norm())
    env.close()
    plant.close()
    assert away < 0.05, "it does not hover"
    assert max(apart) < 1e-4


def test_a_quadruped_walks_by_the_c_as_by_the_policy(tmp_path: Path) -> None:
    """From the simulated state to the targets of the joints' servos. Steps on the floor multiply roundings: they are small for
    a while, and then the robots still walk the same."""
    robot, policy = exported("go2-velocity", tmp_path)
    env = rookery.make("go2-velocity", 1, seed=2, config={"start_yaw": 0.0, "history": 5})
    obs, _ = env.reset(seed=2)
    model, data = env.world.model, mujoco.MjData(env.world.model)
    start = env.mj_data(0)
    data.qpos[:], data.qvel[:] = start.qpos, start.qvel
    contract = robot.sizes
    joints = [n.partition("/")[2] for n in env.task.robot.joint_names]
    q = np.array([model.joint(f"go2/{n}").qposadr[0] for n in joints])
    v = np.array([model.joint(f"go2/{n}").dofadr[0] for n in joints])
    drives = [model.actuator(f"go2/{n}").id for n in joints]
    robot.start()
    fill(robot.controller, {"gait_phase": env.task.phase.numpy()})
    fill(robot.sensed, {"angle": data.qpos[q], "velocity": data.qvel[v]})
    robot.call("start_loops", robot.loops, robot.sensed)
    command = identifier("commanded velocity forward, velocity left, yaw rate to the left")
    apart = []
    for _ in range(100):
        asked = env.task.command[0].numpy().copy()
        with torch.no_grad():
            obs = env.step({"robot": policy(obs["robot"])})[0]
        given = robot.step(
            joint_angles=data.qpos[q], joint_velocities=data.qvel[v], rotation=data.qpos[3:7],
            angular_velocity=data.qvel[3:6], **{command: asked},
        )  # fmt: skip
        robot.call("take_command", robot.loops, robot.sensed, given)
        data.ctrl[drives] = robot.call("targets", robot.loops, out=12)
        for _ in range(contract["LOOP_STEPS"]):
            mujoco.mj_step(model, data)
        apart.append(np.abs(data.qpos[:3] - env.mj_data(0).qpos[:3]).max())
    env.close()
    assert np.linalg.norm(data.qpos[:2] - start.qpos[:2]) > 0.3, "it does not walk"
    assert max(apart[:25]) < 1e-4 and max(apart) < 0.02


def test_a_step_with_a_number_that_is_none_begins_anew(tmp_path: Path) -> None:
    """The command is left, and the next step answers as an episode's first one: a NaN would stay in history and memory."""
    robot, _ = exported("go2-velocity", tmp_path)
    still = {"joint_angles": np.zeros(12), "joint_velocities": np.zeros(12), "rotation": (1.0, 0.0, 0.0, 0.0)}
    first = robot.step(**still)
    second = robot.step(**still)
    assert not np.array_equal(first, second), "history and last action count"
    for bad in (math.nan, math.inf):
        fill(robot.state, {"joint_angles": np.full(12, bad)})
        command = (ctypes.c_float * 12)(*[7.0] * 12)
        fine = robot.library.rookery_step(ctypes.byref(robot.controller), ctypes.byref(robot.state), command)
        if bad is math.nan:
            assert fine == 0 and list(command) == [7.0] * 12
            np.testing.assert_array_equal(robot.step(**still), first)
            robot.step(**still)


def test_what_the_last_action_was_is_what_was_carried_out(tmp_path: Path) -> None:
    """A filter between network and motors says so by `acted`; its action is clipped as in training."""
    env = rookery.make("drone-hover", 1)
    one = Seen(env, "drone", tmp_path)
    measured = env.task.measured()["drone"]
    at = (0, 0)
    one.begin(at, measured)
    neutral = one.observe(at, measured)[-4:]
    np.testing.assert_allclose(neutral, env.groups["drone"].action.neutral, atol=1e-6)
    one.acted(at, np.array([0.25, -0.5, 3.0, -3.0], np.float32))
    np.testing.assert_allclose(one.observe(at, measured)[-4:], [0.25, -0.5, 1.0, -1.0])
    assert LAST_ACTION in measured
    env.close()
