"""A flight as its operator sees and steers it: a live panel in a terminal, plain lines elsewhere; keys and a gamepad."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.sim.errors import RookeryError
from rookery.sim2real.runtime.controls import Controls, read_controls
from rookery.sim2real.runtime.gamepad import Gamepad
from rookery.sim2real.runtime.keys import HELP, HELP_OF_SEVERAL, Keys, in_foreground
from rookery.sim2real.runtime.panel import FlightPanel
from rookery.sim2real.runtime.screen import Screen
from rookery.sim2real.runtime.steering import FORWARD, LEFT, TURN, UP, CommandSteering

if TYPE_CHECKING:
    from rookery.sim2real.runtime.loop import ControlLoop
    from rookery.sim2real.runtime.pilot import Pilot, StepRecord


class Cockpit:
    """See the module.

    Args:
        silent: nobody reads: a program takes the output.
        controls: settings of the operator's controls, of a TOML file; None for the defaults.
        gamepad: file of a gamepad; None for none.

    Raises:
        RookeryError: the file of the settings is wrong.
    """

    def __init__(self, silent: bool, controls: Path | None = None, gamepad: Path | None = None) -> None:
        self._controls: Controls = read_controls(controls)
        self._gamepad = gamepad
        self._silent = silent
        self._keys = False
        self._steering: CommandSteering | None = None
        self._screen: Screen | None = None
        self._panel: FlightPanel | None = None

    def say(self, text: str) -> None:
        """Tell a change in one sentence. It never waits for a terminal on which the panel is."""
        if self._silent:
            return
        if self._screen is not None:
            self._screen.say(text)
        else:
            print(text, flush=True)

    def seen(self, i: int, record: StepRecord) -> None:
        """Take a step of a vehicle."""
        if self._panel is not None:
            self._panel.seen(i, record)

    def checked(self) -> None:
        """The vehicles are checked, so that it is known what can be steered.

        Raises:
            RookeryError: a range of the settings does not fit; or the operator has stopped the flight.
        """
        assert self._steering is not None
        self._steering.learn()
        wrong = sorted(self._controls.axes.keys() - self._steering.labels - {FORWARD, LEFT, UP, TURN})
        if wrong:
            known = ", ".join(sorted(self._steering.labels)) or "nothing"
            raise RookeryError(f"[axes] names {wrong[0]!r}, and what can be steered is {known}.")
        if self._steering.stopped:
            raise RookeryError("the operator asked for a stop before the vehicles were armed: nothing has moved.")

    @contextlib.contextmanager
    def open(self, pilots: Sequence[Pilot], loop: ControlLoop) -> Iterator[None]:
        """While it lasts, the flight is shown, and keys and gamepad steer it.

        Raises:
            RookeryError: the gamepad cannot be read.
        """
        self._steering = CommandSteering(pilots, self._controls.ranges)
        with contextlib.ExitStack() as stack:
            if self._gamepad is not None:
                stack.enter_context(Gamepad(self._steering, self._gamepad, self._controls, self.say))
            if not self._silent:
                self._show(stack, pilots, loop)
            yield

    def _show(self, stack: contextlib.ExitStack, pilots: Sequence[Pilot], loop: ControlLoop) -> None:
        assert self._steering is not None
        if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            self._screen = Screen(sys.stdout.fileno(), color="NO_COLOR" not in os.environ)
            stack.callback(setattr, self, "_screen", None)
            if sys.stdin.isatty() and in_foreground(sys.stdin.fileno()):
                stack.enter_context(Keys(self._steering, sys.stdin.fileno()))
                self._keys = True
        self._panel = FlightPanel(pilots, self._screen, self.say, self._operator)
        self._panel.loop = loop
        stack.enter_context(self._panel)

    def _operator(self) -> list[str]:
        """Lines of the panel about commands and keys."""
        assert self._steering is not None
        out = self._steering.lines()
        if self._keys:
            out.append(HELP)
            if self._steering.several:
                chosen = self._steering.chosen
                out.append(HELP_OF_SEVERAL + ("all" if chosen is None else str(chosen + 1)))
        return out
