"""Fetch: a Go2 with an arm walks to a ball that lies on the floor, picks it up and brings it back to where it started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets import workshop
from rookery.robots.arms.kinematics import Kinematics, Place
from rookery.sim.actuation import Actuation
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import OPENING, POSITION, ROTATION, TOOL_POSITION, body, own, place
from rookery.sim.rotations import matrix, multiply, rotate
from rookery.sim.scene import Scene
from rookery.sim.specs import Command, Group, Term, Weights
from rookery.sim.terms import Heading
from rookery.tasks.locomanip.base import FINGERS, HARDWARE_METRICS, for_grasping
from rookery.tasks.locomanip.commanded import CommandedTask
from rookery.tasks.locomanip.config import LeggedConfig
from rookery.tasks.locomanip.generators import BALL_RADIUS, OPEN, TIPS_UP
from rookery.tasks.locomanip.goal_terms import goal_terms
from rookery.tasks.locomanip.kernels import pose_errors, to_trunk_frame
from rookery.tasks.locomanip.reach import AHEAD_S
from rookery.tasks.locomanip.tool_leads import lead_words, led, pitched
from rookery.tasks.locomanip.tool_pose import tool_in_world, tool_quantities

STOW = (0.42, 0.0, 0.36)
"""m, in the stance frame (goals.MovingGoals): ahead of the trunk, high enough to walk with, low enough to grasp from."""
STOW_PITCH = 1.2  # rad, downwards
GRASP_PITCH = 1.4  # rad, downwards, as in the family "pick-ball" of the library
ABOVE_M = 0.10  # m, over the ball, from where the tool comes down on it
LEVEL_M = 0.01  # m, level, within which the tool may be anywhere above it
FUNNEL = 2.5  # m that it stays above it for each further one
SQUEEZE = 0.03
"""m, how much narrower than the ball the gripper's target is: with the library's 0.015 more of them are lost on the way."""
CARRIED_M = 0.06  # m, from the tool centre, within which the ball is in the hand
LIFTED_M = 0.08  # m, of the ball's middle, above which it is carried
GRIP = 2.0 * BALL_RADIUS - SQUEEZE  # m, between the fingers, that a closed hand is told
GOALS = {
    "grasp": (
        f"{TIPS_UP:g} m above the ball's middle, and {FUNNEL:g} m higher for each m that the tool is farther than {LEVEL_M:g} "
        f"m from there as seen from above, {ABOVE_M:g} m higher at most",
        f"x axis {GRASP_PITCH:g} rad below level, towards the ball as seen from the trunk, y axis level",
    ),
    "stow": (
        f"{STOW[0]:g} m ahead of the trunk along its heading, {STOW[2]:g} m above the ground",
        f"x axis {STOW_PITCH:g} rad below level along the trunk's heading, y axis level",
    ),
}
"""Goals of the tool: words for the place and the orientation that each leads it to, for those who compute them on a robot."""


@dataclass(frozen=True)
class FetchConfig(LeggedConfig):
    """Values of go2arm-fetch."""

    arm: str = "airbot_play"  # no other
    history: int = 5  # frames, as many as the policy of go2arm-loco-manipulation observes, which is the skill
    near_m: float = 1.0  # m, least distance of the ball from the start
    far_m: float = 2.0  # m, largest
    side_rad: float = 1.0  # rad, largest angle of the ball off the robot's heading
    grip_m: float = 0.025  # m, from the tool centre: nearer, the hand closes on the ball
    goal_m: float = 0.4  # m, level, from the start: where a ball that is carried counts as brought back
    bounds_m: float = 4.0  # m, from the start; farther is out of bounds
    episode_s: float = 30.0  # s
    max_vx: float = 0.7  # m/s *
    max_back: float = 0.7  # m/s *
    max_vy: float = 0.2  # m/s *
    max_yaw_rate: float = 1.2  # rad/s *
    start_joints: float = 0.05  # rad
    push_s: float = 0.0  # s, mean time between pushes; 0 for none
    reward: Weights = Weights(reaching=5.0, lifted=3.0, progress=5.0, delivered=10.0, dropped=-1.0, termination=-10.0)


class Fetch(CommandedTask):
    """A Go2 with an arm walks to a ball on the floor, picks it up and brings it back to where it started.

    Success: the ball, carried 8 cm above the floor, comes within 0.4 m of the start, and the robot has not fallen.

    The episode ends there, where the robot falls, and where it leaves. The hand closes by itself where the ball is between its
    fingers, as by a light barrier, and opens where it has lost it. The gait's clock always runs. Two goals of the tool are
    observed, which lead it to the ball and to where it carries, a little ahead of it. Rewards are of the task alone: it is for
    a high level above a policy that moves legs and arm, see docs/hierarchy.md.
    """

    name = "go2arm-fetch"
    engines = ("mujoco",)

    metric_definitions = MappingProxyType(
        {
            "success": "1 where the ball was brought back and the robot has not fallen",
            "time_s": "s, until then; the episode's length where it was not",
            "gripped": "1 where the hand has lifted the ball",
            "dropped": "how often it has lost the ball",
            "distance_m": "m, level, of the ball from the start; the present one",
            "fell": "1 where the robot fell",
            **HARDWARE_METRICS,
        }
    )

    Config: ClassVar[type] = FetchConfig
    causes: ClassVar[tuple[str, ...]] = ("fallen", "out_of_bounds", "delivered")
    event_definitions = MappingProxyType(
        {
            **CommandedTask.event_definitions,
            "gripped": "the hand closes on the ball, hand closed becomes 1",
            "dropped": "the hand has lost the ball and opens, hand closed becomes 0",
        }
    )
    camera = "chase-left"
    cfg: FetchConfig

    start: Tensor
    closed: Tensor
    lifted: Tensor
    drops: Tensor
    reaching: Tensor
    carrying: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if c.arm != "airbot_play" or c.terrain != "flat":
            raise RookeryError("go2arm-fetch is for the arm airbot_play on flat ground: leave arm and terrain out.")
        if not c.goal_m < c.near_m <= c.far_m < c.bounds_m:
            raise RookeryError(
                f"goal_m {c.goal_m}, near_m {c.near_m}, far_m {c.far_m} and bounds_m {c.bounds_m} must grow in this order."
            )

    def scene(self) -> Scene:
        scene = super().scene()
        scene.add(_ball, "ball", pos=(1.0, 0.0, BALL_RADIUS))
        return scene

    def floor(self) -> mujoco.MjSpec:
        return for_grasping(super().floor())

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        arm = self.robot.arm
        assert arm is not None
        self.tool = Kinematics(self.world.model, [f"arm/{j}" for j in arm.joints], self.robot.base.names[0], "arm/tcp")
        self.ball = self.world.bodies(["ball/base"])
        self.fingers = self.world.joints(FINGERS)
        self.buffer("start", n, 3)
        for name in ("closed", "lifted"):
            self.buffer(name, n, dtype=torch.bool)
        for name in ("drops", "reaching", "carrying"):
            self.buffer(name, n)
        self._progress = torch.zeros(2, n)
        self._gripped, self._dropped, self._lifted = torch.zeros(
            3, n, dtype=torch.bool
        ).unbind()  # in this control step
        self._measured = -1  # the world's version that was measured
        self.pose = Place.empty(n)  # the tool's, in the trunk's frame
        self._goals = {(what, s): Place.empty(n) for what in GOALS for s in (0.0, AHEAD_S)}  # likewise
        self._errors = {key: Place(torch.zeros(n, 3), torch.zeros(n, 3)) for key in self._goals}

    def groups(self) -> dict[str, Group]:
        ball = place("ball", doc="its middle")
        start = place("start", doc=f"of the trunk as the episode began, {self.model.stand_height:g} m above the floor")
        hand = (  # nobody else moves it on a robot
            f"1 from where the ball's middle is within {self.cfg.grip_m:g} m of the tool's position to where it is more than "
            f"{CARRIED_M:g} m from it, else 0; the fingers are told to be {GRIP:g} m apart while it is 1, else {OPEN:g} m"
        )
        terms = (
            Term("ball", body(ball - POSITION), scale=0.5, noise=0.005, estimated="ball's place"),
            Term("to_ball", body(ball - TOOL_POSITION), scale=1.0, noise=0.005, estimated="ball's place"),
            Term("start", body(start - POSITION), scale=0.5, noise=0.02, estimated="position"),
            Term("closed", own("hand closed", 1, doc=hand)),
            *self.own_terms(),
            *(t for what, to in GOALS.items() for t in goal_terms(AHEAD_S, what=what, docs=partial(lead_words, to))),
            Term("gripper", OPENING, scale=15.0, noise=0.001),
        )
        return {"robot": Group(1, terms, self.robot.whole, history=self.cfg.history)}

    @property
    def actuation(self) -> dict[str, Actuation]:
        return {"robot": self.robot.actuation(0, len(self.robot.joint_names))}

    # Episodes

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        c, n = self.cfg, len(ids)
        r = self.robot
        r.refresh()
        u = self.rng(ids).uniform(0.0, 1.0, (2,))
        distance = c.near_m + (c.far_m - c.near_m) * u[:, 0]
        angle = r.yaw[ids] + c.side_rad * (2.0 * u[:, 1] - 1.0)
        here = r.base.pos[ids, 0]
        state = torch.zeros(n, 1, 13)
        state[:, 0, 0] = here[:, 0] + distance * angle.cos()
        state[:, 0, 1] = here[:, 1] + distance * angle.sin()
        state[:, 0, 2] = BALL_RADIUS
        state[:, 0, 3] = 1.0
        self.ball.set_state(ids, state)
        self.start[ids] = here
        self.start[ids, 2] = self.model.stand_height
        self.closed[ids] = False
        self.lifted[ids] = False
        self.drops[ids] = 0.0
        self.measure()
        self.reaching[ids] = self._off_tool()[ids]
        self.carrying[ids] = self.off_start[ids]

    def apply(self, actions: dict[str, Tensor]) -> None:
        super().apply(actions)
        assert self.robot.gripper is not None
        self.robot.gripper.set_control(torch.where(self.closed, GRIP, OPEN)[:, None])

    def advance(self) -> None:
        super().advance()
        self.measure()
        off = self._off_tool()
        self._gripped.copy_(~self.closed & (off < self.cfg.grip_m))
        self._dropped.copy_(self.closed & (off > CARRIED_M))
        self.closed.copy_((self.closed | self._gripped) & ~self._dropped)
        self.drops += (self._dropped & self.lifted).float()
        self._lifted.copy_(self.carried & ~self.lifted)
        self.lifted |= self._lifted
        off_start = self.off_start
        self._progress[0] = self.reaching - off
        self._progress[1] = self.carrying - off_start
        self.reaching.copy_(off)
        self.carrying.copy_(off_start)

    def _off_tool(self) -> Tensor:
        """[N] m, from the tool centre to the ball's middle."""
        return (self.ball.pos[:, 0] - tool_in_world(self.robot, self.pose)).norm(dim=1)

    @property
    def off_start(self) -> Tensor:
        """[N] m, level, of the ball from the start."""
        return (self.ball.pos[:, 0, :2] - self.start[:, :2]).norm(dim=1)

    @property
    def carried(self) -> Tensor:
        """[N] bool: the ball is in the hand, off the floor."""
        return self.closed & (self.ball.pos[:, 0, 2] > LIFTED_M)

    @property
    def delivered(self) -> Tensor:
        """[N] bool: the ball is brought back."""
        return self.carried & (self.off_start < self.cfg.goal_m) & ~self.fallen

    def terminated(self) -> Tensor:
        away = (self.robot.base.pos[:, 0, :2] - self.start[:, :2]).norm(dim=1) > self.cfg.bounds_m
        out = self.fallen.long()
        out = torch.where((out == 0) & away, 2, out)
        return torch.where((out == 0) & self.delivered, 3, out)

    def events(self) -> dict[str, Tensor]:
        return super().events() | {"gripped": self._gripped.clone(), "dropped": self._dropped.clone()}

    # The tool and its goals

    def measure(self) -> None:
        """The tool, its goals and their differences, in the trunk's frame."""
        self.refresh()
        self._measured = self.world.version
        r = self.robot
        self.tool.place(r.pos[:, 12:], self.pose)
        for key, goal in self.goals(self.pose).items():
            out, errors = self._goals[key], self._errors[key]
            self.in_trunk(*goal, out)
            pose_errors(*(x.numpy() for x in (*out, *self.pose, *errors)))

    def in_trunk(self, pos: Tensor, quat: Tensor, out: Place | None = None) -> Place:
        """Poses [N, 3] m, [N, 4] of the stance frame in the trunk's."""
        out = Place.empty(len(pos)) if out is None else out
        state = self.robot.base.state.view(-1, 13)
        to_trunk_frame(*(x.contiguous().numpy() for x in (state, self.height, pos, quat, *out)))
        return out

    def goals(self, tool: Place) -> dict[tuple[str, float], Place]:
        """By goal and s from now, its pose in the stance frame; `tool` is in the trunk's."""
        trunk = self.robot.base.quat[:, 0]
        level = Heading(ROTATION).evaluate({"rotation": trunk[:, None]})[:, 0]
        back = level * torch.tensor([1.0, -1.0, -1.0, -1.0])
        below = torch.nn.functional.pad(self.height[:, None], (2, 0))
        lean = multiply(back, trunk)
        here = Place(rotate(lean, tool.pos) + below, multiply(lean, tool.quat))
        targets = {"grasp": self._grasp(back, here.pos), "stow": self._stow()}
        return {(what, s): led(here, targets[what], s) for what, s in self._goals}

    def _grasp(self, back: Tensor, tool: Tensor) -> Place:
        """The pose to grasp the ball in, or above that for as long as the tool is off to the side."""
        r = self.robot
        ball = rotate(back, self.ball.pos[:, 0] - r.base.pos[:, 0])
        ball[:, 2] = self.ball.pos[:, 0, 2] + TIPS_UP
        aside = (ball[:, :2] - tool[:, :2]).norm(dim=1)
        ball[:, 2] += (FUNNEL * (aside - LEVEL_M)).clamp(0.0, ABOVE_M)
        return Place(ball, pitched(GRASP_PITCH, torch.atan2(ball[:, 1], ball[:, 0])))

    def _stow(self) -> Place:
        n = self.world.num_envs
        return Place(torch.tensor(STOW).expand(n, -1), pitched(STOW_PITCH, torch.zeros(n)))

    def quantities(self) -> dict[str, Tensor]:
        """Those of the base, the tool's pose, its goals, the ball, and the start, in the world."""
        r = self.robot
        out = super().quantities()  # which reads the state
        tool = self.tool.place(r.pos[:, 12:], Place.empty(len(r.pos)))
        goals = ((what, ahead_s, goal) for (what, ahead_s), goal in self.goals(tool).items())
        out |= tool_quantities(r, tool, self.height, goals)
        out[OPENING.name] = self.fingers.pos.sum(1)[:, None, None]
        out["ball"] = self.ball.pos
        out["start"] = self.start[:, None]
        out["hand closed"] = self.closed.float()[:, None, None]
        return out

    def measured(self) -> dict[str, dict[str, Tensor]]:
        return {"robot": self.quantities()}

    def observe(self) -> dict[str, dict[str, Tensor]]:
        seen = self.observe_own()
        if self._measured != self.world.version:
            self.measure()
        here = self.robot.base.pos[:, 0]
        own = {
            "ball": self.in_body(self.ball.pos[:, 0] - here),
            "to_ball": self.in_body(self.ball.pos[:, 0] - tool_in_world(self.robot, self.pose)),
            "start": self.in_body(self.start - here),
            "closed": self.closed.float()[:, None],
            "gripper": self.fingers.pos.sum(1, keepdim=True),
        }
        for what in GOALS:
            now, soon = self._errors[what, 0.0], self._errors[what, AHEAD_S]
            goal = self._goals[what, 0.0]
            own |= {f"to_{what}": now.pos, f"rotation_to_{what}": now.quat, f"to_{what}_soon": soon.pos}
            own[f"rotation_to_{what}_soon"] = soon.quat
            own[what] = goal.pos
            own[f"{what}_rotation"] = matrix(goal.quat).view(-1, 3, 3)[:, :, :2].transpose(1, 2).reshape(-1, 6)
        return {"robot": seen | {k: v[:, None] for k, v in own.items()}}

    # Rewards and metrics

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        carried = self.carried.float()
        free = (~self.closed).float()
        failed = (self.terminated() > 0) & ~self.delivered
        terms = {
            "reaching": self._progress[0] * free,
            "lifted": self._lifted.float(),
            "progress": self._progress[1] * carried,
            "delivered": self.delivered.float(),
            "dropped": (self._dropped & self.lifted).float(),
            "termination": failed.float(),
        }
        return {"robot": {name: value[:, None] for name, value in terms.items()}}

    def state(self) -> Tensor | None:
        own = super().state()
        assert own is not None
        ball = self.in_body(self.ball.pos[:, 0] - self.robot.base.pos[:, 0])
        start = self.in_body(self.start - self.robot.base.pos[:, 0])
        closed = self.closed.float()[:, None]
        to_ball = self.in_body(self.ball.pos[:, 0] - tool_in_world(self.robot, self.pose))
        return torch.cat((own, 0.5 * ball, to_ball, 0.5 * start, closed), 1)

    def metrics(self) -> dict[str, Tensor]:
        delivered = self.delivered  # which ends the episode
        return {
            "success": delivered.float(),
            "time_s": torch.where(delivered, self.steps * self.cfg.control_dt, self.cfg.episode_s),
            "gripped": self.lifted.float(),
            "dropped": self.drops.clone(),
            "distance_m": self.off_start,
            "fell": self.fallen.float(),
            **self.hardware_metrics(),
        }

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """A trot and inverse kinematics that walk to the ball, grasp it and walk back, see fetch_script."""
        from rookery.tasks.locomanip.fetch_script import fetch_script

        return fetch_script(self)

    def commands(self) -> list[Command]:
        return [Command("ball", self.ball.pos[:, 0], place=True)]

    def markers(self, i: int) -> list[dict[str, Any]]:
        """The place that the ball is to be brought to."""
        at = self.start[i].tolist()
        return [{"pos": [at[0], at[1], 0.01], "size": 0.05, "rgba": [0.1, 0.9, 0.2, 0.6], "trail": False}]


def _ball() -> mujoco.MjSpec:
    """The library's ball, with its weight."""
    spec = workshop.ball(BALL_RADIUS)
    spec.body("base").gravcomp = 0.0
    return spec
