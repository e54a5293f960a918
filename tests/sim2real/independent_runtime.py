"""A runtime that somebody could write who has a bundle and not Rookery: numpy and ctypes on the exported C, and contract.json.

It imports nothing of Rookery (tested). Formulas of observation terms are read as text, so that what they say about signs,
frames and clocks is what happens; rate loops, servos and integrated goals run by the numbers of the contract's `actuation`.

    runtime = Runtime(bundle)                 # a folder with contract.json, policy.c and policy.h
    drive = MotorDrive(runtime.group)         # or LegDrive, ToolDrive
    command = runtime.act(state)              # once a control step; state: measurements by name
    motors = drive.step(command, state)       # every `period` s
"""

from __future__ import annotations

import ctypes
import json
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Values = dict[str, Any]
Vector = np.ndarray


def rotation(quat: Vector) -> Vector:
    """[3, 3] body to world from a quaternion w, x, y, z."""
    w, x, y, z = quat
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


class Network:
    """The policy's C functions; one with memory keeps its state, from an episode's start on."""

    def __init__(self, folder: Path) -> None:
        library = folder.with_suffix(".so")
        if not library.exists():
            subprocess.run(
                ["gcc", "-std=c99", "-O2", "-shared", "-fPIC", "-o", library, folder / "policy.c", "-lm"], check=True
            )
        header = (folder / "policy.h").read_text()
        name = re.search(r"^void (\w+_policy)\(", header, re.M)[1]
        self.size = int(re.search(r"_POLICY_ACTIONS (\d+)", header)[1])
        memory = re.search(r"_POLICY_MEMORY (\d+)", header)
        self.memory = None if memory is None else np.full(int(memory[1]), np.nan, np.float32)
        functions = ctypes.CDLL(str(library))
        self._call = getattr(functions, name)
        self._call.argtypes = [ctypes.c_void_p] * (2 if memory is None else 3)
        self._call.restype = None
        if memory is not None:
            self._reset = getattr(functions, name.removesuffix("policy") + "reset")
            self._reset.argtypes = [ctypes.c_void_p]
            self._reset.restype = None
        self.reset()

    def reset(self) -> None:
        """Begin an episode."""
        if self.memory is not None:
            self._reset(self.memory.ctypes.data)

    def __call__(self, obs: Vector) -> Vector:
        x = np.ascontiguousarray(obs, np.float32)
        out = np.empty(self.size, np.float32)
        memory = [] if self.memory is None else [self.memory.ctypes.data]
        self._call(x.ctypes.data, *memory, out.ctypes.data)
        return out.astype(float)


class Clock:
    """A phase in [0, 1) that runs while the contract says so, such as "while the largest of |vx| / 1, |yaw rate| / 0.8 of the
    command is above 0.05"."""

    def __init__(self, values: Values, control_dt: float) -> None:
        self.step = values["frequency"] * control_dt
        self.phase = values["start"][0]
        self.limits = [float(x) for x in re.findall(r"\| / ([\d.]+)", values["runs"])]
        self.least = float(re.search(r"above ([\d.]+)", values["runs"])[1])

    def runs(self, command: Vector) -> bool:
        return bool(max(abs(c) / limit for c, limit in zip(command, self.limits, strict=True)) > self.least)

    def read(self, command: Vector) -> Vector:
        angle = 2.0 * math.pi * self.phase
        return np.array([math.sin(angle), math.cos(angle)]) * self.runs(command)

    def tick(self, command: Vector) -> None:
        if self.runs(command):
            self.phase = (self.phase + self.step) % 1.0


class Observer:
    """The raw values of the terms, by their formulas.

    Quantities are measurements in `state`, vectors in world axes: "position", "velocity", "tool's position" ...; "angular
    velocity" is measured in body axes. Sums and differences of them are rotated to the axes that the formula names.
    """

    def __init__(self, group: Values, control_dt: float) -> None:
        self.terms = group["observation"]
        self.home = np.array([j["home"] for j in group["actuation"]["joints"]])
        self.neutral = np.array(group["action"]["neutral"])
        self.last_action = self.neutral
        self.before: dict[str, Vector] = {}
        self.history = self.terms[0]["history"]
        assert self.history == 1 or group["frames"].endswith("an episode's first frame stands for the ones before it")
        self.frames: list[Vector] = []
        clocks = [t["clock"] for t in self.terms if "clock" in t]
        self.clock = Clock(clocks[0], control_dt) if clocks else None

    def observe(self, state: Values) -> Vector:
        parts = []
        for term in self.terms:
            raw = self.term(term, state)
            assert raw.shape == (term["size"],), f"{term['name']} has {raw.shape}"
            clip = math.inf if term["clip"] is None else term["clip"]
            parts.append(np.clip(raw * term["scale"], -clip, clip))
        frame = np.concatenate(parts)
        self.frames = [*(self.frames or [frame] * self.history)[1:], frame]
        return np.concatenate(self.frames)

    def term(self, term: Values, state: Values) -> Vector:
        formula = term["formula"]
        if match := re.fullmatch(r"the same a step before: (.*)", formula):
            now = self.value(match[1], state)
            assert term["initial"] == "the value now"
            out = self.before.get(term["name"], now)
            self.before[term["name"]] = now
            return out
        if formula.startswith("commanded action of the step before"):
            assert term["initial"] == "the neutral action"
            return self.last_action
        if formula.startswith("sin, cos of 2 pi phase"):
            assert self.clock is not None
            return self.clock.read(state["command"])
        return self.value(formula, state)

    def value(self, formula: str, state: Values) -> Vector:
        formula = formula.partition(";")[0]
        if formula.startswith("commanded velocity forward, velocity left, yaw rate to the left"):
            return np.asarray(state["command"], float)
        if match := re.fullmatch(r"distance between the fingers / ([\d.]+) m, at most 1", formula):
            return np.clip([state["opening"] / float(match[1])], 0.0, 1.0)
        if match := re.fullmatch(r"(\w+) object's position, then quaternion w, x, y, z, world axes", formula):
            return np.array(state["objects"][("first", "second").index(match[1])], float)
        expression, _, axes = formula.rpartition(", ") if formula.endswith(" axes") else (formula, "", "")
        total = np.zeros(1)
        sign = 1.0
        for token in re.split(r" ([+-]) ", expression):
            if token in "+-":
                sign = 1.0 if token == "+" else -1.0
            else:
                total = total + sign * self.quantity(token, state)
        if not axes:
            return total
        frame = rotation(state["quaternion"]).T if axes == "body axes" else np.eye(3)
        assert axes in ("body axes", "world axes"), axes
        return frame @ total

    def quantity(self, name: str, state: Values) -> Vector:
        if name == "home":
            return self.home
        if name == "world's z axis":
            return np.array([0.0, 0.0, 1.0])
        if name == "angular velocity":
            return rotation(state["quaternion"]) @ state["angular velocity"]
        if match := re.fullmatch(r"\(([\d., -]+)\) m", name):
            return np.array([float(x) for x in match[1].split(",")])
        return np.asarray(state[name], float)


class Runtime:
    """A policy of one group: measurements in, physical commands by name out.

    Args:
        folder: of the bundle. contract: in place of the one in the folder.
    """

    def __init__(self, folder: Path, contract: Values | None = None) -> None:
        self.contract = json.loads((folder / "contract.json").read_text()) if contract is None else contract
        if self.contract["schema_version"] != 3:
            raise ValueError(
                "this runtime reads contracts of version 3: export the policy again with `rookery export`."
            )
        (self.group,) = self.contract["groups"].values()
        self.network = Network(folder)
        self.observer = Observer(self.group, self.contract["control_dt"])
        self.substeps = round(self.contract["control_dt"] / self.group["actuation"]["period"])

    def act(self, state: Values) -> dict[str, float]:
        """One control step."""
        action = np.clip(self.network(self.observer.observe(state)), -1.0, 1.0)
        self.observer.last_action = action
        if self.observer.clock is not None:
            self.observer.clock.tick(state["command"])
        spec = self.group["action"]
        low, high = np.array(spec["low"]), np.array(spec["high"])
        return dict(zip(spec["names"], low + 0.5 * (action + 1.0) * (high - low), strict=True))


class MotorDrive:
    """The rate loop and the mixer of a multirotor: commands of rates and collective thrust to motor commands in [0, 1]."""

    def __init__(self, group: Values) -> None:
        self.craft = group["actuation"]["multirotor"]
        self.dt = group["actuation"]["period"]
        (self.loop,) = self.craft["loops"]
        assert self.loop["name"] == "rate" and not self.craft["integrated_yaw"]
        self.total = np.zeros(3)
        self.rate: Vector | None = None

    def step(self, command: dict[str, float], state: Values) -> dict[str, float]:
        """Motor commands by rotor, every `period` s."""
        g = {k: np.array(v) for k, v in self.loop.items() if k not in ("name", "units")}
        wanted = np.array([command["roll_rate"], command["pitch_rate"], command["yaw_rate"]])
        rate = np.array(state["angular velocity"], float)
        error = wanted - rate
        self.total = np.clip(self.total + error * self.dt, -g["integral_limit"], g["integral_limit"])
        slope = np.zeros(3) if self.rate is None else (rate - self.rate) / self.dt
        self.rate = rate
        out = g["kp"] * error + g["ki"] * self.total - g["kd"] * slope
        out = np.clip(out, -g["output_limit"], g["output_limit"])
        base = self.speed_for(0.25 * command["collective_thrust"])
        u = np.array([base + np.dot(rotor["mix"], out) for rotor in self.craft["rotors"]])
        u = np.clip(u - max(u.max() - 1.0, 0.0), 0.0, 1.0)
        return dict(zip((r["name"] for r in self.craft["rotors"]), u, strict=True))

    def speed_for(self, thrust: float) -> float:
        """Inverse of the thrust curve."""
        t0, t1, t2 = self.craft["thrust_curve"]
        root = math.sqrt(max(t1 * t1 + 4.0 * t2 * (thrust - t0), 0.0))
        return min(max((root - t1) / (2.0 * t2), 0.0), 1.0)


class LegDrive:
    """Joint servos: targets to torques."""

    def __init__(self, group: Values) -> None:
        self.joints = group["actuation"]["joints"]

    def step(self, command: dict[str, float], state: Values) -> dict[str, float]:
        """Torques in N m by joint, every `period` s; state: "joint angle" and "joint velocity" in the joints' order."""
        out = {}
        for joint, q, dq in zip(self.joints, state["joint angle"], state["joint velocity"], strict=True):
            most = joint["torque"]
            torque = joint["kp"] * (command[joint["name"]] - q) - joint["kd"] * dq
            high, low = most, -most
            if joint["no_load_speed"] is not None:
                high = np.clip(most * (1.0 - dq / joint["no_load_speed"]), -most, most)
                low = np.clip(-most * (1.0 + dq / joint["no_load_speed"]), -most, most)
            out[joint["name"]] = float(np.clip(torque, low, high))
        return out


Kinematics = Callable[[Vector], tuple[Vector, Vector, Vector]]
"""Joint angles [J] to the tool's place [3] m, its rotation [3, 3] and its Jacobian [6, J], world: the robot maker's."""


class ToolDrive:
    """The integrated goal of a tool, inverse kinematics and joint references: increments to targets of joint servos.

    Speed and acceleration limits of the references are kept by each joint alone; jerk and torque limits are left to the robot.
    """

    def __init__(self, group: Values, kinematics: Kinematics, angles: Vector) -> None:
        a = group["actuation"]
        self.goal_spec, self.limits, self.gripper = a["tool_goal"], a["references"], a["gripper"]
        self.names = [j["name"] for j in a["joints"]]
        self.low, self.high = (np.array([j[k] for j in a["joints"]]) for k in ("lower", "upper"))
        self.dt = a["period"]
        self.kinematics = kinematics
        self.q = np.array(angles, float)  # joint goals
        self.reference, self.speed = self.q.copy(), np.zeros_like(self.q)
        self.goal, self.goal_rotation, _ = kinematics(self.q)
        self.opening = self.gripper["start"]

    def command(self, command: dict[str, float], state: Values) -> None:
        """Once a control step: move the goal and the joint goals; state: "tool's position"."""
        spec = self.goal_spec
        assert spec["frame"] == "world" and spec["rotation_leash"] is None
        move = np.array([command[f"tool_{axis}"] for axis in "xyz"])
        ahead = self.goal - self.kinematics(self.reference)[0]
        part = 1.0
        for m, a in zip(move, ahead, strict=True):
            forward = a if m >= 0.0 else -a
            if forward + part * abs(m) > spec["lead"]:
                part = max(spec["lead"] - forward, 0.0) / abs(m)
        tool = state["tool's position"]
        goal = np.clip(self.goal + part * move, tool - spec["leash"], tool + spec["leash"])
        self.goal = np.clip(goal, *np.array(spec["box"]))
        self._solve(spec)
        width = command["gripper_closing"] / (self.gripper["open"] - self.gripper["closed"])
        self.opening = self.gripper["open"] + width * (self.gripper["closed"] - self.gripper["open"])

    def _solve(self, spec: Values) -> None:
        """One round of damped least squares."""
        place, axes, jacobian = self.kinematics(self.q)
        turn = self.goal_rotation @ axes.T
        vector = 0.5 * np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
        sine = np.linalg.norm(vector)
        if sine > 1e-9:
            vector *= math.atan2(sine, 0.5 * (np.trace(turn) - 1.0)) / sine
        error = np.concatenate((self.goal - place, vector))
        pull = spec["posture"] * (np.array(spec["home"]) - self.q)
        square = jacobian @ jacobian.T + spec["ik_damping"] ** 2 * np.eye(6)
        change = pull + jacobian.T @ np.linalg.solve(square, error - jacobian @ pull)
        most = spec["max_joint_step"]
        self.q = np.clip(self.q + np.clip(change, -most, most), self.low, self.high)

    def step(self) -> dict[str, float]:
        """Every `period` s: targets of the servos in rad by joint, and of the gripper in m."""
        k, a = self.limits["bandwidth"], np.array(self.limits["acceleration"])
        most = np.array(self.limits["speed"])
        way = self.q - self.reference
        wanted = np.sign(way) * np.minimum(np.minimum(k * np.abs(way), np.sqrt(1.6 * a * np.abs(way))), most)
        self.speed += np.clip(wanted - self.speed, -a * self.dt, a * self.dt)
        self.reference += self.speed * self.dt
        targets = self.reference + np.array(self.limits["lead"]) * self.speed
        return dict(zip(self.names, targets, strict=True)) | {self.gripper["name"]: self.opening}
