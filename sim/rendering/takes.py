"""Takes: environments under policies as moments, one a control step, and moments as the frames of a video."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from rookery.sim.env import Act, AgentNote, Env, Meets, Narrator
from rookery.sim.errors import RookeryError
from rookery.sim.rendering.camera import Camera, driven_bodies, driven_roots
from rookery.sim.rendering.frame import Frame, Vector
from rookery.sim.rendering.labels import project
from rookery.sim.rendering.overlay import Line, Overlay
from rookery.sim.rendering.renderer import Composer

NEAR_S = 0.15
"""s of simulated time around a contact that slow motion stretches."""
JUMP = 1.0
"""m/s, least change of a free thing's velocity from one control step to the next, beside gravity's, that is a contact."""


@dataclass(frozen=True)
class Moment:
    """One world after a control step. `notes`: on its agents; `cut`: it is the first of an episode; `touch`: a contact began in
    it."""

    time: float
    state: tuple[Vector, float, Vector, Vector]  # qpos, time in the episode s, mocap_pos, mocap_quat
    markers: Sequence[Any]
    lines: Sequence[Line]
    notes: Sequence[AgentNote]
    cut: bool
    touch: bool


class Take:
    """Some worlds of an environment under a policy.

    Args:
        env, act: what is recorded.
        worlds: which of its worlds.
        title: what the pictures are called; "" for the task's name.
        camera: None for the task's own.
        trail: draw the paths of all free bodies with actuators.
        size: pixels (width, height) of each picture.
        touches: look for contacts that begin.

    Raises:
        RookeryError: there is no such world or camera.
    """

    def __init__(
        self, env: Env, act: Act, worlds: Sequence[int], title: str, camera: Camera | None, trail: bool, size: tuple[int, int],
        touches: bool = False,
    ) -> None:  # fmt: skip
        for world in worlds:
            if not 0 <= world < env.num_envs:
                raise RookeryError(
                    f"there is no world {world} to record: this environment has 0 to {env.num_envs - 1}."
                )
        self.env = env
        self.act = act
        meets: Meets | None = act if isinstance(act, Meets) else None
        self.texts = [Overlay(env, world, title, meets) for world in worlds]
        self.model = env.visual_model(worlds[0])
        trails = [self.model.body(i).name for i in driven_bodies(self.model)] if trail else []
        camera = env.camera if camera is None else camera
        aspect = size[0] / size[1]
        self._composers = [Composer(self.model, size[1], camera=camera, trails=trails, aspect=aspect) for _ in worlds]
        self._touches = [_Touches(self.model, env.control_dt) if touches else None for _ in worlds]
        self._aspect = aspect
        self._narrator: Narrator | None = act if isinstance(act, Narrator) else None
        self._robots: dict[tuple[str, int], int] = {} if self._narrator is None else _robots(env, self.model)
        self._observation: Any = None
        self._scratch = mujoco.MjData(self.model)

    @property
    def episodes(self) -> int:
        """The number of episodes that have ended, in all its worlds."""
        return sum(text.episodes for text in self.texts)

    def frames(
        self, fps: int, seconds: float, slow: float = 1.0, seed: int | None = None
    ) -> Iterator[tuple[Frame, Sequence[Line]]]:
        """Each world's frame and the lines over it from a reset on, for every 1 / fps s: of the first control step that is
        not before it. See `slowed_frames` for `slow` over 1."""
        self.begin(seed)
        if slow > 1.0:
            yield from self.slowed_frames(fps, seconds, slow)
            return
        moments = self.moments
        now = next(moments)
        for k in range(max(1, round(seconds * fps))):
            # Half a step of grace: 1 / fps and control_dt are not exact in binary.
            while now[0].time + 0.5 * self.env.control_dt < k / fps:
                now = next(moments)
            for composer, moment in zip(self._composers, now, strict=True):
                yield self._compose(composer, moment, moment.state)

    def slowed_frames(self, fps: float, seconds: float, slow: float) -> Iterator[tuple[Frame, Sequence[Line]]]:
        """Frames of the first world, `slow` times as many near contacts, between control steps where they fall there."""
        moments = self.moments
        ahead: deque[Moment] = deque([next(moments)[0]])
        before = ahead[0]
        time = 0.0
        touched = -np.inf
        while time < seconds - 1e-9:
            while ahead[-1].time < time + NEAR_S:
                ahead.append(next(moments)[0])
                touched = ahead[-1].time if ahead[-1].touch else touched
            while ahead[0].time < time - 1e-9:
                before = ahead.popleft()
                if before.cut:
                    self._composers[0].cut()
            yield self._compose(self._composers[0], ahead[0], self._between(before, ahead[0], time))
            time += 1.0 / fps / (slow if abs(time - touched) <= NEAR_S else 1.0)

    @property
    def moments(self) -> Iterator[Sequence[Moment]]:
        """Every control step from a reset on, by world. The environment must have been reset with `begin`."""
        steps = 0
        cuts = [False] * len(self.texts)
        datas: list[Any] = [None] * len(self.texts)
        while True:
            out = []
            metrics = self.env.metrics() if steps else {}
            for k, (text, cut) in enumerate(zip(self.texts, cuts, strict=True)):
                data = datas[k] = self.env.mj_data(text.world, datas[k])
                state = (data.qpos.copy(), float(data.time), data.mocap_pos.copy(), data.mocap_quat.copy())
                touches = self._touches[k]
                time = steps * self.env.control_dt
                touch = touches is not None and touches.begun(data.qpos, data.mocap_pos, data.mocap_quat, cut)
                notes = self._narrator.notes(text.world) if steps and self._narrator is not None else []
                markers, lines = self.env.markers(text.world), text.lines(time, metrics)
                out.append(Moment(time, state, markers, lines, notes, cut, touch and not cut))
            yield out
            steps += 1
            self._observation, _, _, _, info = self.env.step(self.act(self._observation))
            cuts = [text.note(info) for text in self.texts]
            for composer, cut in zip(self._composers, cuts, strict=True):
                if cut and self._touches[0] is None:
                    composer.cut()

    def begin(self, seed: int | None) -> None:
        """Reset the environment."""
        self._observation, _ = self.env.reset(seed)

    def _compose(
        self, composer: Composer, moment: Moment, state: tuple[Vector, float, Vector, Vector]
    ) -> tuple[Frame, Sequence[Line]]:
        data = self._scratch
        data.qpos[:], data.time, data.mocap_pos[:], data.mocap_quat[:] = state
        frame = composer.compose(data, moment.markers)
        if not moment.notes:
            return frame, moment.lines
        bodies = [self._robots.get((note.group, note.agent), -1) for note in moment.notes]
        places = project(frame.view, composer.tops(bodies), self._aspect)
        lines = list(moment.lines)
        for note, body, (x, y) in zip(moment.notes, bodies, places, strict=True):
            if body < 0:
                lines.append(Line(f"{note.group}_{note.agent}: {note.text}"))
            elif np.isfinite(x):
                lines.append(Line(note.text, at=(float(x), float(y))))
        return frame, lines

    def _between(self, a: Moment, b: Moment, time: float) -> tuple[Vector, float, Vector, Vector]:
        """The state at a time between two moments; b's where a new episode begins with it."""
        if b.cut or b.time <= a.time or time >= b.time:
            return b.state
        share = (time - a.time) / (b.time - a.time)
        step = np.zeros(self.model.nv)
        qpos = a.state[0].copy()
        mujoco.mj_differentiatePos(self.model, step, 1.0, a.state[0], b.state[0])
        mujoco.mj_integratePos(self.model, qpos, step, share)
        return qpos, a.state[1] + share * (b.state[1] - a.state[1]), b.state[2], b.state[3]


def _robots(env: Env, model: mujoco.MjModel) -> dict[tuple[str, int], int]:
    """Bodies of the agents, by group and number: robots stand in the scene in the order of agents. Empty where agents and
    robots differ in number, as where two groups move one robot."""
    agents = [(name, i) for name, group in env.groups.items() for i in range(group.count)]
    roots = sorted(driven_roots(model))
    return dict(zip(agents, roots, strict=True)) if len(agents) == len(roots) else {}


class _Touches:
    """Finds contacts that begin: of robots with things and with each other, and of free things with anything, those that are
    over before a control step ends too, as hits of a ball."""

    def __init__(self, model: mujoco.MjModel, dt: float) -> None:
        self.model = model
        self.data = mujoco.MjData(model)
        self.robots = driven_roots(model)
        self.free = {int(model.jnt_bodyid[j]) for j in np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)}
        self.pairs: set[tuple[int, int]] = set()
        places = [int(model.jnt_qposadr[model.body_jntadr[b]]) for b in sorted(self.free - self.robots)]
        self.places = np.array(places, int)[:, None] + np.arange(3)
        self.past: list[Vector] = []
        self.dt = dt

    def begun(self, qpos: Vector, mocap_pos: Vector, mocap_quat: Vector, cut: bool) -> bool:
        data = self.data
        data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = qpos, mocap_pos, mocap_quat
        mujoco.mj_kinematics(self.model, data)
        mujoco.mj_comPos(self.model, data)
        mujoco.mj_collision(self.model, data)
        roots = self.model.body_rootid[self.model.geom_bodyid[data.contact.geom]].reshape(-1, 2)
        pairs = {(int(min(pair)), int(max(pair))) for pair in roots if self._counts(int(min(pair)), int(max(pair)))}
        new = bool(pairs - self.pairs)
        self.pairs = pairs
        return self._jumped(qpos, cut) or new

    def _jumped(self, qpos: Vector, cut: bool) -> bool:
        """True where a free thing's velocity changed by more than JUMP; `cut`: an episode begins."""
        self.past = [*([] if cut else self.past[-2:]), qpos[self.places]]
        if len(self.past) < 3:
            return False
        first, second, third = self.past
        change = (third - 2.0 * second + first) / self.dt - self.dt * self.model.opt.gravity
        return bool((np.linalg.norm(change, axis=1) > JUMP).any())

    def _counts(self, a: int, b: int) -> bool:
        if a == b:
            return False
        things = {a, b} & (self.free - self.robots)
        return bool(things) or ((a in self.robots or b in self.robots) and a != 0)
