"""Robots on a page of the browser viewer as their readings say they are: no simulation, no truth.

A process of its own draws (rookery.cli.fly_view). The loop sends it the newest reading of each vehicle through a socket that it
never waits for: what does not fit is left out.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.quantities import OPENING
from rookery.sim.rendering.frame import FrameStage
from rookery.sim.viewing.drawing import Drawing, Poses
from rookery.sim.viewing.look import set_page
from rookery.sim.viewing.page import first_view
from rookery.sim.viewing.poses import stage_poses
from rookery.sim.viewing.replay import Recording
from rookery.sim2real.runtime.pilot import StepRecord

if TYPE_CHECKING:
    from viser import ViserServer

    from rookery.sim.env import Env

PERIOD_S = 1.0 / 30.0  # s, between two readings of a vehicle that are sent
MOST_BYTES = 1 << 16
HIDDEN_M = -100.0  # m, height of things that nobody measures
PLACE = "'s position"
"""End of the names of what is drawn as a ball where it is measured."""
TARGET_RGBA, THING_RGBA = (0.1, 0.8, 0.2, 0.6), (0.9, 0.5, 0.1, 0.8)


class ReadingSender:
    """Sends readings to the process that draws them.

    Args:
        connection: to it; becomes one that does not block.
        vehicles: their number.
    """

    def __init__(self, connection: socket.socket, vehicles: int) -> None:
        self._out = connection
        self._out.setblocking(False)
        self._sent = [-np.inf] * vehicles

    def seen(self, i: int, record: StepRecord) -> None:
        """Take a step of a vehicle; called by the loop."""
        now = time.monotonic()
        if record.reading is None or now - self._sent[i] < PERIOD_S:
            return
        self._sent[i] = now
        values = {**record.reading.estimates, **record.reading.values, **record.commands}
        told = {name: [float(x) for x in v] for name, v in values.items()}
        message = {"vehicle": i, "phase": record.phase.value, "values": told}
        if record.fault is not None:
            message["fault"] = str(record.fault)
        with contextlib.suppress(OSError):  # full, or the page has ended: the flight goes on
            self._out.send(json.dumps(message).encode())


class EstimatedScene:
    """A scene in which one robot is as its readings say.

    Args:
        model: visual model of a world with that robot.
        joints: names of its joints, in the order of "joint angles".
    """

    def __init__(self, model: mujoco.MjModel, joints: Sequence[str] = ()) -> None:
        self.model = model
        self._stage = FrameStage(model)
        self._data = mujoco.MjData(model)
        found = [self._joint(name) for name in joints]
        self._angles = [model.jnt_qposadr[j] for j in found]
        free = [j for j in range(model.njnt) if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE]
        roots = {int(model.body_rootid[model.jnt_bodyid[j]]) for j in found}
        own = [j for j in free if int(model.body_rootid[model.jnt_bodyid[j]]) in roots] if found else free[:1]
        self._root = int(model.jnt_qposadr[own[0]]) if own else None
        self._fingers = [
            j
            for j in range(model.njnt)
            if "finger" in model.joint(j).name and model.jnt_type[j] == mujoco.mjtJoint.mjJNT_SLIDE
        ]
        for j in set(free) - set(own):
            self._data.qpos[model.jnt_qposadr[j] + 2] = HIDDEN_M

    def _joint(self, name: str) -> int:
        names = [self.model.joint(j).name for j in range(self.model.njnt)]
        return next(j for j, full in enumerate(names) if full == name or full.endswith(f"/{name}"))

    def place(self, values: Mapping[str, Sequence[float]]) -> NDArray[np.float64]:
        """[nq] qpos for measured and estimated quantities; what nobody tells stays as it was. Not finite: likewise."""
        qpos = self._data.qpos
        told = {name: v for name, v in values.items() if np.isfinite(v).all()}
        if self._root is not None:
            if "position" in told:
                qpos[self._root : self._root + 3] = told["position"]
            if "rotation" in told:
                qpos[self._root + 3 : self._root + 7] = told["rotation"]
        if self._angles and len(told.get("joint angles", ())) == len(self._angles):
            qpos[self._angles] = told["joint angles"]
        if OPENING.name in told:
            for j in self._fingers:
                qpos[self.model.jnt_qposadr[j]] = np.clip(0.5 * told[OPENING.name][0], *self.model.jnt_range[j])
        return np.asarray(qpos)

    def poses(self, values: Mapping[str, Sequence[float]]) -> Poses:
        """Places of its geoms then."""
        self.place(values)
        self._data.time = time.monotonic()  # of what turns for looks
        return stage_poses(self._stage, self._data)


def marks(values: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Balls at the target and at things whose places are measured."""
    out = []
    for name, place in values.items():
        if len(place) == 3 and np.isfinite(place).all() and (name in ("target", "goal") or name.endswith(PLACE)):
            goal = not name.endswith(PLACE) or name.startswith(("goal", "target"))
            if not name.startswith(("tool", "base")):
                out.append(
                    {"pos": list(place), "size": 0.03, "rgba": TARGET_RGBA if goal else THING_RGBA, "trail": False}
                )
    return out


def flight_recording(steps: Sequence[Mapping[str, Any]], scene: EstimatedScene) -> Recording:
    """A vehicle's flight by the steps of its log (flight_log.SCHEMA): readings PERIOD_S apart, each the newest one then.

    Raises:
        RookeryError: the times of the steps do not grow.
    """
    times = np.array([step["time"] for step in steps]) - steps[0]["time"]
    if (np.diff(times) < 0.0).any():
        raise RookeryError("the log's steps do not follow each other: give one that `rookery fly` wrote.")
    grid = np.arange(0.0, times[-1] + PERIOD_S, PERIOD_S)
    newest = np.searchsorted(times, grid + 1e-9, side="right") - 1
    poses, markers, story = [], [], []
    lines: tuple[str, ...] = ()
    told: dict[str, list[float]] = {}
    done = 0
    for k in newest:
        for step in steps[done : k + 1]:
            parts = [step.get(name, {}) for name in ("estimates", "state", "commands")]
            told |= {name: [math.nan if x is None else x for x in v] for part in parts for name, v in part.items()}
            said = f"{step['phase']}, {step['fault']}" if "fault" in step else str(step["phase"])
            if not lines or lines[-1].split(" ", 1)[1] != said:
                lines = (*lines, f"{step['time'] - steps[0]['time']:.2f} {said}")
        done = max(done, int(k) + 1)
        poses.append(scene.poses(told))
        markers.append(marks(told))
        story.append(lines)
    return Recording(poses, markers, story, PERIOD_S)


class FlightPage:
    """Vehicles on a page.

    Args:
        server: of the page.
        env: with the visual model of a vehicle.
        joints: of each vehicle, see EstimatedScene.
        count: of vehicles, which share a world.
        title: of the page.
    """

    def __init__(self, server: ViserServer, env: Env, joints: Sequence[str], count: int, title: str) -> None:
        self.server = server
        set_page(server, title, shadows=False)
        model = env.visual_model(0)
        self._scenes = [EstimatedScene(model, joints) for _ in range(count)]
        self._drawing = Drawing(server, [model] * count, np.zeros((count, 3)), lambda *_: None)
        self._told: list[dict[str, Any]] = [{"phase": "", "values": {}} for _ in range(count)]
        self._text = server.gui.add_markdown("")
        self._follows = first_view(server, env, model, 0, over=False) and count == 1
        self.draw()

    def take(self, message: Mapping[str, Any]) -> None:
        """The newest reading of a vehicle, as ReadingSender sends it."""
        self._told[message["vehicle"]] = dict(message)

    def draw(self) -> None:
        """Show all vehicles where they are now."""
        found = [scene.poses(told["values"]) for scene, told in zip(self._scenes, self._told, strict=True)]
        with self.server.atomic():
            self._drawing.show(Poses(np.concatenate([p.pos for p in found]), np.concatenate([p.quat for p in found])))
            self._drawing.mark([(i, m) for i, told in enumerate(self._told) for m in marks(told["values"])])
            place = self._told[0]["values"].get("position")
            if self._follows and place is not None and np.isfinite(place).all():
                self._drawing.centre(np.array([*place[:2], 0.0]))
            text = "  \n".join(
                f"{i + 1}: {told['phase']}" + (f", {told['fault']}" if "fault" in told else "")
                for i, told in enumerate(self._told)
            )
            if text != self._text.content:
                self._text.content = text
        self.server.flush()

    def run(self, connection: socket.socket) -> None:
        """Show what comes, until the other end is closed."""
        connection.settimeout(0.5)
        drawn = 0.0
        while True:
            try:
                data = connection.recv(MOST_BYTES)
            except TimeoutError:
                continue
            except OSError:
                return
            if not data:
                return
            self.take(json.loads(data))
            if self.server.get_clients() and time.monotonic() - drawn > 0.5 * PERIOD_S:
                drawn = time.monotonic()
                self.draw()
