"""A runtime that somebody could write who has a bundle and not Rookery: numpy and ctypes on the exported C, and contract.json.

It imports nothing of Rookery (tested). Observation terms are evaluated by their expressions; rate loops, servos and integrated
goals run by the numbers of the contract's `actuation`.

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


def turn(quat: Vector, vectors: Vector, back: bool) -> Vector:
    """Vectors [3 k] in other axes."""
    matrix = rotation(quat)
    return ((matrix.T if back else matrix) @ vectors.reshape(-1, 3).T).T.reshape(-1)


def spread(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """The shorter one repeated."""
    size = max(len(a), len(b))
    return np.tile(a, size // len(a)), np.tile(b, size // len(b))


def yaw(quat: Vector) -> float:
    """rad, about the vertical."""
    return math.atan2(rotation(quat)[1, 0], rotation(quat)[0, 0])


def vector_of(matrix: Vector) -> Vector:
    """The axis of a rotation times its angle."""
    w, *axis = quaternion(matrix)
    sine = float(np.linalg.norm(axis))
    return np.array(axis) * (2.0 * math.atan2(sine, w) / sine if sine > 1e-9 else 2.0)


def quaternion(matrix: Vector) -> Vector:
    """w, x, y, z with w >= 0, the eigenvector of Bar-Itzhack's matrix (2000)."""
    m = matrix
    k = np.array(
        [
            [m[0, 0] + m[1, 1] + m[2, 2], m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], m[0, 0] - m[1, 1] - m[2, 2], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0]],
            [m[0, 2] - m[2, 0], m[0, 1] + m[1, 0], m[1, 1] - m[0, 0] - m[2, 2], m[1, 2] + m[2, 1]],
            [m[1, 0] - m[0, 1], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], m[2, 2] - m[0, 0] - m[1, 1]],
        ]
    )
    q = np.linalg.eigh(k)[1][:, -1]
    return q if q[0] >= 0.0 else -q


def is_rotation(e: Values) -> bool:
    """Whether the value is a quaternion."""
    return bool(e.get("axes")) or (e["kind"] in ("heading", "turned") and is_rotation(e["of"]))


def frame_of(e: Values) -> str:
    """Axes in which an expression is given."""
    if e["kind"] == "turned":
        return e["by"]["axes"] if frame_of(e["of"]) == e["by"].get("frame", "") else e["by"].get("frame", "")
    inner = e.get("of", e.get("a", {}))
    return e.get("frame", "") or ("" if isinstance(inner, list) or not inner else frame_of(inner))


def evaluate(e: Values, now: Values, before: Values) -> Vector:  # noqa: C901 - one line a kind
    """The value of an expression of measured quantities, given by name."""

    def part(name: str) -> Vector:
        return evaluate(e[name], now, before)

    match e["kind"]:
        case "quantity" | "clock" | "sensor":
            out = np.asarray(now[e["name"]], float).reshape(-1)
            assert out.shape == (e["count"],), f"{e['name']} has {out.shape}"
            return out
        case "constant":
            return np.array(e["values"], float)
        case "sum" | "difference" as kind:
            a, b = spread(part("a"), part("b"))
            return a + b if kind == "sum" else a - b
        case "scaled":
            return e["factor"] * part("of")
        case "divided":
            return part("of") / e["by"]
        case "clipped":
            return np.clip(part("of"), e["low"], e["high"])
        case "components":
            return part("of")[list(e["which"])]
        case "joined":
            return np.concatenate([evaluate(one, now, before) for one in e["of"]])
        case "above":
            return (part("of") > e["limit"]).astype(float)
        case "largest":
            return np.array([np.max(np.abs(part("of")) / e["over"])])
        case "where":
            mask = part("mask") != 0.0
            value = part("of")
            return np.where(np.repeat(mask, len(value) // len(mask)), value, 0.0)
        case "previous":
            return evaluate(e["of"], before, before)
        case "sines":
            (angle,) = part("of")
            return np.array(
                [{"sin": math.sin, "cos": math.cos}[name](angle) for name in e.get("order", ("sin", "cos"))]
            )
        case "norm":
            return np.linalg.norm(part("of").reshape(-1, 3), axis=1)
        case "upright":
            return part("of") * (-1.0 if part("of")[0] < 0.0 else 1.0)
        case "yaw":
            return np.array([yaw(part("of"))])
        case "heading":
            half = 0.5 * yaw(part("of"))
            return np.array([math.cos(half), 0.0, 0.0, math.sin(half)])
        case "axes":
            return np.concatenate([rotation(part("of"))[:, "xyz".index(axis)] for axis in e["which"]])
        case "rotation_vector":
            return vector_of(rotation(part("end")) @ rotation(part("start")).T)
        case "turned" if is_rotation(e["of"]):
            matrix = rotation(part("by"))
            back = frame_of(e["of"]) == e["by"].get("frame", "")
            return quaternion((matrix.T if back else matrix) @ rotation(part("of")))
        case "turned":
            return turn(part("by"), part("of"), back=frame_of(e["of"]) == e["by"].get("frame", ""))
    raise ValueError(f"an unknown expression, {e['kind']}")


class Clock:
    """A phase in [0, 1) that runs while its condition in the contract is not 0."""

    def __init__(self, values: Values, control_dt: float) -> None:
        self.name = values["name"]
        self.step = values["frequency"] * control_dt
        self.phase = values.get("start", (0.0, 1.0))[0]
        self.runs = values["runs"]

    def tick(self, state: Values) -> None:
        if evaluate(self.runs, state, state)[0]:
            self.phase = (self.phase + self.step) % 1.0


def clocks_in(e: Any) -> list[Values]:
    """The clocks that an expression shows."""
    if isinstance(e, list):
        return [c for one in e for c in clocks_in(one)]
    if not isinstance(e, dict):
        return []
    return [e] if e.get("kind") == "clock" else [c for one in e.values() for c in clocks_in(one)]


class Observer:
    """The terms, by their expressions. `state` has measured quantities by name; what the runtime itself knows is added: the
    last action, its clocks and the robot's home."""

    def __init__(self, group: Values, control_dt: float) -> None:
        self.terms = group["observation"]
        self.home = [j["home"] for j in group["actuation"]["joints"]]
        self.last_action = np.array(group["action"]["neutral"])
        self.before: Values | None = None
        self.history = self.terms[0]["history"]
        assert self.history == 1 or group["frames"].endswith("an episode's first frame stands for the ones before it")
        self.frames: list[Vector] = []
        self.clocks = [Clock(c, control_dt) for c in clocks_in([t["expression"] for t in self.terms])[:1]]

    def observe(self, state: Values) -> Vector:
        known = {"commanded action of the step before, clipped to [-1, 1]": self.last_action, "home": self.home}
        now = state | known | {c.name: c.phase for c in self.clocks}
        parts = []
        for term in self.terms:
            raw = evaluate(term["expression"], now, now if self.before is None else self.before)
            assert raw.shape == (term["size"],), f"{term['name']} has {raw.shape}"
            clip = math.inf if term["clip"] is None else term["clip"]
            parts.append(np.clip(raw * term["scale"], -clip, clip))
        self.before = now
        frame = np.concatenate(parts)
        self.frames = [*(self.frames or [frame] * self.history)[1:], frame]
        return np.concatenate(self.frames)


class Runtime:
    """A policy of one group: measurements in, physical commands by name out.

    Args:
        folder: of the bundle. contract: in place of the one in the folder.
    """

    def __init__(self, folder: Path, contract: Values | None = None) -> None:
        self.contract = json.loads((folder / "contract.json").read_text()) if contract is None else contract
        if self.contract["schema_version"] < 2:
            raise ValueError(
                "this runtime reads contracts from version 2 on: export the policy again with `rookery export`."
            )
        (self.group,) = self.contract["groups"].values()
        self.network = Network(folder)
        self.observer = Observer(self.group, self.contract["control_dt"])
        self.substeps = round(self.contract["control_dt"] / self.group["actuation"]["period"])

    def act(self, state: Values) -> dict[str, float]:
        """One control step."""
        action = np.clip(self.network(self.observer.observe(state)), -1.0, 1.0)
        self.observer.last_action = action
        for clock in self.observer.clocks:
            clock.tick(state)
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
        """Torques in N m by joint, every `period` s; state: "joint angles" and "joint velocities" in the joints' order."""
        out = {}
        for joint, q, dq in zip(self.joints, state["joint angles"], state["joint velocities"], strict=True):
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
