"""Loco-manipulation: one policy moves legs and arm so that the gripper follows recorded tool trajectories.

Pick up, push, pull, open, press, wipe, carry: each is an entry of task_table.TABLE, a scene, a family of trajectories and a
rule. An episode draws an entry, and one trajectory of its family; the policy observes the tool's reference pose now and
0.2 s ahead and the commanded base velocity, not the object. The gripper opens and closes as in the trajectory.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.robots.arms.airbot_play import AIRBOT_PLAY
from rookery.robots.quadrupeds.go2 import STAND_HEIGHT
from rookery.sim.errors import RookeryError
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import OPENING, VELOCITY, body
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.specs import CommandRange, Group, Term
from rookery.tasks.locomanip.adaptive_sampling import AdaptiveSampler, AdaptiveSamplingConfig
from rookery.tasks.locomanip.base import FINGERS, for_grasping
from rookery.tasks.locomanip.config import DEFAULT_RANDOMIZATION
from rookery.tasks.locomanip.controller import follow
from rookery.tasks.locomanip.generators import generate
from rookery.tasks.locomanip.goal_terms import to_goal
from rookery.tasks.locomanip.legged_task import teacher_set
from rookery.tasks.locomanip.library_goals import LibraryGoals, played
from rookery.tasks.locomanip.reach import LeggedReach, ReachConfig
from rookery.tasks.locomanip.stage import PartStage
from rookery.tasks.locomanip.task_table import Signs, add_parts, chosen
from rookery.tasks.locomanip.tool_pose import tool_in_world
from rookery.tasks.locomanip.trajectories import Trajectory
from rookery.tasks.locomanip.trajectory_table import TrajectoryTable

LATER_S = (0.2, 0.5)  # s, ahead: reference positions that an auxiliary state estimator predicts
HOLDING = ("pull-drawer", "carry")
"""Families in which an offset of the arm pulls at the robot: with it fewer are done (0.67 of 0.92, 0.64 of 0.73; measured)."""
NEVER = 1 << 40  # steps
PREDICTOR_FRAMES = 5  # that an agent with a predictor sees where the config asks for one
ODOMETRY_DRIFT = 0.0115
"""m/sqrt(s) along each axis: how the base's estimated place wanders, and with it the goals, which stand in the room. Kim et
al., "A Benchmark Comparison of Four Off-the-Shelf Proprietary Visual-Inertial Odometry Systems" (Sensors 22, 9873, 2022):
ARKit, the best of them, drifts by 0.02 m in a second, taken as one of three axes. The legs' own odometry is no better: 2.2 m
after 120 m of a Go2."""
DRIFTING = ("to_goal_soon", "goal")
"""Terms with the random walk of `to_goal`."""


@dataclass(frozen=True)
class LocoManipulationConfig(ReachConfig):
    """Values of go2arm-loco-manipulation."""

    tasks: str = "all"  # names from the task table, separated by commas
    per_family: int = 50  # trajectories of each family
    library_seed: int = 0  # of the trajectories
    pace: float = 0.5  # how fast trajectories are played; at 1 their base peaks at 0.66 m/s
    adaptive: bool = False  # draw tasks by their errors, as in training, and not all alike, as in evaluations
    future: bool = True  # the tool's pose in 0.2 s is given; False as in teleoperation, where nobody knows it
    predictor: bool = False  # a predictor stands in for what is not given; without `future` there is always one
    history: int = 1  # frames that the policy sees; with a predictor PREDICTOR_FRAMES in place of 1
    episode_s: float = 38.0  # s, more than the longest trajectory; an episode ends when its trajectory does
    wait_s: float = 0.3  # s, after the trajectory's end
    max_vx: float = 0.7  # m/s *
    max_back: float = 0.7  # m/s *
    max_yaw_rate: float = 1.2  # rad/s *
    push_s: float = 0.0  # s, mean time between pushes; 0 for none
    settling_gain: float = 0.02  # share, as of reach


class LocoManipulation(LeggedReach):
    """One policy picks up, pushes, pulls, opens, presses, wipes and carries along trajectories of a library.

    Success: no fall, and the rule of the episode's task (task_table.TABLE) is met at its end.

    `done/<task>` and `share/<task>` are the shares of all episodes that were of a task and done, and of that task: their
    quotient is the task's rate of success. The reward is that of `LeggedReach`.
    """

    name = "go2arm-loco-manipulation"
    engines = ("mujoco",)

    Config: ClassVar[type] = LocoManipulationConfig
    interface: ClassVar[tuple[str, ...]] = ("predictor",)
    # after 10 s the base's place is wrong by 7 mm at most (one standard deviation, along each axis): what is left where markers
    # or a map correct the odometry every now and then
    default_randomization = DEFAULT_RANDOMIZATION | {"observation_drift": Range(0.0, 0.2)}
    camera = "chase-left"  # from there doors are seen to open
    headline: ClassVar[str] = "success"
    cfg: LocoManipulationConfig

    def scene(self) -> Scene:
        self.entries = chosen(self.cfg.tasks)
        c = self.cfg
        if c.per_family < 1 or c.library_seed < 0 or c.pace <= 0:
            raise RookeryError(
                f"per_family is {c.per_family}, library_seed {c.library_seed} and pace {c.pace}: give at least 1 trajectory "
                "of each family, a seed of at least 0, and a pace above 0."
            )
        if self.cfg.arm != "airbot_play":
            raise RookeryError(f"the library is for the arm airbot_play, got {self.cfg.arm!r}: leave `arm` as it is.")
        return add_parts(super().scene(), AIRBOT_PLAY)

    def floor(self) -> mujoco.MjSpec:
        return for_grasping(super().floor())

    def setup(self) -> None:
        super().setup()
        c = self.cfg
        world = self.world
        library = tuple(e.family for e in self.entries), c.per_family, c.library_seed, c.pace
        self.goals = LibraryGoals(_library(*library), _table(*library, c.control_dt), self.robot)
        self.child("goals", self.goals)
        self.stage = PartStage(world, self.entries, self.goals)
        self.child("stage", self.stage)
        floor = AdaptiveSamplingConfig().floor if c.adaptive else 1.0
        self.sampler = AdaptiveSampler([e.family for e in self.entries], AdaptiveSamplingConfig(floor=floor))
        self.child("sampler", self.sampler)
        self.fingers = world.joints(FINGERS)
        self._most = torch.tensor(self.most)
        self._start = self._first_joints()

    def _first_joints(self) -> Tensor:
        """[K, 6] rad, of the arm, with the tool where each trajectory begins and the trunk level above its start."""
        table = self.goals.table
        every = torch.arange(len(table))
        ref = table(every, torch.zeros_like(every), torch.zeros(1, dtype=torch.int64))
        pos = ref.pos[:, 0] - torch.tensor([0.0, 0.0, STAND_HEIGHT])
        return follow(self.robot, self.tool, self.robot.home[12:].expand(len(table), -1), pos, ref.quat[:, 0], 60)

    # Who acts

    first_action: ClassVar[str] = "the neutral action for the legs, that of the arm's angles at the start for the arm"

    @property
    def predicts(self) -> bool:
        """True where agents have a predictor."""
        return self.cfg.predictor or not self.cfg.future

    @property
    def frames(self) -> int:
        """Observations of the policy."""
        given = self.cfg.history
        return PREDICTOR_FRAMES if self.predicts and given == 1 else given

    @property
    def hides_future(self) -> bool:
        return self.predicts

    def groups(self) -> dict[str, Group]:
        gripper = Term("gripper", OPENING, scale=15.0, noise=0.001)
        targets = (
            Term("base_velocity", body(VELOCITY), estimated="linear velocity"),
            *(Term(f"to_goal_in_{s}_s", to_goal(s), scale=3.0, estimated="base pose") for s in LATER_S),
        )
        future = tuple(t.name for t in targets[1:])
        out = {}
        for g, s in super().groups().items():
            terms = (*(_drifting(t) for t in s.observation), gripper)
            sets = {"teacher": teacher_set(terms, targets)}
            if self.predicts:
                out[g] = Group(1, terms, s.action, self.frames, targets, future, sets)
            else:
                out[g] = Group(1, terms, s.action, self.frames, observation_sets=sets)
        return out

    def apply(self, actions: dict[str, Tensor]) -> None:
        super().apply(actions)
        assert self.robot.gripper is not None
        self.robot.gripper.set_control(self.goals.reference(0.0).gripper)

    def command_ranges(self) -> Mapping[str, CommandRange]:
        return {}  # the trajectories' own, and what brings the base back to them

    # Episodes

    def _sample_command(self, ids: Tensor) -> None:
        """Commands come from the trajectory, at every step."""
        self.command[ids] = 0.0
        self.next_command[ids] = NEVER

    def reset(self, ids: Tensor) -> None:
        table = self.goals.table
        finished = ids[self.counted[ids] > 0]
        if len(finished):
            error = self.sum_position[finished] / self.counted[finished]
            self.sampler.report(table.family[self.goals.trajectory[finished]], error)
        u = self.rng(ids).uniform(0.0, 1.0, (2,))
        within = (u[:, 1] * self.cfg.per_family).long().clamp_max(self.cfg.per_family - 1)
        self.goals.trajectory[ids] = self.sampler.draw(u[:, 0]) * self.cfg.per_family + within
        super().reset(ids)
        self.stage.reset(ids)
        r = self.robot
        joints = r.joints.pos[ids]
        joints[:, 12:] = self._start[self.goals.trajectory[ids]]
        r.reset(ids, r.base.state[ids, 0], joints)
        self.last_action[ids, 12:] = r.normalized(joints)[:, 12:]
        self.before_action[ids] = self.last_action[ids]

    def advance(self) -> None:
        super().advance()
        self.command.copy_(self.goals.command(self._most))
        self.stage.advance(tool_in_world(self.robot, self.pose))

    def truncated(self) -> Tensor:
        """An episode ends with its trajectory."""
        return self.goals.over(self.cfg.wait_s)

    # Observations

    seen_ahead_s: ClassVar[tuple[float, ...]] = (*LeggedReach.seen_ahead_s, *LATER_S)

    def quantities(self) -> dict[str, Tensor]:
        return super().quantities() | {OPENING.name: self.fingers.pos.sum(1)[:, None, None]}

    def observe(self) -> dict[str, dict[str, Tensor]]:
        out = super().observe()
        opening = self.fingers.pos.sum(1, keepdim=True)[:, None]
        for seen in out.values():
            seen["gripper"] = opening
        return out

    def observe_privileged(self) -> dict[str, dict[str, Tensor]]:
        values = {"base_velocity": self.robot.velocity[:, None]}
        for s in LATER_S:
            values[f"to_goal_in_{s}_s"] = (self.goal_in_trunk(s)[0] - self.pose.pos)[:, None]
        return dict.fromkeys(self.groups(), values)

    def reveal_future_mask(self) -> Tensor | None:
        return torch.full((self.world.num_envs,), self.cfg.future) if self.predicts else None

    def state(self) -> Tensor:
        r = self.robot
        thing = torch.einsum("nij,ni->nj", r.rotation.view(-1, 3, 3), self.stage.thing - r.base.pos[:, 0])
        what = (
            self.fingers.pos.sum(1, keepdim=True) * 15.0,
            self.goals.base_error(),
            thing.clamp(-2.0, 2.0),
            self.stage.joints,
        )
        return torch.cat((super().state(), *what), dim=1)

    # Metrics

    @property
    def metric_definitions(self) -> Mapping[str, str]:  # type: ignore[override]
        out = dict(LeggedReach.metric_definitions)
        out["success"] = (
            "1 where the trajectory's task was done at the end, see stage.Stage, and the robot did not fall"
        )
        for entry in self.entries:
            out[f"done/{entry.family}"] = f"1 where the episode was one of {entry.family} and a success"
            out[f"share/{entry.family}"] = f"1 where the episode was one of {entry.family}"
        return out

    def gauges(self, i: int) -> list[Gauge]:
        """Gauges of what the rule of the world's task asks for."""
        signs = self._signs(super().metrics())
        entry = self.entries[int(self.goals.table.family[self.goals.trajectory[i]])]
        return [ask.gauge(signs, i) for ask in entry.asks]

    def _signs(self, metrics: Mapping[str, Tensor]) -> Signs:
        self.remeasure()
        return self.stage.signs(
            tool_in_world(self.robot, self.pose), metrics["position_error"], metrics["rotation_error"]
        )

    def metrics(self) -> dict[str, Tensor]:
        out = super().metrics()
        signs = self._signs(out)
        done = self.stage.done(signs) & ~self.fallen & (self.counted > 0)
        out["success"] = done.float()
        out["action_change"] = self.change_sum / self.goals.clock.clamp_min(1)
        family = self.goals.table.family[self.goals.trajectory]
        for k, entry in enumerate(self.entries):
            out[f"done/{entry.family}"] = ((family == k) & done).float()
            out[f"share/{entry.family}"] = (family == k).float()
        return out

    def planned(self, ahead_s: float) -> tuple[Tensor, Tensor]:
        return self.goals.planned(ahead_s, STAND_HEIGHT)

    def begins(self) -> Tensor:
        return self.goals.clock == 0

    def settles(self) -> Tensor:
        """[N] bool: not in families where the tool pulls or carries something."""
        family = self.goals.table.family[self.goals.trajectory]
        held = [k for k, entry in enumerate(self.entries) if entry.family in HOLDING]
        return ~torch.isin(family, torch.tensor(held, dtype=family.dtype))


def _drifting(term: Term) -> Term:
    """A term as the base's odometry makes it."""
    if term.name == "to_goal":
        return replace(term, drift=ODOMETRY_DRIFT)
    return replace(term, drift_of="to_goal") if term.name in DRIFTING else term


@functools.lru_cache(maxsize=1)  # to generate them takes longer than to make the worlds
def _library(families: tuple[str, ...], count: int, seed: int, pace: float) -> list[Trajectory]:
    """`count` trajectories of each family as they are played; to be read, not changed."""
    return [played(x, pace) for family in families for x in generate(family, count, seed)]


@functools.lru_cache(maxsize=1)
def _table(families: tuple[str, ...], count: int, seed: int, pace: float, dt: float) -> TrajectoryTable:
    """Those of `_library` at the rate of control, `dt` s; to be read, not changed."""
    return TrajectoryTable(_library(families, count, seed, pace), dt)
