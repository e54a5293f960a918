"""The live viewer: steps an environment in real time and shows it on a page in the browser.

One thread, that of `Viewer.run`, touches the environment. What people do on the page arrives in threads of the server and
waits in a queue until that thread is between two control steps.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.env import Act, Env
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.rendering.camera import body_radius, default_focus
from rookery.sim.rendering.frame import FrameStage
from rookery.sim.viewing.commands import CommandPanel
from rookery.sim.viewing.drawing import Drawing, Poses
from rookery.sim.viewing.forces import contact_arrows
from rookery.sim.viewing.hand import Hand
from rookery.sim.viewing.look import cast_shadows, set_page
from rookery.sim.viewing.page import first_view, look_again
from rookery.sim.viewing.panel import Panel
from rookery.sim.viewing.plots import Plots
from rookery.sim.viewing.poses import stage_poses
from rookery.sim.viewing.spectators import Spectators

if TYPE_CHECKING:
    import mujoco
    from viser import ViserServer

Floats = NDArray[np.float64]
Pilots = Mapping[str, Callable[[], Act]]
Shown = tuple[Env, Pilots]
"""An environment and what may act in it."""
FRAMES = 60.0
"""1/s, as many pictures as most screens show."""
BEHIND = 0.25
"""s of simulated time that a slow computer may owe; it shows slow motion then."""
SAVING = 0.05
"""s, the same where the viewer may only take a share of a processor's time."""


class Viewer:
    """An environment on a page.

    Args:
        server: started by `rookery.sim.viewing.server.open_server`.
        env: the environment.
        pilots: what may act in it, by name, each made when it is chosen; the first acts first.
        seed: of the first reset.
        newer: asked once a second for what is to act from now on; None lets things be.
        tasks: what else may be shown, by name, each made when it is chosen.
        share: of one processor's time that it takes at most; below 1 it shows slow motion where that is not enough.

    Attributes:
        paused, speed: whether time stands still, and simulated s a s.
        rate: 1/s, pictures that the pages get at most.
        world: the world that the camera follows and the panels describe.
        frames, steps: pictures sent and control steps made so far.
        next: what somebody chose to see in place of this, which ended `run`.
    """

    def __init__(
        self,
        server: ViserServer,
        env: Env,
        pilots: Pilots,
        seed: int | None = None,
        newer: Callable[[], Act | None] = lambda: None,
        tasks: Mapping[str, Callable[[], Shown]] = MappingProxyType({}),
        share: float = 1.0,
    ) -> None:
        self.server = server
        self.share = share
        self.env = env
        self.paused = False
        self.speed = 1.0
        self.rate = FRAMES
        self.follow = True
        self.side_by_side = True
        self.forces = False
        self.world = 0
        self.frames = 0
        self.steps = 0
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._pilots = pilots
        self._newer = newer
        self._tasks = tasks
        self.next: Shown | None = None
        self._act = next(iter(pilots.values()))()
        self._hand: Hand | None = None
        self._owed = 0.0
        self._stopped = False
        self._models: dict[str, mujoco.MjModel] = {}
        self._stages: dict[str, FrameStage] = {}
        self._data: dict[int, mujoco.MjData] = {}
        self._observation, _ = env.reset(seed)
        self._time = 0.0
        self.episodes = 0
        self.story = ""
        self._held_world = 0
        set_page(server, env.task_id, shadows=False)
        self.spectators = Spectators(server)
        self._shadows_chosen = False
        self.panel = Panel(self, list(pilots), list(tasks))
        self.commands = CommandPanel(server, env, self.do)
        self.plots = Plots(server, env, self.do)
        self._build()
        look_again(server)

    # The page

    def show_worlds(self) -> None:
        """Draw the chosen world, or all side by side, after a choice has changed."""
        self._release()
        self.commands.clear()
        self._drawing.remove()
        self._build()

    def _build(self) -> None:
        self.shown = list(range(self.env.num_envs)) if self.side_by_side else [self.world]
        models = [self._model(w) for w in self.shown]
        self._focus = default_focus(self._model(self.world))
        self._size = body_radius(self._model(self.world), self._focus)
        self._drawing = Drawing(self.server, models, _grid(models, self.shown, self.world), self._grab)
        self._before = self._now = self._poses()
        self.follow_place = first_view(self.server, self.env, self._model(self.world), self.world, over=True)
        self._draw(1.0)
        self.commands.show(self.world, self._drawing.offsets[self.shown.index(self.world)], self._size)

    def _model(self, world: int) -> mujoco.MjModel:
        """The visual model of a world, one for each task."""
        name = self._name(world)
        if name not in self._models:
            self._models[name] = self.env.visual_model(world)
            self._stages[name] = FrameStage(self._models[name])
        return self._models[name]

    def _name(self, world: int) -> str:
        """The task of a world."""
        return self.env.task_names[int(self.env.task_index[world])]

    # Time

    def do(self, job: Callable[[], None]) -> None:
        """Have a function called between two control steps; from any thread."""
        self._jobs.put(job)

    def run(self, seconds: float | None = None) -> None:
        """Step and show until `stop` or Ctrl-C, or for some s of real time."""
        start = last = time.perf_counter()
        told = drawn = asked = 0.0
        behind = BEHIND if self.share >= 1.0 else SAVING
        counted = time.process_time()
        while not self._stopped and (seconds is None or last - start < seconds):
            now = time.perf_counter()
            passed, last = now - last, now
            self._obey()
            open_pages = self.spectators.look()
            watched = open_pages and self.spectators.see()  # time stands still until the first picture is drawn
            if watched and not self.paused:
                self._owed = min(self._owed + passed * self.speed, max(behind * self.speed, self.env.control_dt))
                while self._owed >= self.env.control_dt and time.perf_counter() - now < 0.1:
                    self._owed -= self.env.control_dt
                    self.step()
                self._draw(self._owed / self.env.control_dt)
            if now - asked > 1.0:
                asked = now
                self._act = self._newer() or self._act
            if watched and now - told > 0.2:
                told = now
                self.panel.tell(self.figures())
                self.plots.draw()
                self._choose_shadows()
            drawn = max(drawn + 1.0 / self.rate, now)
            pause = drawn - time.perf_counter() if open_pages else 0.1
            before, counted = counted, time.process_time()  # sending, in the server's thread, goes on in the pauses
            pause = max(pause, _rest(counted - before, time.perf_counter() - now, self.share))
            if pause > 0:
                time.sleep(pause)

    def stop(self) -> None:
        """Let `run` end; from any thread."""
        self._stopped = True

    def _obey(self) -> None:
        """Do what the page asks for."""
        with contextlib.suppress(Empty):
            while True:
                self._jobs.get_nowait()()

    def _choose_shadows(self) -> None:
        """Cast shadows if all pages draw quickly, once, unless somebody has chosen already."""
        quick = self.spectators.quick()
        if quick is None or self._shadows_chosen:
            return
        self._shadows_chosen = True
        if quick:
            self.panel.shadows.value = True  # which casts them

    def cast_shadows(self, on: bool) -> None:
        """Let bodies cast shadows, or not."""
        self._shadows_chosen = True
        cast_shadows(self.server, on)

    def step(self) -> None:
        """One control step of all worlds."""
        self.commands.hold()
        if self._hand is not None:
            self._hand.pull()
        actions = self._act(self._observation)
        self._observation, _, _, _, info = self.env.step(actions)
        self.steps += 1
        self._time += self.env.control_dt
        self.plots.note(self._time, actions)
        self._before = self._now
        self._now = self._poses()
        self._note_ends(info)

    def _note_ends(self, info: Mapping[str, Any]) -> None:
        """Worlds whose episode ended jump to their new start."""
        ended = info.get("episode")
        if ended is None:
            return
        ids = [int(i) for i in ended["ids"]]
        for w in set(ids) & set(self.shown):
            rows = self._drawing.geoms(self.shown.index(w))
            self._before.pos[rows] = self._now.pos[rows]
            self._before.quat[rows] = self._now.quat[rows]
        self.episodes += len(ids)
        success = ended["metrics"].get("success")
        if self.world in ids and success is not None:
            self.story = "success" if float(success[ids.index(self.world)]) > 0.5 else "no success"

    def step_once(self) -> None:
        """One control step while time stands still."""
        self.step()
        self._draw(1.0)

    def reset(self) -> None:
        """New episodes in all worlds."""
        self._observation, _ = self.env.reset()
        self._release()
        self.plots.clear()
        self._before = self._now = self._poses()
        self._owed = 0.0
        self._draw(1.0)

    def choose_world(self, world: int) -> None:
        """Follow and describe another world."""
        self.world = world
        self.plots.choose_world(world)
        self.story = ""
        self.show_worlds()

    def choose_task(self, name: str) -> bool:
        """End, so that something else is shown; whether it can be. The page says why not."""
        self.panel.tell({"loading": name})
        try:
            self.next = self._tasks[name]()
        except RookeryError as error:
            self.panel.warn(str(error))
            return False
        self.stop()
        return True

    def choose_pilot(self, name: str) -> None:
        """Let another policy act; the page says why where it cannot."""
        try:
            act = self._pilots[name]()
        except RookeryError as error:
            self.panel.warn(str(error))
            return
        self._act = act
        self.reset()

    # Pictures

    def _poses(self) -> Poses:
        """Poses of the shown worlds' geoms now."""
        found = []
        for w in self.shown:
            self._model(w)
            data = self._data[w] = self.env.mj_data(w, self._data.get(w))
            found.append(stage_poses(self._stages[self._name(w)], data))
        return Poses(np.concatenate([p.pos for p in found]), np.concatenate([p.quat for p in found]))

    def _draw(self, share: float) -> None:
        """Send a picture, `share` of the way from the control step before to the last one."""
        drawing = self._drawing
        poses = self._before.towards(self._now, share)
        at = self.shown.index(self.world)
        with self.server.atomic():
            drawing.show(poses)
            if self.follow and self.follow_place:
                model = self._model(self.world)
                focus = poses.pos[drawing.geoms(at)][model.geom_bodyid == self._focus].mean(0)
                drawing.centre(np.array([*(focus + drawing.offsets[at])[:2], 0.0]))
            drawing.mark([(i, m) for i, w in enumerate(self.shown) for m in self.env.markers(w)])
            self._draw_forces(at)
            self.commands.draw(drawing.offsets[at])
        self.server.flush()  # viser waits 1/60 s after each message otherwise, beside the time that sending takes
        self.frames += 1

    def _draw_forces(self, at: int) -> None:
        pulls = np.zeros((0, 2, 3))
        if self._hand is not None:
            offset = self._drawing.offsets[self.shown.index(self._held_world)]
            pulls = np.array([[self._hand.held + offset, self._hand.mouse + offset]])
        self._drawing.arrows("pull", pulls, 0.02 * self._size, (230, 60, 30))
        arrows = np.zeros((0, 2, 3))
        if self.forces:
            arrows = contact_arrows(self._data[self.world], self._focus, 3.0 * self._size)
            arrows = arrows + self._drawing.offsets[at]
        self._drawing.arrows("contacts", arrows, 0.03 * self._size, (250, 170, 20))

    def figures(self) -> dict[str, str]:
        """Text of the page's first lines, by name."""
        out = {"time": f"{self._time:.1f} s", "episodes ended": str(self.episodes)}
        if self.story:
            out["last of this world"] = self.story
        if self.steps:
            out |= {name: f"{float(x[self.world]):.3g}" for name, x in list(self.env.metrics().items())[:4]}
        return out

    # The mouse

    def _grab(self, shown: int, body: int, phase: str, held: Floats, mouse: Floats) -> None:
        world = self.shown[shown]
        name = self._model(world).body(body).name
        self.do(lambda: self._drag(world, name, phase, held, mouse))

    def _drag(self, world: int, body: str, phase: str, held: Floats, mouse: Floats) -> None:
        if phase == "end":
            self._release()
            return
        if phase == "start":
            self._release()
            env, at = self.env.locate(world)
            if not isinstance(env, VecEnv):
                self.panel.warn("bodies of an environment in several processes cannot be dragged.")
                return
            try:
                self._hand = Hand(env, at, body, held)
                self._held_world = world
            except RookeryError as error:
                self.panel.warn(str(error))
        if self._hand is not None:
            self._hand.mouse = mouse

    def _release(self) -> None:
        if self._hand is not None:
            self._hand.let_go()
            self._hand = None


def _rest(computed: float, passed: float, share: float) -> float:
    """s to wait after `computed` s of processor time in `passed` s, so that it was at most a share of all the time."""
    return max(0.0, computed / share - passed)


def _grid(models: list[mujoco.MjModel], worlds: list[int], first: int) -> Floats:
    """[W, 3] m, where worlds stand side by side: in rows, wide enough apart, the world `first` at the origin. Worlds on a
    height field share it."""
    import mujoco as mj

    if any((m.geom_type == int(mj.mjtGeom.mjGEOM_HFIELD)).any() for m in models):
        return np.zeros((len(worlds), 3))
    gap = 1.2 * max(_reach(m) for m in models)
    columns = int(np.ceil(np.sqrt(len(worlds))))
    places = np.array([(-(i // columns) * gap, (i % columns) * gap, 0.0) for i in range(len(worlds))])
    out: Floats = places - places[worlds.index(first)]
    return out


def _reach(model: mujoco.MjModel) -> float:
    """m, how wide a world is: 2 m at least, and what stands in it with half a meter around."""
    import mujoco as mj

    data = mj.MjData(model)
    mj.mj_kinematics(model, data)
    bounded = np.isin(model.geom_type, [int(mj.mjtGeom.mjGEOM_PLANE)], invert=True) & (model.geom_group <= 2)
    reach = np.abs(data.geom_xpos[bounded, :2]) + model.geom_rbound[bounded, None]
    return 2.0 * max(1.0, float(reach.max(initial=0.0)) + 0.25)
