"""What the table-top tasks share: a Panda behind a table, Meta-World's observation, action, horizon and success radii.

The tasks are Meta-World's (Yu et al., CoRL 2019; version 3.1.1; facts 4) with another robot: ranges of objects and goals,
39 numbers seen, four commanded (10 mm a step, 80 Hz), rewards in [0, 10] by the published algebra, 500 steps. What is
different on purpose: the arm is driven within its real limits instead of being dragged by its hand, seeds are honest, time
limits are truncations, nothing remembers the episode before, and quaternions are w, x, y, z everywhere.

World: x right, y away from the robot, z up, the table's top at z = 0. Fingers point down and close along y.

A task is a short file: what stands there (`furnish`), where (`place`), what is seen of it (`see`), how it is judged
(`judge`), and how it can be done (`plan`).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.scenery import table
from rookery.assets.tabletop import plinth
from rookery.robots.manipulators.panda import STEP, Panda, add_panda
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.specs import Group, Term, Weights
from rookery.sim.task import Task
from rookery.tasks.manipulation.vision import PictureConfig, Pictures, add_front_camera, picture_terms

BASE = (0.0, 0.17, 0.2)
"""m, of the Panda, on a plinth. All places of the ten tasks are within its reach from there (tested), but (0.3, 0.9), by
15 mm: from the table's height none is near enough to the far goals and far enough from the near ones (a folded arm begins
0.3 m ahead of its base)."""
HOME = (0.0, 0.1, 0.0, -2.0, 0.0, 2.1, -math.pi / 4)
"""rad: fingers close along y. The Panda's own (7th joint at pi / 4) would have them close along x."""
FACING = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))  # towards +y
BOX = ((-0.40, 0.36, 0.012), (0.40, 0.92, 0.45))
"""m, where the tool may go: down to where its finger tips touch the table."""
PALM = 0.045
"""m, from the tool up to the point that Meta-World calls the hand, and observes."""
OPENING = 0.08  # m, of the open gripper; observed as 1
CARRY = 0.15  # m, height of the tool at the start
INTEGRATOR = "discrete"
"""MuJoCo's, whose contacts know of the servos' damping. With "implicitfast" the contact solver takes fingers and arm for freer
than they are: fingers sink 3.6 mm into what they hold while the arm moves, and it rocks (measured; with this, 0.4 mm)."""
DEFAULT_RANDOMIZATION = {
    "pad_friction": Range(0.6, 1.5),
    "joint_damping": Range(0.5, 3.0),
    "observation_noise": Range(1.0, 1.0),
    "observation_delay": Range(0.0, 0.0125),
    "action_delay": Range(0.0, 0.0125),
}


@dataclass(frozen=True)
class TabletopConfig(PictureConfig):
    """Values that all table-top tasks share."""

    action: str = "cartesian"  # see robots.manipulators.panda.KINDS
    observation: str = "meta_world"  # its 39 numbers; "full" adds the robot's joints and where its command is
    hide_goal: bool = False  # the goal is seen as zeros, as in ML10: to be found out
    stop_at_success: bool = False  # an episode terminates when the task is done
    episode_s: float = 6.25  # s, 500 steps
    control_dt: float = 0.0125  # s
    dt: float = 0.0125 / 3  # s
    reward: Weights = Weights(score=1.0)


class Tabletop(Task):
    """Base of the table-top tasks. Success: the task was done at any step, as Meta-World counts.

    Attributes:
        robot: the Panda.
        target: [N, 3] m, world: where the object, or the tool, is to go.
        frame: [N, 18], what is seen of now: the hand, its opening, `first` and `second`. before: of a step ago.
        first, second: [N, 7] m and wxyz, world: places of what is handled, parts of `frame`; zeros for nothing.
        effort: [N], of the gripper as commanded, 1 closes.
        tool_0, first_0: [N, 3] m, of the tool and the first object when the episode began.
        when: [N] control steps until the task was first done, or so far.
    """

    Config: ClassVar[type] = TabletopConfig
    causes = ("done",)
    default_randomization = DEFAULT_RANDOMIZATION
    camera: Any = ((0.9, -0.15, 0.75), (0.0, 0.62, 0.12))
    cfg: TabletopConfig
    start: ClassVar[tuple[float, float, float]] = (0.0, 0.6, CARRY)
    """m, of the tool when an episode begins."""
    objects: ClassVar[tuple[tuple[float, float, float], tuple[float, float, float]]]
    """m, corners of the box in which the object (or the fixture) begins."""
    goals: ClassVar[tuple[tuple[float, float, float], tuple[float, float, float]] | None] = None
    """m, corners of the box of goals; None where the goal follows from the object."""
    apart: ClassVar[float] = 0.0
    """m, least distance in x and y of object and goal."""

    target: Tensor
    first: Tensor
    second: Tensor
    effort: Tensor
    tool_0: Tensor
    first_0: Tensor
    score: Tensor
    done: Tensor
    ever: Tensor
    when: Tensor
    frame: Tensor
    before: Tensor

    # What a task says

    def furnish(self, scene: Scene) -> Scene:
        """Add what stands on the table."""
        return scene

    @abc.abstractmethod
    def place(self, ids: Tensor, objects: Tensor, goals: Tensor) -> None:
        """Put things where an episode begins, and set `self.target[ids]`.

        Args:
            objects, goals: [n, 3] m, drawn from the boxes `objects` and `goals`.
        """

    def see(self) -> None:
        """Bring `self.first` and `self.second` up to date."""

    @abc.abstractmethod
    def judge(self) -> tuple[Tensor, Tensor]:
        """The reward [N] in [0, 10], and whether it is done [N] bool, from the state as of `see`."""

    @abc.abstractmethod
    def plan(self) -> tuple[Tensor, Tensor]:
        """What the scripted expert wants: the tool at [N, 3] m, world, and the gripper's effort [N]."""

    # The frame around it

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        if self.cfg.observation not in ("meta_world", "full"):
            raise unknown("observation", self.cfg.observation, ("meta_world", "full"))

    def scene(self) -> Scene:
        scene = Scene(self.ground, dt=self.cfg.dt, integrator=INTEGRATOR)
        add_panda(scene, action=self.cfg.action, pos=BASE, quat=FACING)
        scene.add(lambda: plinth(BASE[2]), "plinth", pos=(BASE[0], BASE[1], 0.0))
        return self.furnish(scene)

    def ground(self) -> mujoco.MjSpec:
        """The table, its top at z = 0."""
        return add_front_camera(table())

    def setup(self) -> None:
        world = self.world
        n = self.world.num_envs
        self.robot = Panda(world, action=self.cfg.action, control_dt=self.cfg.control_dt, home=HOME, box=BOX)
        self.child("robot", self.robot)
        low, high = torch.tensor((self.objects, self.objects if self.goals is None else self.goals)).unbind(1)
        self._low = low
        self._wide = high - low
        self._joints_0 = self.robot.joints_for(torch.tensor([self.start]))
        for name in ("target", "tool_0", "first_0"):
            self.buffer(name, n, 3)
        for name in ("effort", "score", "when"):
            self.buffer(name, n)
        for name in ("done", "ever", "fresh"):
            self.buffer(name, n, dtype=torch.bool)
        self.buffer("frame", n, 18)
        self.buffer("before", n, 18)
        self._hand = self.frame[:, :3]
        self._opening = self.frame[:, 3]
        self.first = self.frame[:, 4:11]
        self.second = self.frame[:, 11:]
        self._palm = torch.tensor([0.0, 0.0, PALM])
        self._seen = self._views()
        self._stale = self._begun = False
        self._pictures = None
        if self.cfg.obs != "state":
            self._pictures = Pictures(world, self.cfg, self.rng)
            self.child("visual", self._pictures.visual)
            self._seen = {name: value for name, value in self._seen.items() if not name.startswith("object_")}

    def _views(self) -> dict[str, Tensor]:
        """The terms that every observation has, [N, 1, d]: views of what `look` keeps up to date."""
        out: dict[str, Tensor] = {}
        for suffix, f in (("", self.frame[:, None]), ("_before", self.before[:, None])):
            out |= {
                f"hand{suffix}": f[..., 0:3], f"opening{suffix}": f[..., 3:4],
                f"object_1{suffix}": f[..., 4:11], f"object_2{suffix}": f[..., 11:18],
            }  # fmt: skip
        return out | {"goal": (torch.zeros_like(self.target) if self.cfg.hide_goal else self.target)[:, None]}

    fresh: Tensor
    _pictures: Pictures | None

    def groups(self) -> dict[str, Group]:
        one = (
            Term("hand", 3, "m", "world", noise=0.001), Term("opening", 1, "1", "of the open gripper"),
            Term("object_1", 7, "m, 1", "world, position and quaternion wxyz", noise=0.002),
            Term("object_2", 7, "m, 1", "world, position and quaternion wxyz", noise=0.002),
        )  # fmt: skip
        old = tuple(
            Term(f"{t.name}_before", t.size, t.unit, f"{t.frame}, a step ago".lstrip(", "), noise=t.noise) for t in one
        )
        shown = picture_terms(self.cfg)
        if shown:
            terms = (*one[:2], *old[:2], Term("goal", 3, "m", "world"), *shown)
        else:
            terms = (*one, *old, Term("goal", 3, "m", "world"))
        if self.cfg.observation == "full":
            terms += (
                Term("joint_position", 7, "rad", noise=0.001), Term("joint_velocity", 7, "rad/s", noise=0.01),
                Term("command", 3, "m", "world, the tool's goal minus the tool", scale=10.0),
            )  # fmt: skip
        return {"arm": Group(1, terms, self.robot.spec)}

    def parameters(self) -> dict[str, Parameter]:
        return self.robot.parameters() | ({} if self._pictures is None else self._pictures.parameters())

    def reset(self, ids: Tensor) -> None:
        self.robot.reset(ids, self._joints_0.expand(len(ids), 7))
        self.tool_0[ids] = self.robot.goal[ids].float()
        objects, goals = self._draw(ids)
        self.place(ids, objects, goals)
        self.ever[ids] = self.done[ids] = False
        self.score[ids] = self.when[ids] = self.effort[ids] = 0.0
        self.fresh[ids] = True
        self._begun = True

    def _draw(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Places of objects and goals [n, 3] m; pairs too near are drawn again, each from its world's own stream."""
        rng = self.rng(ids)
        n = len(ids)
        tries = 16 if self.apart else 1  # always as many, so that streams do not depend on each other's luck
        places = torch.addcmul(self._low, rng.uniform(0.0, 1.0, (tries, 2, 3)), self._wide)
        if tries == 1:
            objects, goals = places[:, 0].unbind(1)
            return objects, goals
        apart = (places[:, :, 0, :2] - places[:, :, 1, :2]).norm(dim=-1) >= self.apart
        objects, goals = places[torch.arange(n), apart.int().argmax(1)].unbind(1)
        return objects, goals

    def apply(self, actions: dict[str, Tensor]) -> None:
        self.before.copy_(self.frame)
        a = actions["arm"]
        self.effort.copy_(self.given["arm"][:, 0, -1])
        self.robot.apply(a[:, 0] if a.dim() == 3 else a[:, :, 0])

    def advance(self) -> None:
        self.look()
        score, done = self.judge()
        self.score.copy_(score)
        self.done.copy_(done)
        self.when += ~self.ever
        self.ever |= done

    def look(self) -> None:
        """Everything seen, up to date."""
        self.robot.refresh()
        self._show()

    def _show(self) -> None:
        """Everything seen, up to date, where the robot is already."""
        self.see()
        torch.add(self.robot.tool, self._palm, out=self._hand)
        torch.div(self.robot.opening, OPENING, out=self._opening).clamp_(0.0, 1.0)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self._stale = self._begun = True

    def observe(self) -> dict[str, dict[str, Tensor]]:
        if self._stale:
            self.robot.refresh()
            self._stale = False
        if self._begun:
            self._show()
            self.before[self.fresh] = self.frame[self.fresh]
            self.first_0[self.fresh] = self.first[self.fresh, :3]
            self.fresh.fill_(False)
            self._begun = False
        out = self._seen
        if self.cfg.observation == "full":
            r = self.robot
            ahead = (r.goal - r.tool).float()
            out = out | {"joint_position": r.pos[:, None], "joint_velocity": r.vel[:, None], "command": ahead[:, None]}
        if self._pictures is not None:
            out = out | self._pictures.observe()
        return {"arm": out}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        return {"arm": {"score": self.score[:, None]}}

    def terminated(self) -> Tensor:
        return self.done.long() if self.cfg.stop_at_success else torch.zeros_like(self.steps)

    def metrics(self) -> dict[str, Tensor]:
        seconds = self.when * self.cfg.control_dt
        return {"success": self.ever.float(), "success_at_end": self.done.float(), "seconds": seconds}

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]] | None:
        """The scripted expert of the task: it reads the true state, and moves the tool straight to where `plan` says."""
        if self.cfg.action != "cartesian":
            return None

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            tool, effort = self.plan()
            move = ((tool - self.robot.goal.float()) / STEP).clamp(-1.0, 1.0)
            return {"arm": torch.cat((move, effort[:, None]), 1)[:, None]}

        return act

    def markers(self, i: int) -> list[dict[str, Any]]:
        return [{"pos": self.target[i].tolist(), "size": 0.015, "rgba": [0.9, 0.2, 0.1, 0.7], "trail": False}]

    def within_reach(self, places: Tensor) -> None:
        """Refuse goals that the tool cannot go to.

        Args:
            places: [n, 3] m, world.

        Raises:
            RookeryError: one of them is outside BOX.
        """
        low, high = torch.tensor(BOX)
        outside = ((places < low - 1e-6) | (places > high + 1e-6)).any(1)
        if outside.any():
            place = ", ".join(f"{v:.3f}" for v in places[outside][0].tolist())
            raise RookeryError(
                f"the goal ({place}) m is outside the workspace: choose x from {BOX[0][0]} to {BOX[1][0]}, y from "
                f"{BOX[0][1]} to {BOX[1][1]}, z from {BOX[0][2]} to {BOX[1][2]} m."
            )
