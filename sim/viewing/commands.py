"""Commands and goals set by hand on the page, in place of those that the task draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from rookery.sim.env import Env
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.specs import Command
from rookery.sim.viewing.values import is_place, read

if TYPE_CHECKING:
    from viser import ViserServer

Floats = NDArray[np.float64]
ORDER = 0.5
"""Where the commands stand among the panels: after the figures and before time."""


class CommandPanel:
    """Sliders for commands and handles for places, of one world.

    Args:
        server: of the page.
        env: whose tasks have commands, see `Task.commands`.
        do: has a function called in the thread that steps `env`.
    """

    def __init__(self, server: ViserServer, env: Env, do: Callable[[Callable[[], None]], None]) -> None:
        self._server = server
        self._env = env
        self._do = do
        self._folder: Any = None
        self._held: dict[str, Floats] = {}
        self._commands: list[Command] = []
        self._handles: dict[str, Any] = {}
        self._sliders: list[tuple[Command, int, Any]] = []
        self._by_hand: Any = None
        self._world = 0
        self._offset = np.zeros(3)

    def show(self, world: int, offset: Floats, size: float) -> None:
        """Offer the commands of a world, drawn at `offset` [3] m, with handles for bodies of radius `size` m."""
        self.clear()
        env, self._world = self._env.locate(world)
        self._offset = offset
        self._commands = env.task.commands() if isinstance(env, VecEnv) else []
        if not self._commands:
            return
        gui = self._server.gui
        self._folder = gui.add_folder("Command", order=ORDER)
        with self._folder:
            self._by_hand = gui.add_checkbox("By hand", False, hint="Off: the task chooses.")
            self._by_hand.on_update(lambda _: self._do(self._switch))
            for command in self._commands:
                now = self._value(command)
                if command.place:
                    self._add_handle(command, now, size)
                else:
                    self._add_sliders(command, now)

    def clear(self) -> None:
        """Offer nothing."""
        for handle in self._handles.values():
            handle.remove()
        if self._folder is not None:
            self._folder.remove()
        self._folder = None
        self._commands = []
        self._held.clear()
        self._handles.clear()
        self._sliders.clear()

    def hold(self) -> None:
        """Write what is set by hand, before a control step."""
        if not self._held:
            return
        for command in self._commands:
            if command.name in self._held:
                command.values[self._world] = torch.from_numpy(self._held[command.name]).to(command.values)

    def draw(self, offset: Floats) -> None:
        """Let handles and sliders follow what the task chooses."""
        for command, k, slider in self._sliders:
            now = _notch(command, k, self._value(command)[k])
            if command.name not in self._held and slider.value != now:
                slider.value = now
        for command in self._commands:
            handle = self._handles.get(command.name)
            if handle is not None and command.name not in self._held:
                place = self._value(command) + offset
                if not np.allclose(place, handle.position, atol=1e-4):
                    handle.position = place

    def _value(self, command: Command) -> Floats:
        return command.values[self._world].double().cpu().numpy().copy()

    def _switch(self) -> None:
        """By hand, or as the task likes."""
        self._held = {c.name: self._read(c) for c in self._commands} if read(self._by_hand, False) else {}

    def _read(self, command: Command) -> Floats:
        """Text of the page."""
        if command.place:
            place = self._handles[command.name].position
            return np.asarray(place, float) - self._offset if is_place(place) else self._value(command)
        now = self._value(command)
        return np.array([float(read(s, now[k])) for c, k, s in self._sliders if c is command])

    def _moved(self, command: Command) -> None:
        """Somebody moved a slider or handle: that one is by hand from now on."""
        self._held[command.name] = self._read(command)
        if not self._by_hand.value:
            self._by_hand.value = True

    def _add_sliders(self, command: Command, now: Floats) -> None:
        for k, (label, low, high) in enumerate(zip(command.labels, command.low, command.high, strict=True)):
            slider = self._server.gui.add_slider(label, low, high, (high - low) / 100, _notch(command, k, now[k]))
            self._sliders.append((command, k, slider))
            slider.on_update(lambda event: event.client and self._do(lambda: self._moved(command)))

    def _add_handle(self, command: Command, now: Floats, size: float) -> None:
        handle = self._server.scene.add_transform_controls(
            f"/worlds/goal_{command.name}",
            scale=3.0 * size,
            disable_rotations=True,
            position=now + self._offset,
            depth_test=False,
        )
        self._handles[command.name] = handle
        handle.on_update(lambda event: self._do(lambda: self._moved(command)))


def _notch(command: Command, k: int, value: float) -> float:
    """The place of a slider of 100 steps nearest to its command's value."""
    low, high = command.low[k], command.high[k]
    step = (high - low) / 100
    return float(np.clip(round(value / step) * step, low, high))
