"""What the Panda tasks share: arms on a table, what each sees of itself, how success is counted, how a script moves an arm.

Unlike the table-top tasks (tabletop.py), which keep Meta-World's frame of numbers, an agent here sees its joints, its tool,
its command and the objects, in its own base's frame; and there may be several arms, each with an agent of its own.

World: a single arm stands at the origin and faces +x, y is to its left, z up; the table's top is z = 0.

A task is a short file: what stands there (`furnish`), where (`place`), what is seen of it (`sight`, `seen`), how it is
judged (`judge`), and how it can be done (`plan`).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.scenery import table
from rookery.robots.manipulators.panda import STEP, TURN, Panda, add_panda
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Range
from rookery.sim.rotations import matrix
from rookery.sim.scene import Scene
from rookery.sim.specs import Group, Term, Weights
from rookery.sim.task import Task

HOME = (0.0, 0.1, 0.0, -2.0, 0.0, 2.1, math.pi / 4)
"""rad: the tool points down and its fingers close along the base's y."""
BOX = ((0.28, -0.45, 0.012), (0.76, 0.45, 0.6))
"""m, base's frame, where the tool may go: down to where its finger tips nearly touch the table."""
OPENING = 0.08  # m, of the open gripper
FOLLOWING = ("cartesian", "pose", "impedance")
"""Action kinds in which the tool follows a goal of its own."""
DEFAULT_RANDOMIZATION = {
    "pad_friction": Range(0.6, 1.5),
    "joint_damping": Range(0.5, 3.0),
    "observation_noise": Range(1.0, 1.0),
    "observation_delay": Range(0.0, 0.025),
    "action_delay": Range(0.0, 0.025),
}


@dataclass(frozen=True)
class Stand:
    """Where an arm stands: prefix of its names in the scene, m, and the turn about z, rad."""

    prefix: str = "panda"
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    yaw: float = 0.0


@dataclass(frozen=True)
class Wish:
    """What a script wants of one arm.

    Args:
        place: [N, 3] m, world, of the tool.
        effort: [N] of the gripper, 1 closes.
        turn: [N] rad about the vertical, from the attitude at the start of the episode; None: as it is.
        step: m, largest way of the tool's goal in a control step, along each axis.
    """

    place: Tensor
    effort: Tensor
    turn: Tensor | None = None
    step: float | Tensor = STEP


@dataclass(frozen=True)
class PandaConfig:
    """Values that all Panda tasks share."""

    action: str = "cartesian"  # see robots.manipulators.panda.KINDS
    episode_s: float = 5.0  # s
    control_dt: float = 0.025  # s
    dt: float = 0.0025  # s
    start_spread: tuple[float, float, float] = (0.05, 0.1, 0.05)  # m, half-widths of the box in which tools start
    reward: Weights = Weights()


class PandaTask(Task):
    """Base of the Panda tasks. Success: the task is done at the end, and has been for `hold_s`.

    Attributes:
        robots: the arms by agent group; `robot` is the first.
        held: [N] control steps for which the task has been done without a break.
        ever, when: [N] whether it was done at any step, and the time of the first, s.
        phase: [N] int64, of the scripted expert.
    """

    Config: ClassVar[type] = PandaConfig
    default_randomization = DEFAULT_RANDOMIZATION
    camera: Any = ((1.2, -0.6, 0.6), (0.4, 0.0, 0.1))
    cfg: Any
    stands: ClassVar[dict[str, Stand]] = {"arm": Stand()}
    home: ClassVar[tuple[float, ...]] = HOME
    box: ClassVar[tuple[tuple[float, float, float], tuple[float, float, float]]] = BOX
    start: ClassVar[tuple[float, float, float]] = (0.45, 0.0, 0.25)
    """m, base's frame, of the tool when an episode begins; the tool's goal stays in `box`."""
    opening: ClassVar[float] = OPENING  # m, of the gripper when an episode begins
    hold_s: ClassVar[float] = 0.25

    held: Tensor
    ever: Tensor
    when: Tensor
    phase: Tensor

    # What a task says

    @abc.abstractmethod
    def furnish(self, scene: Scene) -> Scene:
        """Add what stands on the table."""

    @abc.abstractmethod
    def place(self, ids: Tensor) -> None:
        """Put things where an episode begins."""

    @abc.abstractmethod
    def see(self) -> None:
        """Bring what is read of the world up to date."""

    @abc.abstractmethod
    def sight(self, group: str) -> tuple[Term, ...]:
        """What an agent sees beside its own arm."""

    @abc.abstractmethod
    def seen(self, group: str) -> dict[str, Tensor]:
        """The values [N, d] of `sight`."""

    @abc.abstractmethod
    def judge(self) -> tuple[dict[str, Tensor], Tensor]:
        """Unweighted reward terms [N], which all agents share, and whether the task is done [N] bool."""

    @abc.abstractmethod
    def plan(self) -> dict[str, Wish]:
        """What the scripted expert wants of each arm."""

    # The frame around it

    def scene(self) -> Scene:
        scene = Scene(self.ground, dt=self.cfg.dt)
        for stand in self.stands.values():
            half = 0.5 * stand.yaw
            quat = (math.cos(half), 0.0, 0.0, math.sin(half))
            add_panda(scene, stand.prefix, self.cfg.action, pos=stand.pos, quat=quat)
        return self.furnish(scene)

    def ground(self) -> mujoco.MjSpec:
        """The table. Friction cones are elliptic, without which what a gripper holds creeps out of it."""
        spec = table(half=(0.65, 0.7), centre=(0.45, 0.0))
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        return spec

    def setup(self) -> None:
        world = self.world
        n = self.world.num_envs
        self.robots: dict[str, Panda] = {}
        for group, stand in self.stands.items():
            robot = Panda(
                world, stand.prefix, self.cfg.action, self.cfg.control_dt, home=self.home, box=_box_of(stand, self.box)
            )
            self.child(group, robot)
            self.robots[group] = robot
        self.robot = next(iter(self.robots.values()))
        self._attitude = {g: self._attitude_of(r) for g, r in self.robots.items()}
        self.buffer("held", n, dtype=torch.int64)
        self.buffer("ever", n, dtype=torch.bool)
        self.buffer("when", n)
        self.buffer("phase", n, dtype=torch.int64)
        self.terms: dict[str, Tensor] = {}
        self._stale = True

    def _attitude_of(self, robot: Panda) -> Tensor:
        """[3, 3] of the tool at home, to the world."""
        one = torch.zeros(1, dtype=torch.int64)
        robot.reset(one, robot.home[None])
        return robot.goal_turn[0].clone()

    def groups(self) -> dict[str, Group]:
        own: tuple[Term, ...] = (
            Term("joint_position", 7, "rad", noise=0.001),
            Term("joint_velocity", 7, "rad/s", scale=0.5, noise=0.01),
            Term("opening", 1, "m", "between the fingers", scale=12.5, noise=0.0005),
            Term("tool", 3, "m", "base", scale=2.0, noise=0.001),
        )
        if self.cfg.action != "cartesian":  # there it stays as it is
            own += (Term("tool_axes", 6, "1", "tool's x and y in the base's", noise=0.002),)
        if self.cfg.action in FOLLOWING:
            own += (Term("command", 3, "m", "base, the tool's goal minus the tool", scale=20.0),)
        return {g: Group(1, own + self.sight(g), r.spec) for g, r in self.robots.items()}

    def parameters(self) -> dict[str, Parameter]:
        """Those of all arms: a value holds for each of them."""
        parts = [r.parameters() for r in self.robots.values()]
        if len(parts) == 1:
            return parts[0]
        out = {}
        for name, p in parts[0].items():
            writers = [q[name].write for q in parts]

            def write(ids: Tensor, v: Tensor, writers: Any = writers) -> None:
                for w in writers:
                    w(ids, v)

            out[name] = Parameter(p.summary, p.unit, p.nominal, p.low, p.high, write)
        return out

    def reset(self, ids: Tensor) -> None:
        spread = torch.tensor(self.cfg.start_spread)
        for group, robot in self.robots.items():
            local = torch.tensor(self.start) + spread * self.rng(ids).uniform(-1.0, 1.0, (3,))
            robot.reset(ids, robot.joints_for(self.to_world(group, local)), self.opening)
        self.held[ids] = 0
        self.ever[ids] = False
        self.when[ids] = 0.0
        self.phase[ids] = 0
        self.place(ids)
        self._stale = True

    def apply(self, actions: dict[str, Tensor]) -> None:
        for group, robot in self.robots.items():
            a = actions[group]
            robot.apply(a[:, 0] if a.dim() == 3 else a[:, :, 0])

    def advance(self) -> None:
        self.look()
        self.terms, done = self.judge()
        self.held.copy_(torch.where(done, self.held + 1, 0))
        self.when.copy_(torch.where(done & ~self.ever, self.steps * self.cfg.control_dt, self.when))
        self.ever |= done

    def look(self) -> None:
        """Everything seen, up to date."""
        for robot in self.robots.values():
            robot.refresh()
        self.see()
        self._stale = False

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self._stale = True

    def observe(self) -> dict[str, dict[str, Tensor]]:
        if self._stale:
            self.look()
        out = {}
        for group, robot in self.robots.items():
            terms = {
                "joint_position": robot.pos, "joint_velocity": robot.vel, "opening": robot.opening[:, None],
                "tool": self.to_base(group, robot.tool),
            }  # fmt: skip
            if self.cfg.action != "cartesian":
                axes = robot.base_turn.float().T @ robot.turn[:, :, :2]
                terms["tool_axes"] = axes.transpose(1, 2).flatten(1)
            if self.cfg.action in FOLLOWING:
                terms["command"] = self.to_base(group, (robot.goal - robot.tool).float(), place=False)
            out[group] = {name: value[:, None] for name, value in (terms | self.seen(group)).items()}
        return out

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        return {g: {name: v[:, None] for name, v in self.terms.items()} for g in self.robots}

    def terminated(self) -> Tensor:
        return torch.zeros_like(self.steps)

    def success(self) -> Tensor:
        """[N] bool."""
        return self.held * self.cfg.control_dt >= self.hold_s

    def metrics(self) -> dict[str, Tensor]:
        late = torch.where(self.ever, self.when, self.steps * self.cfg.control_dt)
        return {"success": self.success().float(), "done_at_any_time": self.ever.float(), "seconds": late}

    # Frames

    def to_world(self, group: str, local: Tensor) -> Tensor:
        """Places [n, 3] m of an arm's base frame in the world's."""
        robot = self.robots[group]
        return local @ robot.base_turn.float().T + robot.base_pos.float()

    def to_base(self, group: str, vector: Tensor, place: bool = True) -> Tensor:
        """World places [n, 3] m (or, with place=False, differences) in an arm's base frame."""
        robot = self.robots[group]
        return (vector - robot.base_pos.float() if place else vector) @ robot.base_turn.float()

    # The scripted expert

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]] | None:
        """The scripted expert of the task: it reads the true state, and moves tools straight to where `plan` says. None for
        actions of joints."""
        if self.cfg.action not in FOLLOWING:
            return None

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            if self._stale:
                self.look()
            return {group: self._towards(group, wish)[:, None] for group, wish in self.plan().items()}

        return act

    def _towards(self, group: str, wish: Wish) -> Tensor:
        """The action [N, D] that brings an arm's goal nearer to a wish."""
        robot = self.robots[group]
        step = torch.as_tensor(wish.step).reshape(-1, 1)
        way = (wish.place - robot.goal.float()).clamp(-step, step) / STEP
        parts = [way]
        if self.cfg.action != "cartesian":
            attitude = self._attitude[group].float()
            angle = torch.zeros_like(wish.effort) if wish.turn is None else wish.turn
            want = about_z(angle) @ attitude
            now = robot.goal_turn.float()
            sine = 0.5 * torch.linalg.cross(now, want, dim=1).sum(2)  # of the turn, along its axis
            parts.append((sine / TURN).clamp(-1.0, 1.0))
        parts.append(wish.effort[:, None])
        return torch.cat(parts, 1).clamp(-1.0, 1.0)

    def go_on(self, ready: Sequence[Tensor]) -> None:
        """Go to the next phase where the present one's condition, [N] bool, holds. The last phase has none."""
        conditions = torch.stack([*ready, torch.zeros_like(self.ever)])
        self.phase += conditions.gather(0, self.phase[None])[0]

    def of_phase(self, values: Sequence[Tensor]) -> Tensor:
        """What belongs to each world's phase: one [N, ...] of each phase -> [N, ...]."""
        return torch.stack(list(values))[self.phase, torch.arange(len(self.phase))]


def about_z(angle: Tensor) -> Tensor:
    """Rotation matrices [N, 3, 3] about the vertical."""
    zero = torch.zeros_like(angle)
    return matrix(torch.stack(((0.5 * angle).cos(), zero, zero, (0.5 * angle).sin()), 1)).view(-1, 3, 3)


def _box_of(stand: Stand, box: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """A base's box in the world, of a stand that is turned by quarters."""
    corners = torch.tensor(box, dtype=torch.float64) @ about_z(torch.tensor([stand.yaw]))[0].double().T
    corners += torch.tensor(stand.pos, dtype=torch.float64)
    return tuple(corners.amin(0).tolist()), tuple(corners.amax(0).tolist())


def drawn(rng: Any, low: Sequence[float], high: Sequence[float]) -> Tensor:
    """[n, 3], uniform between two corners."""
    a, b = torch.tensor(low), torch.tensor(high)
    return a + (b - a) * rng.uniform(0.0, 1.0, (3,))
