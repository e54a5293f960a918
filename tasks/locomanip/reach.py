"""Reach: the Go2's arm follows a moving goal, position and orientation, while the legs track a commanded velocity.

One policy moves all 18 joints; nothing but learning moves the arm. The goal moves in the stance frame (goals.MovingGoals).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.robots.arms.kinematics import Kinematics, Place
from rookery.robots.quadrupeds.go2 import STAND_HEIGHT
from rookery.sim.actuation import Actuation
from rookery.sim.rotations import from_axis_angle, matrix
from rookery.sim.specs import Group, Term, Weights
from rookery.tasks.locomanip.base import HARDWARE_METRICS
from rookery.tasks.locomanip.config import LeggedConfig
from rookery.tasks.locomanip.gait import gait_terms
from rookery.tasks.locomanip.goal_terms import goal_terms, to_goal
from rookery.tasks.locomanip.goals import MovingGoals
from rookery.tasks.locomanip.kernels import pose_errors, to_trunk_frame
from rookery.tasks.locomanip.legged_task import LeggedTask
from rookery.tasks.locomanip.tool_pose import tool_quantities
from rookery.tasks.rewards import joint_vel_l2

AHEAD_S = 0.2  # s, of the second look at the goal
LEAD_S = (
    0.05  # s, by which the controller's arm is ahead: the lag of its servos, damping over stiffness, and half a step
)


@dataclass(frozen=True)
class ReachConfig(LeggedConfig):
    """Values of go2arm-reach."""

    arm: str = "airbot_play"  # or "arx5"
    agents: str = "whole"  # "whole": one agent of 18 actions; "parts": two, legs and arm
    future: bool = True  # whether the goal of 0.2 s later is shown; without (teleoperation) its terms are zero
    max_vx: float = 0.5  # m/s *
    max_back: float = 0.3  # m/s *
    max_vy: float = 0.2  # m/s *
    max_yaw_rate: float = 0.5  # rad/s *
    tracking_sigma: float = 0.03  # (m/s)^2 *; at 0.1 standing still and reaching well pays better than walking (tried)
    stand_share: float = 0.3  # of the commands that say: stand
    push_speed: float = 0.3  # m/s *
    start_joints: float = 0.05  # rad
    settle_s: float = 1.0  # s at the start in which the error does not count
    success_m: float = 0.03  # m, mean position error of a success
    success_rad: float = 0.2  # rad, mean orientation error of a success
    settling_gain: float = 0.05  # share of the tool's error that a teacher's correction takes in at each step
    settling_leak: float = 0.04  # share of it that is forgotten at each step
    reward: Weights = Weights(
        tracking_tool_pose=4.0,
        tool_position_error=-2.0,
        tool_rotation_error=-0.3,
        tracking_lin_vel=3.0,
        tracking_ang_vel=1.0,
        lin_vel_z=-1.0,
        ang_vel_xy=-0.05,
        orientation=-0.5,
        base_height=-5.0,
        gait_phase=-2.0,
        feet_clearance=-80.0,
        feet_slip=-0.2,
        feet_landing=-3.0,
        torques=-1e-4,
        power=-5e-4,
        action_rate=-0.02,
        hip_pos=-0.2,
        stand_still=-0.03,
        undesired_contacts=-1.0,
        self_collision=-1.0,
        kneeling=-2.0,
        arm_dof_vel=-0.005,
        termination=-20.0,
        alive=1.0,
    )


class LeggedReach(LeggedTask):
    """The arm on a Go2 follows a moving goal while the legs walk or stand.

    Success: no fall, and mean errors of the tool's pose below 3 cm and 0.2 rad, over the whole episode but its first second.

    The reward for tracking is the product of one factor for position and one for orientation, whose widths shrink with the
    mean errors of late (UMI-on-Legs, arXiv 2407.10353): sigma of position e^2, of orientation 1.5 e.
    """

    name = "go2arm-reach"

    deciding = MappingProxyType({"position_error": ("success_m", True), "rotation_error": ("success_rad", True)})
    metric_definitions = MappingProxyType(
        {
            "success": (
                "1 where the robot did not fall, position_error is below success_m and rotation_error below success_rad"
            ),
            "position_error": (
                "m, distance from the tool to its goal, mean over the episode after settle_s; the one at the end where the"
                " episode was shorter"
            ),
            "rotation_error": ("rad, angle between the tool's and the goal's orientation, mean over the same time"),
            "velocity_error": (
                "m/s, rms error of the trunk's horizontal velocity against its command, over the same time"
            ),
            "fell": "1 where the robot fell",
            "action_change": ("mean size of an action component's change between control steps, in units of [-1, 1]"),
            "torque_peak": "N m, largest torque of any joint in any physics step",
            **HARDWARE_METRICS,
        }
    )

    Config: ClassVar[type] = ReachConfig
    interface: ClassVar[tuple[str, ...]] = ("agents", "future")
    headline: ClassVar[str] = "position_error"
    cfg: ReachConfig
    goals: Any
    """What the tool follows, a MovingGoals; tasks built on this one follow something else."""
    sum_position: Tensor
    sum_rotation: Tensor
    counted: Tensor
    widths: Tensor
    speed_error: Tensor
    change_sum: Tensor
    torque_peak: Tensor

    @property
    def shardable(self) -> bool:
        """The widths of the reward for tracking shrink with the mean errors of all worlds."""
        return False

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        assert self.robot.arm is not None, "go2arm-reach needs an arm"
        model = self.world.model
        self.tool = Kinematics(model, [f"arm/{j}" for j in self.robot.arm.joints], self.robot.base.names[0], "arm/tcp")
        pose = self.tool.forward(self.robot.home[None, 12:])
        shoulder = self._shoulder(model)
        arm = pose.pos[0] + torch.tensor([0.0, 0.0, STAND_HEIGHT]) - torch.tensor(shoulder)
        radius = float(arm.norm())
        home = (radius, float(torch.asin(arm[2] / radius)), float(torch.atan2(arm[1], arm[0])))
        self.goals = MovingGoals(n, shoulder, home, self.rng, self.cfg.control_dt)
        self.child("goals", self.goals)
        for name in ("sum_position", "sum_rotation", "counted", "speed_error", "change_sum", "torque_peak"):
            self.buffer(name, n)
        self.buffer("widths", 2)
        self.widths.copy_(torch.tensor([0.3, 0.8]))
        self._measured = -1  # the world's version that was measured
        self.pose = Place.empty(n)
        self.position_error, self.rotation_error, self.position_error_soon, self.rotation_error_soon = torch.zeros(
            4, n, 3
        ).unbind()

    def _shoulder(self, model: Any) -> tuple[float, float, float]:
        """m, the arm's second joint at rest, in the stance frame."""
        x, y, z = (float(v) for v in model.body("arm/base").pos)
        return x, y, z + float(model.body("arm/link1").pos[2]) + STAND_HEIGHT

    # Who acts

    @property
    def hides_future(self) -> bool:
        """The policy gets zeros in place of the goal of 0.2 s later."""
        return not self.cfg.future

    def groups(self) -> dict[str, Group]:
        hidden = self.hides_future
        terms = (*self.body_terms(), *goal_terms(AHEAD_S, hidden))
        if self.cfg.agents == "parts":
            assert self.robot.arm_spec is not None
            actions = {"legs": self.robot.legs, "arm": self.robot.arm_spec}
        else:
            actions = {"robot": self.robot.whole}
        path = Term("path", to_goal(AHEAD_S), scale=3.0, estimated="base pose")
        return {g: self.group(terms, action, path, future=("path",)) for g, action in actions.items()}

    @property
    def actuation(self) -> dict[str, Actuation]:
        count = len(self.robot.joint_names)
        if self.cfg.agents == "parts":
            return {"legs": self.robot.actuation(0, 12), "arm": self.robot.actuation(12, count)}
        return {"robot": self.robot.actuation(0, count)}

    seen_ahead_s: ClassVar[tuple[float, ...]] = (0.0, AHEAD_S)
    """s, how far ahead the goals of terms are."""

    def quantities(self) -> dict[str, Tensor]:
        """Those of the base and the tool's pose and goals, in the world."""
        r = self.robot
        out = super().quantities()  # which reads the state
        tool = self.tool.place(r.pos[:, 12:], Place.empty(len(r.pos)))
        goals = (("goal", ahead_s, Place(*self.goals.pose(ahead_s))) for ahead_s in self.seen_ahead_s)
        return out | tool_quantities(r, tool, self.height, goals)

    def measured(self) -> dict[str, dict[str, Tensor]]:
        return dict.fromkeys(self._agents, self.quantities())

    def observe_privileged(self) -> dict[str, dict[str, Tensor]]:
        own = {"base_velocity": self.robot.velocity[:, None], "path": self.position_error_soon[:, None]}
        return dict.fromkeys(self._agents, own)

    def reveal_future_mask(self) -> Tensor | None:
        return None if self.cfg.history == 1 else torch.full((self.world.num_envs,), self.cfg.future)

    @property
    def _agents(self) -> tuple[str, ...]:
        return ("legs", "arm") if self.cfg.agents == "parts" else ("robot",)

    def apply(self, actions: dict[str, Tensor]) -> None:
        self.clip_command()
        whole = self.joined(actions)
        self.robot.command(self.robot.targets(whole))
        self.remember(self.joined(self.given))

    def joined(self, actions: dict[str, Tensor]) -> Tensor:
        """[N, 18] or [N, K, 18] of all joints, from one agent or two."""
        parts = [a.squeeze(-2) for a in actions.values()]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    # Goals and errors

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        self.goals.reset(ids)
        for name in ("sum_position", "sum_rotation", "counted", "speed_error", "change_sum", "torque_peak"):
            getattr(self, name)[ids] = 0.0

    def goal_in_trunk(self, ahead_s: float) -> Place:
        """The goal in the trunk's frame: pos [N, 3] m, quat [N, 4] wxyz."""
        out = Place.empty(self.world.num_envs)
        state = self.robot.base.state.view(-1, 13)
        height = self.height
        goal = self.goals.pose(ahead_s)
        to_trunk_frame(*(x.numpy() for x in (state, height, *goal, *out)))
        return out

    def measure(self) -> None:
        """Tool, goals and their difference, in the trunk's frame."""
        self._measured = self.world.version
        self.tool.place(self.robot.pos[:, 12:], self.pose)
        self.goal, self.soon = self.goal_in_trunk(0.0), self.goal_in_trunk(AHEAD_S)
        for goal, errors in (
            (self.goal, (self.position_error, self.rotation_error)),
            (self.soon, (self.position_error_soon, self.rotation_error_soon)),
        ):
            pose_errors(*(x.numpy() for x in (*goal, *self.pose, *errors)))

    def remeasure(self) -> None:
        """`measure`, unless that was done of this state."""
        if self._measured != self.world.version:
            self.measure()

    def advance(self) -> None:
        super().advance()
        self.goals.advance()
        self.measure()
        c, r = self.cfg, self.robot
        position = self.position_error.norm(dim=1)
        rotation = self.rotation_error.norm(dim=1)
        counts = (self.steps * c.control_dt > c.settle_s).float()
        self.sum_position += counts * position
        self.sum_rotation += counts * rotation
        self.counted += counts
        self.speed_error += counts * (r.velocity[:, :2] - self.followed[:, :2]).square().sum(1)
        self.change_sum += (self.last_action - self.before_action).abs().mean(1)
        self.torque_peak.copy_(torch.maximum(self.torque_peak, r.peak.amax(1)))
        late = torch.stack((position.mean(), rotation.mean()))
        self.widths.lerp_(late, 0.002)

    def observe(self) -> dict[str, dict[str, Tensor]]:
        body = self.observe_body()
        self.remeasure()
        axes = matrix(self.goal.quat).view(-1, 3, 3)
        own = {
            "to_goal": self.position_error, "rotation_to_goal": self.rotation_error, "to_goal_soon": self.position_error_soon,
            "rotation_to_goal_soon": self.rotation_error_soon, "goal": self.goal.pos,
            "goal_rotation": axes[:, :, :2].transpose(1, 2).reshape(-1, 6),
        }  # fmt: skip
        return {key: {**body, **{k: v[:, None] for k, v in own.items()}} for key in self._agents}

    def state(self) -> Tensor:
        own = super().state()
        assert own is not None
        axes = matrix(self.goal.quat)
        return torch.cat(
            (
                own,
                3.0 * self.position_error,
                0.7 * self.rotation_error,
                3.0 * self.position_error_soon,
                self.goal.pos,
                axes,
            ),
            dim=1,
        )

    # Rewards and metrics

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        position = self.position_error.norm(dim=1)
        rotation = self.rotation_error.norm(dim=1)
        wide = float(self.widths[0])
        turned = float(self.widths[1])
        track = torch.exp(-position.square() / max(wide * wide, 4e-4)) * torch.exp(-rotation / max(1.5 * turned, 0.15))
        own = {
            "tracking_tool_pose": track[:, None],
            "tool_position_error": position[:, None],
            "tool_rotation_error": rotation[:, None],
            "arm_dof_vel": joint_vel_l2(self.robot.vel[:, 12:])[:, None],
        }
        return dict.fromkeys(self._agents, gait_terms(self) | own)

    def metrics(self) -> dict[str, Tensor]:
        c = self.cfg
        counts = self.counted > 0
        count = self.counted.clamp_min(1.0)
        speed = self.robot.velocity[:, :2] - self.command[:, :2]
        # where no step has counted, the present errors: 0 would call an early fall perfect
        position = torch.where(counts, self.sum_position / count, self.position_error.norm(dim=1))
        rotation = torch.where(counts, self.sum_rotation / count, self.rotation_error.norm(dim=1))
        velocity = torch.where(counts, (self.speed_error / count).sqrt(), speed.norm(dim=1))
        good = (position < c.success_m) & (rotation < c.success_rad) & ~self.fallen
        return {
            "success": good.float(),
            "position_error": position,
            "rotation_error": rotation,
            "velocity_error": velocity,
            "fell": self.fallen.float(),
            "action_change": self.change_sum / self.steps.clamp_min(1),
            "torque_peak": self.torque_peak,
            **self.hardware_metrics(),
        }

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """A trot for the legs and inverse kinematics for the arm, see controller.WholeBodyController."""
        from rookery.tasks.locomanip.controller import WholeBodyController

        controller = WholeBodyController(self.robot, self.tool, self.gait_hz, self.cfg.control_dt)
        self.child("controller", controller)

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            goals = self.goal_in_trunk(LEAD_S), self.planned(LEAD_S)
            last = self.last_action[:, 12:]
            action = controller.act(*goals, LEAD_S, self.phase, self.command, self.moving, self.begins(), last)[:, None]
            parts = {"legs": action[..., :12], "arm": action[..., 12:]}
            return parts if self.cfg.agents == "parts" else {"robot": action}

        return act

    def planned(self, ahead_s: float) -> tuple[Tensor, Tensor]:
        """Goals [N, 3] m, [N, 4] wxyz `ahead_s` s later, from a trunk that is level and where it should be."""
        pos, quat = self.goals.pose(ahead_s)
        return pos - torch.tensor([0.0, 0.0, STAND_HEIGHT]), quat

    def begins(self) -> Tensor:
        """[N] bool: a controller forgets what was before."""
        return self.steps == 0

    def correction(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """Joint targets of the arm that bring the tool closer to its goal, see settling.Settling."""
        from rookery.tasks.locomanip.settling import Settling

        settling = Settling(self.tool, self.world.num_envs, self.cfg.settling_gain, self.cfg.settling_leak)
        self.child("settling", settling)

        def correct(actions: dict[str, Tensor]) -> dict[str, Tensor]:
            whole = self.joined(actions)
            targets = self.robot.targets(whole)
            targets[:, 12:] += settling.step(self.robot.pos[:, 12:], self.goal, self.steps == 0, self.settles())
            arm = self.robot.normalized(targets)[:, 12:]
            if self.cfg.agents == "parts":
                return actions | {"arm": arm[:, None]}
            return {"robot": torch.cat((whole[:, :12], arm), 1)[:, None]}

        return correct

    def settles(self) -> Tensor:
        """[N] bool, where the arm is free to settle on its goal: everywhere, if nothing holds its tool."""
        return torch.ones(self.world.num_envs, dtype=torch.bool)

    def markers(self, i: int) -> list[dict[str, Any]]:
        """The goal as a ball with its x axis as a row of dots, and the command as in other tasks."""
        r = self.robot
        pos, quat = self.goals.pose()
        half = 0.5 * r.yaw[i : i + 1]
        heading = from_axis_angle(torch.tensor([[0.0, 0.0, 1.0]]), 2.0 * half)
        turn = matrix(heading).view(3, 3)
        base = r.base.pos[i, 0].clone()
        base[2] -= self.height[i]
        at = base + turn @ pos[i]
        axis = turn @ matrix(quat[i : i + 1]).view(3, 3)[:, 0]
        dots = [{"pos": (at + s * axis).tolist(), "size": 0.008, "rgba": [0.9, 0.2, 0.1, 0.9], "trail": False}
                for s in (0.03, 0.06, 0.09)]  # fmt: skip
        goal = {"pos": at.tolist(), "size": 0.018, "rgba": [0.9, 0.2, 0.1, 0.9], "trail": False}
        return [goal, *dots, *super().markers(i)]
