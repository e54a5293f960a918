"""Curves of the last seconds: reward terms, observation terms and actions of one world."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.viewing.values import read

if TYPE_CHECKING:
    from viser import ViserServer

SECONDS = 8.0
POINTS = 160
"""Length of the curves in s, and their greatest number of points."""
COLORS = ("#1c6dd0", "#e8590c", "#2b8a3e", "#c2255c", "#6741d9", "#0b7285", "#a37800", "#495057", "#d6336c", "#5c940d")
REWARDS = "reward terms, weighted"
ACTIONS = "actions"


class Plots:
    """One chart and a choice of what it shows.

    Args:
        server: of the page.
        env: whose terms are recorded from now on.
        do: has a function called in the thread that steps `env`.
    """

    def __init__(self, server: ViserServer, env: Env, do: Callable[[Callable[[], None]], None]) -> None:
        self._server = server
        self._env = env
        self._world = 0
        self._values: dict[str, dict[str, float]] = {}
        self._history: deque[tuple[float, dict[str, float]]] = deque()
        self._names: tuple[str, ...] = ()
        self._chart: Any = None
        reward = env.deployment().config.get("reward", {})
        self._weights: Mapping[str, Any] = reward if isinstance(reward, Mapping) else {}
        choices = [ACTIONS]
        try:
            env.record_terms(self._record)
        except RookeryError:  # several tasks side by side have no common terms
            pass
        else:
            terms = [(g, t.name) for g, group in env.groups.items() for t in group.observation]
            choices = [REWARDS, ACTIONS, *(_title(env, g, name) for g, name in terms)]
        self._shown = choices[0]
        self._folder = server.gui.add_folder("Plots", order=4.0)
        with self._folder:
            choice = server.gui.add_dropdown("Show", choices, initial_value=choices[0])
        choice.on_update(lambda _: do(lambda: self._choose(read(choice, choices[0]))))

    def choose_world(self, world: int) -> None:
        """Draw another world from now on."""
        self._world = world
        self.clear()

    def clear(self) -> None:
        """Forget the curves, as after a reset."""
        self._history.clear()

    def note(self, time: float, actions: Mapping[str, Tensor]) -> None:
        """Take what a control step gave; `time` in s, `actions` {group: [N, A, D]}."""
        if self._shown == ACTIONS:
            self._values[ACTIONS] = {
                f"{g} {i}" if len(actions) > 1 else str(i): float(v)
                for g, x in actions.items()
                for i, v in enumerate(x[self._world, 0])
            }
        if self._shown in self._values:
            self._history.append((time, self._values[self._shown]))
        while self._history and time - self._history[0][0] > SECONDS:
            self._history.popleft()

    def draw(self) -> None:
        """Send the curves."""
        if len(self._history) < 2:
            return
        rows = list(self._history)[:: max(1, len(self._history) // POINTS)]
        names = tuple(rows[-1][1])
        now = rows[-1][0]
        columns: list[NDArray[np.float64]] = [np.array([t - now for t, _ in rows])]
        columns += [np.array([values.get(name, np.nan) for _, values in rows]) for name in names]
        if self._chart is None or names != self._names:
            self._make(names, tuple(columns))
        else:
            self._chart.data = tuple(columns)

    def _make(self, names: tuple[str, ...], data: tuple[NDArray[np.float64], ...]) -> None:
        from viser import uplot

        if self._chart is not None:
            self._chart.remove()
        self._names = names
        lines = [
            uplot.Series(label=name.replace("_", " "), stroke=COLORS[i % len(COLORS)], width=1.5)
            for i, name in enumerate(names)
        ]
        with self._folder:
            self._chart = self._server.gui.add_uplot(
                data, (uplot.Series(label="s"), *lines), scales={"x": uplot.Scale(time=False)},
                axes=(uplot.Axis(label="s"), uplot.Axis(size=48)), height=220,
            )  # fmt: skip

    def _choose(self, shown: str) -> None:
        self._shown = shown
        self._values.clear()
        self.clear()

    def _record(self, kind: str, terms: dict[str, dict[str, Tensor]]) -> None:
        """See `Env.record_terms`: keep what is shown, of the first agent; rewards are means over agents."""
        for g, group in terms.items():
            if kind == "reward" and self._shown == REWARDS:
                many = len(terms) > 1
                values = self._values.setdefault(REWARDS, {})
                for name, x in group.items():
                    values_name = f"{g} {name}" if many else name
                    values[values_name] = float(x[self._world].float().mean()) * _number(self._weights.get(name, 1.0))
                self._values[REWARDS] = dict(values)
            elif kind == "observation":
                for name, x in group.items():
                    title = _title(self._env, g, name)
                    if title == self._shown:
                        row = x[self._world].reshape(-1, x.shape[-1])[0] if x.dim() > 1 else x[self._world].view(1)
                        self._values[title] = {str(i): float(v) for i, v in enumerate(row[:12])}


def _title(env: Env, group: str, term: str) -> str:
    return f"observation: {group} {term}" if len(env.groups) > 1 else f"observation: {term}"


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 1.0
