"""Push-T: push a T with closed fingers until it covers its picture on the table.

The task of Chi et al. 2023 ("Diffusion Policy"), there a disc in a plane, here a robot at a table: the T's proportions, the
goal in the middle, turned by an eighth, the measure of coverage and its threshold are the published ones. Unlike there, an
episode goes on when it is solved, as otherwise the rewards that still come would speak against solving it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.assets.blocks import T_AREA, T_HEIGHT, T_RECTANGLES, tee, tee_goal
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import TOOL_POSITION, base, place, rotation
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.specs import Term, Weights
from rookery.sim.terms import Sines, Yaw
from rookery.tasks.manipulation.arm_task import DEFAULT_RANDOMIZATION, HARDWARE_METRICS, ArmTask, ArmTaskConfig
from rookery.tasks.manipulation.objects import OBJECT_RANDOMIZATION, TableObject
from rookery.tasks.manipulation.overlap import overlap
from rookery.tasks.manipulation.pusher import CANDIDATES, best_push, travel_left
from rookery.tasks.manipulation.scripted import ToolTarget
from rookery.tasks.rewards import closeness_tanh, distance

GOAL = (0.5, 0.0, math.pi / 4)  # m, m, rad, of the T's centroid; the angle is the published one
COVERED = 0.95  # of the goal's area, from which on it counts as solved (Chi et al. 2023)
LOW = 0.022  # m, height of the tool as it pushes: the pads meet the T's sides, what is over them passes over it
HIGH = 0.065  # m, likewise on the way to the next push
GOOD = 0.965  # of the goal's area, with which the script is content
PATIENCE = 100  # control steps after which a push is given up


TEE, TEE_ROTATION, GOAL_ROTATION = (
    place("T's position"),
    rotation("T's rotation", "T"),
    rotation("goal's rotation", "goal"),
)
"""Quantities that the arm observes."""


@dataclass(frozen=True)
class PushTConfig(ArmTaskConfig):
    """Push-T's values."""

    episode_s: float = 30.0  # s, as published
    reward: Weights = Weights(coverage=1.0, pose=0.2, reach=0.05)


class PushT(ArmTask):
    """A Panda pushes a T with closed fingers until it covers its goal.

    Success: the T covered 95 % of its goal at any time, as published.
    """

    name = "panda-push-t"
    engines = ("mujoco",)

    metric_definitions = MappingProxyType(
        {
            "success": "1 where the T covered its goal by the share COVERED at any control step",
            "done_at_any_time": "1 where it was done at any control step",
            "seconds": "s, until it was first done; the time so far while it was not",
            "coverage": "share of the goal that the T covers, the largest of the episode",
            "coverage_at_end": "the same at the last control step",
            **HARDWARE_METRICS,
        }
    )

    Config = PushTConfig
    default_randomization = DEFAULT_RANDOMIZATION | OBJECT_RANDOMIZATION | {"object_friction": Range(0.25, 0.6)}
    headline = "coverage"
    start = (0.45, 0.0, 0.12)
    opening = 0.0
    camera: Any = ((1.0, -0.35, 0.75), (0.48, 0.0, 0.0))

    most: Tensor
    push: Tensor
    since: Tensor

    def add_objects(self, scene: Scene) -> Scene:
        half = 0.5 * GOAL[2]
        scene.add(tee_goal, "goal", pos=(GOAL[0], GOAL[1], 0.0), quat=(math.cos(half), 0.0, 0.0, math.sin(half)))
        return scene.add(tee, "tee", pos=(0.5, 0.2, 0.5 * T_HEIGHT))

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        self.tee = TableObject(self.world, "tee", ("bar", "stem"))
        self.child("tee", self.tee)
        self.buffer("most", n)
        self.buffer("push", n, dtype=torch.int64)  # of CANDIDATES
        self.buffer("since", n, dtype=torch.int64)
        self._rectangles = np.array(T_RECTANGLES)
        self._goal = torch.tensor(GOAL, dtype=torch.float64).repeat(n, 1)
        self._area = torch.zeros(n, dtype=torch.float64)
        self.buffer("pose", n, 3)
        self.buffer("coverage", n)

    pose: Tensor
    coverage: Tensor

    def parameters(self) -> dict[str, Parameter]:
        return super().parameters() | self.tee.parameters()

    def reset_objects(self, ids: Tensor) -> None:
        pos = self.draw(ids, ((0.42, -0.2, 0.5 * T_HEIGHT), (0.58, 0.2, 0.5 * T_HEIGHT)))
        self.tee.put(ids, pos, math.pi * self.rng(ids).uniform(-1.0, 1.0))
        self.most[ids] = 0.0
        self.since[ids] = 0

    def refresh_observation(self) -> None:
        """The T's pose (x, y, yaw) and the share of the goal that it covers."""
        self.tee.refresh()
        self.pose[:, :2] = self.tee.pos[:, :2]
        torch.atan2(self.tee.rotation[:, 1, 0], self.tee.rotation[:, 0, 0], out=self.pose[:, 2])
        overlap(self.pose.double().numpy(), self._goal.numpy(), self._rectangles, self._area.numpy())
        self.coverage.copy_(self._area / T_AREA)

    def observation_terms(self, group: str) -> tuple[Term, ...]:
        tee, goal, cos_sin = Yaw(base(TEE_ROTATION)), Yaw(base(GOAL_ROTATION)), ("cos", "sin")
        return (
            Term("tee", base(TEE - TOOL_POSITION)[:2], scale=4.0, noise=0.001, estimated="T's pose"),
            Term("tee_heading", Sines(tee, cos_sin), noise=0.005, estimated="T's pose"),
            Term("goal", base(place("goal") - TEE)[:2], scale=4.0, noise=0.001, estimated="T's pose"),
            Term("goal_heading", Sines(goal - tee, cos_sin), noise=0.005, estimated="T's pose"),
        )

    def quantities(self, group: str) -> dict[str, Tensor]:
        thing = self.tee.body
        n = len(self.pose)
        yaw = torch.tensor([0.5 * GOAL[2]])
        return {
            TEE.name: thing.pos[:, 0], TEE_ROTATION.name: thing.quat[:, 0],
            "goal": torch.nn.functional.pad(self._goal[:, :2].float(), (0, 1)).expand(n, 3),
            GOAL_ROTATION.name: torch.cat((yaw.cos(), torch.zeros(2), yaw.sin())).expand(n, 4),
        }  # fmt: skip

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        torch.maximum(self.most, self.coverage, out=self.most)
        error = (self.pose[:, :2] - self._goal[:, :2].float()).norm(dim=1)
        rotation = (1.0 - (self.pose[:, 2] - GOAL[2]).cos()) / 2.0
        terms = {
            "coverage": (self.coverage / COVERED).clamp(0.0, 1.0),
            "pose": closeness_tanh(4.0 * error + rotation, 1.0),
            "reach": closeness_tanh(distance(self.robot.tool, self.tee.pos), 0.2),
        }
        return terms, self.coverage >= COVERED

    def gauges(self, i: int) -> list[Gauge]:
        return [Gauge("share covered", float(self.coverage[i]), COVERED, at_most=False)]

    def success(self) -> Tensor:
        return self.ever_done

    def metrics(self) -> dict[str, Tensor]:
        return super().metrics() | {"coverage": self.most, "coverage_at_end": self.coverage}

    def expert_targets(self) -> dict[str, ToolTarget]:
        """One straight push after another, each the one that brings the T nearest to its goal by a model of sliding.

        Phases: choose (or be content), up and over, down, push."""
        tool = self.robot.tool
        choose = ((self.phase == 0) & (self.coverage < GOOD)).nonzero()[:, 0]
        if len(choose):
            self.push[choose] = best_push(self.pose[choose], self._goal[choose].float(), tool[choose, :2])
            self.phase[choose] = 1
            self.since[choose] = 0
        contact, move, begin = CANDIDATES[self.push].split(2, dim=1)
        c, s = self.pose[:, 2].cos()[:, None], self.pose[:, 2].sin()[:, None]
        contact, move, begin = (
            torch.cat((c * v[:, :1] - s * v[:, 1:], s * v[:, :1] + c * v[:, 1:]), 1) for v in (contact, move, begin)
        )
        start = self.pose[:, :2] + begin
        there = (tool[:, :2] - start).norm(dim=1) < 0.008
        pushing = self.phase == 3
        left = travel_left(self.pose, self._goal.float(), contact, move)
        self.since += pushing
        self.phase += ((self.phase == 1) & there) | ((self.phase == 2) & (tool[:, 2] < LOW + 0.004))
        over = pushing & ((left < 0.001) | (self.since > PATIENCE) | (self.coverage > GOOD))
        self.phase[over] = 0
        place = torch.cat((start, torch.full_like(tool[:, 2:], LOW)), 1)
        high = (self.phase == 0) | ((self.phase == 1) & (tool[:, 2] < HIGH - 0.015) & ~there)
        place[:, 2] = torch.where(self.phase == 1, HIGH, place[:, 2])
        place[:, :2] = torch.where(high[:, None], self.robot.goal[:, :2].float(), place[:, :2])
        place[:, 2] = torch.where(high, HIGH, place[:, 2])
        step = (0.25 * left).clamp(0.0008, 0.006)
        ahead = self.robot.goal.float()[:, :2] + move * step[:, None]
        side = move * ((self.pose[:, :2] + contact - ahead) * move).sum(1, keepdim=True)  # stay on the contact's line
        ahead = ahead + 0.2 * (self.pose[:, :2] + contact - ahead - side)
        place[:, :2] = torch.where((self.phase == 3)[:, None], ahead, place[:, :2])
        return {"arm": ToolTarget(place, torch.ones_like(step))}
