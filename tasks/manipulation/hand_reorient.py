"""Hand-reorient: turn a cube in the palm of an Allegro hand to one orientation after the other, without dropping it.

In the manner of MuJoCo Playground's LeapCubeReorient (mujoco_playground 0.2.0: control step, episode, action scale, weights,
noise and the 0.1 rad of a success are its), with an Allegro hand, which also has touch sensors. As there, all terms but
`success` are rates: they are paid per second.

World: the hand is screwed down with its palm up, fingers towards +x and leaning down, so that the cube rests against them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.allegro import FLANGE_TO_PALM, PALM_CENTRE, PALM_HALF, allegro
from rookery.assets.blocks import block
from rookery.assets.scenery import Rgba, ground
from rookery.robots.manipulators.allegro import HAND_NAME, TOUCH_SCALE, AllegroHand
from rookery.sim.actuation import Actuation
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import axes, command, joint_angles, joint_velocities, place, rotation, rotation_vector
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.rotations import from_axis_angle, matrix, multiply, rotation_error
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Group, Term, Weights
from rookery.sim.task import Task
from rookery.sim.terms import Constant
from rookery.tasks.manipulation.objects import ACTED, FORCES, HAND_RANDOMIZATION, acted, at_rest, hand_parameters
from rookery.tasks.rewards import joint_deviation_l2

HEIGHT = 0.3  # m, of the mounting face
LEAN = math.radians(20.0)  # of the fingers below the horizontal
HALF, KG = 0.0325, 0.1  # m and kg, of the cube: our choice, hollow
CRADLE = torch.tensor([0.0, 0.8, 0.7, 0.6] * 3 + [0.9, 0.5, 0.3, 0.5])
"""[16] rad, of JOINTS: the fingers make a bowl with the palm, the thumb stands at its side."""
REST = (PALM_CENTRE[0] + PALM_HALF[0] + HALF + 0.004, 0.0, FLANGE_TO_PALM - 0.013)
"""m, in the hand's frame: where the cube lies in that bowl, its goal."""
_BEND = 0.5 * (0.5 * math.pi + LEAN)
HAND_QUAT = multiply(torch.tensor([math.cos(_BEND), 0.0, math.sin(_BEND), 0.0]), torch.tensor([0.0, 0.0, 0.0, 1.0]))
"""[4] wxyz of the hand: half a turn about its z brings the palm round, the bend its fingers to x."""
MIDDLE = matrix(HAND_QUAT).view(3, 3) @ torch.tensor(REST) + torch.tensor([0.0, 0.0, HEIGHT])
"""[3] m, world: REST."""
FALLEN = 0.12  # m, from there: it is out of the hand
SHOWN = (0.08, 0.25, 0.36)  # m: where a second cube shows the goal
FACES: tuple[Rgba, ...] = (
    (0.85, 0.20, 0.18, 1.0), (0.95, 0.55, 0.12, 1.0), (0.20, 0.60, 0.28, 1.0),
    (0.20, 0.40, 0.80, 1.0), (0.96, 0.84, 0.20, 1.0), (0.55, 0.30, 0.65, 1.0),
)  # fmt: skip
"""Of +x, -x, +y, -y, +z and -z."""


CUBE, GOAL = rotation("cube's rotation", "cube"), rotation("goal's rotation", "goal")
"""Quantities that the hand observes."""


@dataclass(frozen=True)
class HandReorientConfig:
    """Values of hand-reorient; those of LeapCubeReorient but for the finer physics step."""

    action_scale: float = 0.5  # rad, largest change of a joint's target in a control step; the hand's speed allows 0.31
    reached: float = 0.1  # rad, from the goal: a success
    episode_s: float = 50.0  # s, 1000 steps
    control_dt: float = 0.05  # s
    dt: float = 0.005  # s; theirs is 0.01
    reward: Weights = Weights(
        orientation=5.0, position=0.5, termination=-100.0, hand_pose=-0.5, action_rate=-0.001, energy=-0.001, success=100.0
    )  # fmt: skip


class HandReorient(Task):
    """An Allegro hand turns a cube in its palm to one orientation after the other.

    Metric: `successes`, goals reached in an episode, each followed by a new one; success: one at least.

    Actions: changes of the targets of the 16 joints.

    Attributes:
        hand: the AllegroHand. cube: view of the cube.
        goal: [N, 4] wxyz, world, wanted of the cube.
        reached_count: [N] goals reached.
    """

    name = "hand-reorient"
    engines = ("mujoco",)

    metric_definitions = MappingProxyType(
        {
            "successes": "goal orientations reached in the episode, within the config's `reached` rad",
            "success": "1 where at least one was",
            "seconds_to_first": "s, until the first one; the time so far while there is none",
        }
    )

    Config = HandReorientConfig
    interface: ClassVar[tuple[str, ...]] = ("action_scale",)
    causes = ("dropped",)
    headline = "successes"
    default_randomization = HAND_RANDOMIZATION
    delays_controls = True
    camera: Any = ((0.42, -0.30, 0.62), (0.10, 0.06, 0.31))
    cfg: HandReorientConfig

    goal: Tensor
    reached_count: Tensor
    last_action: Tensor
    change: Tensor
    force: Tensor
    dropped: Tensor
    first_done_s: Tensor

    def scene(self) -> Scene:
        scene = Scene(_floor, dt=self.cfg.dt)
        scene.add(lambda: allegro(wrist=False), HAND_NAME, pos=(0.0, 0.0, HEIGHT), quat=HAND_QUAT.tolist())
        scene.add(lambda: colored_cube(), "cube", pos=MIDDLE.tolist())
        return scene.add(lambda: colored_cube(shown=True), "goal", pos=SHOWN)

    @property
    def shardable(self) -> bool:
        """Means and norms of torch round by how many worlds there are, here in what the hand is commanded."""
        return False

    def setup(self) -> None:
        world = self.world
        n = self.world.num_envs
        self.hand = AllegroHand(world, control_dt=self.cfg.control_dt, wrist=False)
        self.child("hand", self.hand)
        self.cube = world.bodies(["cube/base"])
        self._shown = world.bodies(["goal/base"])
        self._starts = cube_symmetries()
        self.buffer("goal", n, 4)
        self.buffer("last_action", n, 16)
        self.buffer("change", n, 16)
        self.buffer(
            "force", n, 5
        )  # kept, since the engine knows touches from its last step alone: neither reset nor resume have one
        self.buffer("first_done_s", n)
        self.buffer("dropped", n, dtype=torch.bool)
        self.buffer("reached_count", n, dtype=torch.int64)
        self._terms = {name: torch.zeros(n) for name in self.cfg.reward}

    def groups(self) -> dict[str, Group]:
        middle = Constant(tuple(MIDDLE.tolist()), "m", "world", "middle of the hand", place=True)
        terms = (
            Term("joint_position", joint_angles(16), noise=0.05),
            Term("joint_velocity", joint_velocities(16), scale=0.2, noise=0.1),
            Term("command", command("joints' targets", 16, "rad") - joint_angles(16), scale=4.0, initial="0"),
            Term("force", FORCES, scale=1.0 / TOUCH_SCALE, clip=3.0, noise=0.05, initial="0"),
            Term("cube_position", place("cube's position") - middle, scale=10.0, noise=0.02, estimated="cube's pose"),
            Term("cube_rotation", rotation_vector(CUBE, GOAL), noise=0.1, estimated="cube's pose"),
            Term("cube_axes", axes(CUBE, "xy"), noise=0.1, estimated="cube's pose"),
            Term("last_action", acted(16)),
        )
        size = self.cfg.action_scale
        names = self.hand.fingers.names
        spec = ActionSpec("joint_delta", names, (-size,) * 16, (size,) * 16, ("rad",) * 16, (0.0,) * 16)
        return {"hand": Group(1, terms, spec)}

    @property
    def actuation(self) -> dict[str, Actuation]:
        step = "wanted = target of the step before + command, then within [lower, upper]; an increment, not a place"
        return {"hand": self.hand.actuation((step,), 16, (None,) * 16)}

    @property
    def disturbed_bodies(self) -> tuple[str, ...]:
        return ("cube/base",)

    def parameters(self) -> dict[str, Parameter]:
        return hand_parameters(self.world, self.hand, "cube/base", ["cube/block"])

    def reset(self, ids: Tensor) -> None:
        rng = self.rng(ids)
        n = len(ids)
        joints = (CRADLE + 0.05 * rng.uniform(-1.0, 1.0, (16,))).clamp(self.hand.lower, self.hand.upper)
        self.hand.reset(ids, joints)
        pos = MIDDLE + 0.005 * rng.uniform(-1.0, 1.0, (3,))
        yaw = 0.2 * rng.uniform(-1.0, 1.0)
        about = torch.stack(((0.5 * yaw).cos(), 0.0 * yaw, 0.0 * yaw, (0.5 * yaw).sin()), 1)
        lean = torch.tensor([math.cos(0.5 * LEAN), 0.0, math.sin(0.5 * LEAN), 0.0]).expand(n, 4)
        quat = multiply(multiply(lean, about), self._starts[rng.integers(0, len(self._starts))])
        self.cube.set_state(ids, at_rest(pos, quat))
        self._new_goals(ids)
        self.last_action[ids] = self.change[ids] = 0.0
        self.force[ids] = 0.0
        self.first_done_s[ids] = 0.0
        self.reached_count[ids] = 0
        self.dropped[ids] = False

    def _new_goals(self, ids: Tensor) -> None:
        """Orientations, uniform over all."""
        self.goal[ids] = torch.nn.functional.normalize(self.rng(ids).normal((4,)), dim=1)
        self._shown.set_state(ids, at_rest(torch.tensor(SHOWN).expand(len(ids), 3), self.goal[ids]))

    def apply(self, actions: dict[str, Tensor]) -> None:
        given = self.given["hand"][:, 0]
        self.change.copy_(given - self.last_action)
        self.last_action.copy_(given)
        hand = self.hand
        wanted = hand.target + self.cfg.action_scale * actions["hand"][:, 0].clamp(-1.0, 1.0)
        hand.command(wanted.clamp(hand.lower, hand.upper), self.late.get("hand"))

    def advance(self) -> None:
        state = self.cube.state[:, 0]
        hand = self.hand
        self.force.copy_(hand.touch)
        error = (state[:, :3] - MIDDLE).norm(dim=1)
        angle = rotation_error(self.goal, state[:, 3:7]).norm(dim=1)
        self.dropped.copy_(error > FALLEN)
        done = (angle < self.cfg.reached) & ~self.dropped
        power = (hand.actuators.force * hand.joints.vel).abs().sum(1)
        dt = self.cfg.control_dt
        self._terms = {
            "orientation": dt * (1.0 - (angle - 0.2) / math.pi).clamp(0.0, 1.0),
            "position": dt * (1.0 - (error - 0.02) / 0.05).clamp(0.0, 1.0),
            "termination": dt * self.dropped.float(),
            "hand_pose": dt * joint_deviation_l2(hand.joints.pos, CRADLE),
            "action_rate": dt * self.change.square().sum(1), "energy": dt * power, "success": done.float(),
        }  # fmt: skip
        self.reached_count += done
        self.first_done_s.copy_(torch.where(done & (self.reached_count == 1), self.steps * dt, self.first_done_s))
        if done.any():
            self._new_goals(done.nonzero()[:, 0])

    def measured(self) -> dict[str, dict[str, Tensor]]:
        values = {
            "joint angles": self.hand.joints.pos, "joint velocities": self.hand.joints.vel, "joints' targets": self.hand.target,
            FORCES.name: self.force, "cube's position": self.cube.pos[:, 0], CUBE.name: self.cube.quat[:, 0],
            GOAL.name: self.goal, ACTED: self.last_action,
        }  # fmt: skip
        return {"hand": {name: value[:, None] for name, value in values.items()}}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        return {"hand": {name: value[:, None] for name, value in self._terms.items()}}

    def terminated(self) -> Tensor:
        return self.dropped.long()

    def gauges(self, i: int) -> list[Gauge]:
        angle = float(rotation_error(self.goal[i : i + 1], self.cube.state[i, :, 3:7]).norm())
        goals = Gauge("goals", float(self.reached_count[i]), 1.0, at_most=False)
        return [Gauge("angle to the goal", angle, self.cfg.reached, "rad"), goals]

    def metrics(self) -> dict[str, Tensor]:
        count = self.reached_count.float()
        first = torch.where(count > 0, self.first_done_s, self.steps * self.cfg.control_dt)
        return {"successes": count, "success": (count > 0).float(), "seconds_to_first": first}


def cube_symmetries() -> Tensor:
    """[24, 4] wxyz: all turns of a cube onto itself."""
    quarters = torch.arange(4) * 0.5 * math.pi
    spin = from_axis_angle(torch.tensor([0.0, 0.0, 1.0]).expand(4, 3), quarters)
    tip = from_axis_angle(torch.tensor([0.0, 1.0, 0.0]).expand(4, 3), quarters)
    side = from_axis_angle(torch.tensor([1.0, 0.0, 0.0]).expand(2, 3), torch.tensor([0.5, -0.5]) * math.pi)
    tilts = torch.cat((tip, side))
    return multiply(spin[:, None].expand(4, 6, 4), tilts[None].expand(4, 6, 4)).reshape(24, 4)


def colored_cube(shown: bool = False) -> mujoco.MjSpec:
    """A cube with a color on each side: geom `block`; or, with shown, the picture of one, a mocap body."""
    gray = (0.15, 0.15, 0.16, 1.0)
    spec = mujoco.MjSpec() if shown else block((HALF,) * 3, KG, gray)
    body = spec.worldbody.add_body(name="base") if shown else spec.body("base")
    if shown:
        body.mocap = True
    for i, color in enumerate(FACES):
        pos = [0.0] * 3
        size = [0.88 * HALF] * 3
        pos[i // 2] = HALF if i % 2 == 0 else -HALF
        size[i // 2] = 0.0006
        face = body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=size, pos=pos, rgba=list(color), mass=0.0, group=2)
        face.contype = face.conaffinity = 0
    if shown:
        core = body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[HALF] * 3, rgba=list(gray), mass=0.0, group=2)
        core.contype = core.conaffinity = 0
    return spec


def _floor() -> mujoco.MjSpec:
    """The ground, with elliptic friction cones."""
    spec = ground()
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    return spec
