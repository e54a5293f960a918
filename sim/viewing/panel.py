"""The controls of the viewer: time, worlds, policies, and what is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rookery.sim.viewing.values import read

if TYPE_CHECKING:
    from rookery.sim.viewing.viewer import Viewer

KEYS = {"Pause or go on": "space", "One control step": "arrowright", "New episodes": "r"}
SPEEDS = (0.05, 4.0, 0.05)
"""Least, greatest and step of the speed, simulated s a s."""


class Panel:
    """Buttons, sliders and lines of text of a viewer.

    Args:
        viewer: what they steer.
        pilots: names of what may act.
        tasks: names of what else may be shown.
    """

    def __init__(self, viewer: Viewer, pilots: list[str], tasks: list[str]) -> None:
        self._viewer = viewer
        gui = viewer.server.gui
        self._text = gui.add_markdown("", order=0.0)
        with gui.add_folder("Time", order=1.0):
            self._pause = gui.add_button("Pause")
            self._on(self._pause.on_click, self._toggle)
            self._on(gui.add_button("Step").on_click, self._step)
            self._on(gui.add_button("Reset").on_click, viewer.reset)
            self.speed = gui.add_slider("Speed", *SPEEDS, 1.0)
            self._on(self.speed.on_update, lambda: setattr(viewer, "speed", float(read(self.speed, viewer.speed))))
        with gui.add_folder("View", order=2.0):
            self._add_view(gui)
        if len(pilots) > 1 or tasks:
            with gui.add_folder("Policy", order=3.0):
                if tasks:
                    self._add_tasks(gui, tasks)
                choice = gui.add_dropdown("Acting", pilots, initial_value=pilots[0])
                self._on(choice.on_update, lambda: viewer.choose_pilot(read(choice, pilots[0])))
        for label, action in (
            ("Pause or go on", self._toggle),
            ("One control step", self._step),
            ("New episodes", viewer.reset),
        ):
            self._on(gui.add_command(label, hotkey=KEYS[label]).on_trigger, action)

    def _add_view(self, gui: Any) -> None:
        viewer = self._viewer
        if viewer.env.num_envs > 1:
            world = gui.add_dropdown("World", [str(i) for i in range(viewer.env.num_envs)], initial_value="0")
            self._on(world.on_update, lambda: viewer.choose_world(int(read(world, "0"))))
            beside = gui.add_checkbox("Side by side", True)

            def choose() -> None:
                viewer.side_by_side = read(beside, True)
                viewer.show_worlds()

            self._on(beside.on_update, choose)
        follow = gui.add_checkbox("Follow", True)
        self._on(follow.on_update, lambda: setattr(viewer, "follow", read(follow, True)))
        forces = gui.add_checkbox("Contact forces", False)
        self._on(forces.on_update, lambda: setattr(viewer, "forces", read(forces, False)))
        self.shadows = gui.add_checkbox("Shadows", False, hint="Costs pictures a second where there is no GPU.")
        self._on(self.shadows.on_update, lambda: viewer.cast_shadows(read(self.shadows, False)))
        gui.add_markdown("Ctrl and the left mouse button drag a body.")

    def _add_tasks(self, gui: Any, tasks: list[str]) -> None:
        here = self._viewer.env.task_id
        task = gui.add_dropdown("Task", [here, *(t for t in tasks if t != here)], initial_value=here)

        def choose() -> None:
            chosen = read(task, here)
            if chosen != here and not self._viewer.choose_task(chosen):
                task.value = here

        self._on(task.on_update, choose)

    def _on(self, register: Callable[[Callable[[Any], None]], Any], action: Callable[[], None]) -> None:
        """Have an action done between two control steps when something on the page is used."""
        register(lambda _: self._viewer.do(action))

    def _toggle(self) -> None:
        self._viewer.paused = not self._viewer.paused
        self._pause.label = "Go on" if self._viewer.paused else "Pause"

    def _step(self) -> None:
        if not self._viewer.paused:
            self._toggle()
        self._viewer.step_once()

    def tell(self, figures: Mapping[str, str]) -> None:
        """Show figures by name."""
        text = "  \n".join(f"{name.replace('_', ' ')}: **{value}**" for name, value in figures.items())
        if text != self._text.content:
            self._text.content = text

    def warn(self, sentence: str) -> None:
        """Show a sentence to everybody who looks."""
        for client in self._viewer.server.get_clients().values():
            client.add_notification("rookery", sentence, auto_close_seconds=8.0, color="orange")
