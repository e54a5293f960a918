"""MetaWorldTask: Meta-World's table-top tasks with a Panda: its observation, action, horizon and success radii.

The tasks are those of Meta-World 3.1.1 (Yu et al., CoRL 2019; github.com/Farama-Foundation/Metaworld) with another robot:
ranges of objects and goals, an observation of 39 numbers, four commands (10 mm a step, 80 Hz), rewards in [0, 10] by the
published algebra, 500 steps. What is different on purpose: the arm is driven within its real limits instead of being dragged
by its hand, seeding is exact, time limits are truncations, nothing depends on the episode before, and quaternions are
w, x, y, z everywhere.

World: x right, y away from the robot, z up, the table's top at z = 0. Fingers point down and close along y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.scenery import table
from rookery.assets.tabletop import plinth
from rookery.sim import quantities
from rookery.sim.errors import unknown
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import TOOL_GOAL, TOOL_POSITION, joint_angles, joint_velocities, own, place, rotation
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.sensors.cameras import KINDS
from rookery.sim.sensors.pictures import PictureConfig, check_pictures, cloud_term, picture_terms
from rookery.sim.specs import Group, Term, Weights
from rookery.sim.terms import Clipped, Constant, Expression, Joined, Previous, Where
from rookery.tasks.manipulation.arm_scene import ArmMount, Box, base_of
from rookery.tasks.manipulation.arm_task import HARDWARE_METRICS, ArmTask
from rookery.tasks.manipulation.front_camera import CROP, LENSES, add_front_camera

BASE = (0.0, 0.17, 0.2)
"""m, of the Panda, on a plinth. All places of the ten tasks are within its reach from there (tested), but (0.3, 0.9), by
15 mm: from the table's height none is near enough to the far goals and far enough from the near ones (a folded arm begins
0.3 m ahead of its base)."""
FACING = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))  # towards +y
BOX: Box = ((-0.40, 0.36, 0.012), (0.40, 0.92, 0.45))
"""m, world, where the tool may go: down to where its finger tips touch the table."""
PALM = 0.045
"""m, from the tool up to the point that Meta-World calls the hand, and observes."""
OPENING = 0.08  # m, of the open gripper; observed as 1
CARRY = 0.15  # m, height of the tool at the start
DEFAULT_RANDOMIZATION = {
    "pad_friction": Range(0.6, 1.5),
    "joint_damping": Range(0.5, 3.0),
    "observation_noise": Range(1.0, 1.0),
    "observation_delay": Range(0.0, 0.033),  # s, one picture of a camera at 30 Hz
    "action_delay": Range(0.0, 0.0125),
}


@dataclass(frozen=True)
class MetaWorldConfig(PictureConfig):
    """Values that all Meta-World tasks share."""

    robot: str = "panda"  # an arm by its name, or the path of a URDF or MJCF file (docs/own_robot.md)
    image_range_m: float = 3.0  # m, farthest that cameras see
    points: int = 128  # of obs=points: in a cloud of both cameras
    action: str = "cartesian"  # see robots.manipulators.action_kinds
    observation: str = "meta_world"  # its 39 numbers; "full" adds the robot's joints and where its command is
    hide_goal: bool = False  # the goal is observed as zeros, as in ML10: to be found out
    stop_at_success: bool = False  # an episode terminates when the task is done
    episode_s: float = 6.25  # s, 500 steps
    control_dt: float = 0.0125  # s
    dt: float = 0.0125 / 3  # s
    reward: Weights = Weights(score=1.0, torques=0.0)  # torques: see ArmTask.rewards; Meta-World has none


OBJECTS = ("first", "second")
GOAL = place("goal's position")


def _pose(which: str) -> Expression:
    """The pose of an object; zeros where there is none."""
    pose = Joined((place(f"{which} object's position"), rotation(f"{which} object's rotation", f"{which} object")))
    return Where(pose, own(f"1 where there is a {which} object", 1), "zeros where there is none")


def first_apart(places: Tensor, separation: float) -> Tensor:
    """[2, n, 3] m: of pairs of places [n, tries, 2, 3] m the first that is `separation` m apart in x and y, or the first of
    all."""
    apart = (places[:, :, 0, :2] - places[:, :, 1, :2]).norm(dim=-1) >= separation
    first = apart.to(torch.uint8).argmax(1)
    return places[torch.arange(len(places)), first].transpose(0, 1)


class MetaWorldTask(ArmTask):
    """Base of the Meta-World tasks. Success: the task was done at any step, as Meta-World counts.

    Attributes:
        target: [N, 3] m, world: where the object, or the tool, is to go.
        frame: [N, 18], observed now: the hand, its opening, `first` and `second`. before: one step ago.
        first, second: [N, 7] m and wxyz, world: poses of objects, parts of `frame`; zeros where there is none.
        closing: [N], of the gripper as commanded, 1 closes.
        tool_0, first_0: [N, 3] m, of the tool and the first object when the episode began.
    """

    metric_definitions = MappingProxyType(
        {
            "success": "1 where the task was done at any control step, as Meta-World counts",
            "success_at_end": "1 where the task is done at the last control step",
            "seconds": "s, until it was first done; the time so far while it was not",
            **HARDWARE_METRICS,
        }
    )

    Config: ClassVar[type] = MetaWorldConfig
    interface: ClassVar[tuple[str, ...]] = (
        "observation",
        "hide_goal",
        "obs",
        "image_width",
        "image_height",
        "image_range_m",
        "points",
    )
    causes = ("done",)
    default_randomization = DEFAULT_RANDOMIZATION
    camera: Any = ((0.9, -0.15, 0.75), (0.0, 0.62, 0.12))
    mounts: ClassVar = {"arm": ArmMount(None, BASE, FACING)}
    across: ClassVar = True
    box: ClassVar = BOX
    start: ClassVar = (0.0, 0.6, CARRY)
    """m, world, of the tool when an episode begins."""
    integrator: ClassVar = "discrete"
    """MuJoCo's, whose contacts include the servos' damping. With "implicitfast" the contact solver takes fingers and arm for
    freer than they are: fingers sink 3.6 mm into what they hold while the arm moves, and it rocks (measured; with this,
    0.4 mm)."""
    separation: ClassVar[float] = 0.0
    """m, least distance in x and y of object and goal."""
    radius: ClassVar[float | None] = None
    """m, of `misses`, within which the task is done; None where that is not the rule."""

    target: Tensor
    first: Tensor
    second: Tensor
    closing: Tensor
    tool_0: Tensor
    first_0: Tensor
    frame: Tensor
    before: Tensor

    # Setup

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        check_pictures(self.cfg, ("state", *KINDS, "points"))
        if self.cfg.observation not in ("meta_world", "full"):
            raise unknown("observation", self.cfg.observation, ("meta_world", "full"))

    def add_arms(self, scene: Scene) -> None:
        super().add_arms(scene)
        x, y, height = base_of(self.mounts["arm"], self.model.nearer)
        scene.add(lambda: plinth(height), "plinth", pos=(x, y, 0.0))

    def ground(self) -> mujoco.MjSpec:
        """The table, its top at z = 0."""
        return add_front_camera(table())

    def world_box(self, mount: ArmMount) -> Box:
        return self.box

    def setup(self) -> None:
        super().setup()
        world = self.world
        n = world.num_envs
        boxes = torch.tensor((self.object_box, self.object_box if self.goal_box is None else self.goal_box)).double()
        self._low, self._size = boxes[:, 0], boxes[:, 1] - boxes[:, 0]
        self._palm = torch.tensor((0.0, 0.0, PALM))
        self._start_joints = self.robot.joints_for(torch.tensor([self.start]))
        for name in ("target", "tool_0", "first_0"):
            self.buffer(name, n, 3)
        self.buffer("closing", n)
        self.buffer("frame", n, 18)
        self.buffer("before", n, 18)
        self.first = self.frame[:, 4:11]
        self.second = self.frame[:, 11:]
        self._frame, self._before, self._closing = (b.numpy() for b in (self.frame, self.before, self.closing))
        self._tool_0, self._first_0, self._goal = (b.numpy() for b in (self.tool_0, self.first_0, self.robot.goal))
        self._target = self.target.numpy()
        self._observed = self._views()
        if self.cfg.obs != "state":
            self._observed = {k: v for k, v in self._observed.items() if not k.startswith("object_")}

    def _views(self) -> dict[str, Tensor]:
        """The terms that every observation has, [N, 1, d]: views of what `refresh` keeps up to date."""
        out: dict[str, Tensor] = {}
        for suffix, f in (("", self.frame[:, None]), ("_before", self.before[:, None])):
            out |= {
                f"hand{suffix}": f[..., 0:3], f"opening{suffix}": f[..., 3:4],
                f"object_1{suffix}": f[..., 4:11], f"object_2{suffix}": f[..., 11:18],
            }  # fmt: skip
        return out | {"goal": (torch.zeros_like(self.target) if self.cfg.hide_goal else self.target)[:, None]}

    def groups(self) -> dict[str, Group]:
        return {group: Group(1, self.observation_terms(group), arm.spec) for group, arm in self.arms.items()}

    def observation_terms(self, group: str) -> tuple[Term, ...]:
        palm = Constant((0.0, 0.0, PALM), "m", "world")
        one = (
            Term("hand", TOOL_POSITION + palm, noise=0.001),
            Term("opening", Clipped(quantities.OPENING / OPENING, 0.0, 1.0)),
            *(
                Term(f"object_{i}", _pose(which), noise=0.002, estimated="object's pose")
                for i, which in enumerate(OBJECTS, 1)
            ),
        )
        old = tuple(replace(t, name=f"{t.name}_before", value=Previous(t.expression)) for t in one)
        hidden = Constant((0.0, 0.0, 0.0), "m", "world", "0, the goal is hidden", place=True)
        goal = Term("goal", hidden if self.cfg.hide_goal else GOAL)
        pictures = self.pictures()
        terms = (*one[:2], *old[:2], goal, *pictures) if pictures else (*one, *old, goal)
        if self.cfg.observation == "full":
            count = len(self.model.joints)
            terms += (
                Term("joint_position", joint_angles(count), noise=0.001),
                Term("joint_velocity", joint_velocities(count), noise=0.01),
                Term("command", TOOL_GOAL - TOOL_POSITION, scale=10.0, initial="0"),
            )
        return terms

    def pictures(self) -> tuple[Term, ...]:
        """Pictures in place of the objects' poses, declared; the robot's own state and the goal stay."""
        lenses = (LENSES[0], f"{self.robot.name}/{LENSES[1]}")
        if self.cfg.obs == "points":
            return (cloud_term(self.cfg, self.cfg.points, lenses, CROP),)
        return picture_terms(self.cfg, [lenses], "cameras front and wrist")

    @property
    def first_pose(self) -> Tensor:
        """[N, 7] m and wxyz, world: the first object's as the engine has it now, which `refresh` keeps in `first`."""
        return self.first

    def quantities(self, group: str) -> dict[str, Tensor]:
        out = {GOAL.name: self.target}
        for which, pose in zip(OBJECTS, (self.first_pose, self.second), strict=True):
            there = (pose != 0.0).any(1, keepdim=True)
            out |= {f"{which} object's position": pose[:, :3], f"{which} object's rotation": pose[:, 3:]}
            out[f"1 where there is a {which} object"] = there.float()
        return out

    # Episodes

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        where = ids.numpy()
        self._tool_0[where] = self._goal[where]
        frames = self._frame[where]
        self._first_0[where] = frames[:, 4:7]
        self._before[where] = frames
        self._closing[where] = 0.0

    def start_joints(self, ids: Tensor, group: str) -> Tensor:
        return self._start_joints.expand(len(ids), -1)

    def middle_start(self, group: str) -> Tensor:
        return self._start_joints

    def draw_places(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Places of objects and goals [n, 3] m; pairs too near are drawn again, each from its world's own stream."""
        rng = self.rng(ids)
        tries = 16 if self.separation else 1  # a fixed number, so that streams do not depend on the draws
        pairs = self._low + self._size * rng.uniform(0.0, 1.0, (tries, 2, 3)).double()
        objects, goals = first_apart(pairs.float(), self.separation)
        return objects, goals

    def apply(self, actions: dict[str, Tensor]) -> None:
        self._before[:] = self._frame
        if self.robot.grips:
            self._closing[:] = self.given["arm"].numpy()[:, 0, -1]
        super().apply(actions)

    def refresh(self, arms: bool = True) -> None:
        super().refresh(arms)
        torch.add(self.robot.tool, self._palm, out=self.frame[:, :3])
        torch.clamp(self.robot.opening / OPENING, 0.0, 1.0, out=self.frame[:, 3])

    def observe(self) -> dict[str, dict[str, Tensor]]:
        return {"arm": self._observed | {k: v[:, None] for k, v in self.observation("arm").items()}}

    def observation(self, group: str) -> dict[str, Tensor]:
        """The values [N, d] that are not views of the frame."""
        out: dict[str, Tensor] = {}
        if self.cfg.observation == "full":
            arm = self.robot
            out |= {"joint_position": arm.pos, "joint_velocity": arm.vel, "command": (arm.goal - arm.tool).float()}
        return out

    def terminated(self) -> Tensor:
        return self.done.long() if self.cfg.stop_at_success else torch.zeros_like(self.steps)

    def misses(self) -> Tensor:
        """[N] m, how far from done the task is now, see `radius`: the object from the goal."""
        return (self.first[:, :3] - self.target).norm(dim=1)

    def gauges(self, i: int) -> list[Gauge]:
        return [] if self.radius is None else [Gauge("distance to the goal", float(self.misses()[i]), self.radius, "m")]

    def success(self) -> Tensor:
        return self.ever_done

    def metrics(self) -> dict[str, Tensor]:
        seconds = self.steps_to_done * self.cfg.control_dt
        own = {"success": self.success().float(), "success_at_end": self.done.float(), "seconds": seconds}
        return own | self.strain.metrics(self.steps)

    def markers(self, i: int) -> list[dict[str, Any]]:
        return [{"pos": self.target[i].tolist(), "size": 0.015, "rgba": [0.9, 0.2, 0.1, 0.7], "trail": False}]
