"""Recorded episodes on a timeline: what a world did, played, wound back and forth, or written as a page without Python."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.sim.env import Act, Env
from rookery.sim.rendering.frame import FrameStage
from rookery.sim.viewing.drawing import Drawing, Poses
from rookery.sim.viewing.look import set_page
from rookery.sim.viewing.page import first_view
from rookery.sim.viewing.panel import SPEEDS
from rookery.sim.viewing.poses import stage_poses
from rookery.sim.viewing.values import read

if TYPE_CHECKING:
    from viser import ViserServer

FRAMES = 60.0
"""1/s, pictures that a page gets."""


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Recording:
    """An episode of one world: poses, markers and the lines of its event log so far at its T + 1 times, `dt` s apart."""

    poses: Sequence[Poses]
    markers: Sequence[Sequence[Mapping[str, Any]]]
    story: Sequence[Sequence[str]]
    dt: float

    def at(self, seconds: float) -> Poses:
        """Poses of everything at a time, between two control steps too."""
        step = min(max(seconds / self.dt, 0.0), len(self.poses) - 1.0)
        k = min(int(step), max(len(self.poses) - 2, 0))
        return self.poses[k].towards(self.poses[min(k + 1, len(self.poses) - 1)], step - k)

    @property
    def seconds(self) -> float:
        """Its length."""
        return (len(self.poses) - 1) * self.dt


def record(env: Env, act: Act, world: int, seed: int, steps: int | None = None) -> Recording:
    """Let an episode happen, such as once more.

    Args:
        env: in which it is repeated.
        act: gives its actions.
        world: which world it was in.
        seed: of the reset that it began with.
        steps: its length in control steps; None: until it ends. The state after the last one is that of a new episode and is
            left out.
    """
    stage = FrameStage(env.visual_model(world))
    observation, _ = env.reset(seed)
    data = None
    poses: list[Poses] = []
    markers: list[list[dict[str, Any]]] = []
    story: list[Sequence[str]] = []
    before = _begin(env.event_log(world))
    ended = False
    while not ended and len(poses) != steps:
        data = env.mj_data(world, data)
        poses.append(stage_poses(stage, data))
        markers.append([dict(m) for m in env.markers(world)])
        story.append(env.event_log(world)[before:])
        observation, _, terminated, truncated, _ = env.step(act(observation))
        ended = bool(terminated[world] or truncated[world])
    if ended:  # a new episode has begun, and the log has both
        log = env.event_log(world)
        story[-1] = log[: _begin(log) or None]
    return Recording(poses, markers, story, env.control_dt)


def _begin(log: Sequence[str]) -> int:
    """The index of the first line of the last episode in an event log, which has that and perhaps the one before: times, with
    which lines begin, start anew there, or all is told twice where the one before ended as it began."""
    times = [float(line.split()[0]) for line in log]
    for i in range(len(log) - 1, 0, -1):
        if times[i] < times[i - 1]:
            return i
    half = len(log) // 2
    words = [_NUMBER.sub("", line) for line in log]
    return half if words[:half] == words[half:] else 0


class Timeline:
    """Episodes on a page, with a slider over their time.

    Args:
        server: of the page.
        env: what they happened in.
        world: whose model is drawn.
        episodes: their names, and what makes the recording of each when it is chosen.
        title: of the page.
    """

    def __init__(
        self, server: ViserServer, env: Env, world: int, episodes: Mapping[str, Callable[[], Recording]], title: str
    ) -> None:
        self.server = server
        self.playing = True
        self.now = 0.0
        self._episodes = episodes
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._model = env.visual_model(world)
        self._env = env
        set_page(server, title, shadows=True)
        self._drawing = Drawing(server, [self._model], np.zeros((1, 3)), lambda *_: None)
        gui = server.gui
        names = list(episodes)
        choice = gui.add_dropdown("Episode", names, initial_value=names[0])
        self._button = gui.add_button("Pause")
        self._speed = gui.add_slider("Speed", *SPEEDS, 1.0)
        self._slider: Any = None
        self._lines = gui.add_markdown("", order=90.0)
        self._told: Sequence[str] = ()
        self._button.on_click(lambda _: self._jobs.put(self._toggle))
        choice.on_update(lambda _: self._jobs.put(lambda: self.choose(read(choice, names[0]))))
        self.choose(names[0])
        first_view(server, env, self._model, world, over=False)

    def choose(self, name: str) -> None:
        """Show another episode from its beginning."""
        self.recording = self._episodes[name]()
        self.now = 0.0
        if self._slider is not None:
            self._slider.remove()
        end = max(self.recording.seconds, self.recording.dt)
        slider = self._slider = self.server.gui.add_slider("Time s", 0.0, round(end, 3), self.recording.dt, 0.0)

        def wind(event: Any) -> None:
            if event.client is not None:  # not this program itself
                self._jobs.put(lambda: self.wind(float(read(slider, 0.0))))

        slider.on_update(wind)
        self._draw()

    def wind(self, seconds: float) -> None:
        """Show another time, and stand still there."""
        self.now = seconds
        if self.playing:
            self._toggle()
        self._draw()

    def run(self, seconds: float | None = None) -> None:
        """Play until Ctrl-C, or for some s of real time; at its end an episode begins anew."""
        start = last = drawn = time.perf_counter()
        while seconds is None or last - start < seconds:
            now = time.perf_counter()
            passed, last = now - last, now
            try:
                while True:
                    self._jobs.get_nowait()()
            except Empty:
                pass
            if self.playing and self.server.get_clients():
                self.now += passed * float(read(self._speed, 1.0))
                if self.now > self.recording.seconds:
                    self.now = 0.0
                self._slider.value = self.now
                self._draw()
            drawn = max(drawn + 1.0 / FRAMES, now)
            time.sleep(max(drawn - time.perf_counter(), 0.0))

    def page(self, fps: float = 30.0) -> str:
        """The chosen episode as one HTML page that plays it again and again without Python."""
        serializer = self.server.get_scene_serializer()
        for k in range(int(self.recording.seconds * fps) + 1):
            self.now = k / fps
            self._draw()
            serializer.insert_sleep(1.0 / fps)
        html: str = serializer.as_html()
        return html

    def _toggle(self) -> None:
        self.playing = not self.playing
        self._button.label = "Pause" if self.playing else "Play"

    def _draw(self) -> None:
        k = min(int(self.now / self.recording.dt), len(self.recording.markers) - 1)
        with self.server.atomic():
            self._drawing.show(self.recording.at(self.now))
            self._drawing.mark([(0, m) for m in self.recording.markers[k]])
            if self.recording.story[k] != self._told:
                self._told = self.recording.story[k]
                self._lines.content = "  \n".join(self._told)
        self.server.flush()
