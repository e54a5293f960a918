"""Hand-grasp: from a pre-grasp, close an Allegro hand around an object, lift it by 10 cm and hold it.

In the manner of G-PAYN ("A Grasp Pose is All You Need", IROS 2023, arXiv 2306.03484): a sampler of grasp poses says where the
hand begins, 5 cm before the grasp, the finger tips feel, and the reward speaks of contacts, height and nearness. Other than
there the hand is an Allegro on six servos, an episode goes on after the goal, since what was lifted must also be held, and
there are no cameras: the object's pose takes the place of their features.

World: the table's top is z = 0, the object stands about the origin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.objects import find_object
from rookery.assets.scenery import table
from rookery.robots.manipulators.allegro import OPEN, PINCH_OPEN, TOUCH_SCALE, AllegroHand, add_allegro, wrist_angles
from rookery.sim.actuation import Actuation
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import axes, command, joint_angles, joint_velocities, own, place, rotation
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.rotations import matrix, multiply
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Group, Term, Weights
from rookery.sim.task import Task
from rookery.sim.terms import Above, Joined, Quantity, Turned
from rookery.tasks.manipulation.hand_expert import HandExpert
from rookery.tasks.manipulation.hand_poses import BACK, grasp_list
from rookery.tasks.manipulation.objects import ACTED, FORCES, HAND_RANDOMIZATION, acted, at_rest, hand_parameters

HEIGHT = 0.3  # m, of the wrist's zero over the table
STEPS = (0.1,) * 16 + (0.004,) * 3 + (0.03,) * 3
"""rad and m, largest change of a target in a control step: 5 rad/s, 0.2 m/s and 1.5 rad/s."""
LEASHES = (0.15,) * 16 + (0.03,) * 3 + (0.1,) * 3
"""rad and m, from a joint to its target at most: the finger servos give their full torque at 0.12 rad, so a command that the
object stops does not run away from the finger, and how far it is ahead sets how hard it presses."""
TOUCHED = 0.05  # N, from which a touch counts
LOST = 0.3  # m and the object's length, from the hand to the superquadric's centre, at which the episode has failed


WRIST, CENTRE = (
    "wrist's slides x, y, z and hinges roll, pitch, yaw",
    "centre of the grasped part's superquadric in the object",
)
# A quantity and no number, so that the tasks of a set of objects have the same terms.
REST = Quantity("object's height at rest on the table", 1, "m", "world", place=True, doc="a constant of each object")
TARGETS = command("joints' targets, fingers and wrist", 22, "rad, m, rad")
THING, GRASP = rotation("object's rotation", "object"), rotation("grasp frame's rotation", "grasp frame")
"""Quantities that the hand observes."""


@dataclass(frozen=True)
class HandGraspConfig:
    """Values of hand-grasp. The reward's weights are G-PAYN's (arXiv 2306.03484; hsp-iit/
    rl-icub-dexterous-manipulation)."""

    object: str = "tomato_soup_can"  # of the library, see rookery.assets.objects
    sampler: str = "superquadric"  # of grasp poses, or "antipodal"
    grasps: int = 16  # so many of the best grasps are drawn from
    grasp_seed: int = 0  # of the sampler
    object_spread: float = 0.05  # m, half-width of the square in which the object stands
    goal_height: float = 0.10  # m, that it is to be lifted by
    hold_s: float = 0.5  # s, that it has been up there at the end
    episode_s: float = 4.0  # s
    control_dt: float = 0.02  # s
    dt: float = 0.0025  # s
    reward: Weights = Weights(contacts=1.0, lift=1000.0, near=100.0, goal=1.0, failure=-1.0)


class HandGrasp(Task):
    """An Allegro hand closes around an object at a sampled grasp, lifts it and holds it.

    Success: at the end the object is 10 cm higher than it stood, and has been for half a second.

    Actions: changes of the targets of 16 finger joints and of the wrist's six. G-PAYN's hand couples its fingers' joints to
    nine motors; this one has a motor at each joint, and the shapes of a power grasp and of a pinch need them all.

    Attributes:
        hand: the AllegroHand. thing: view of the object.
        pick: [N] int64, which of the grasps `grasps` the episode begins before.
        grasp_pos, grasp_quat: [N, 3] m and [N, 4] wxyz, world: that grasp.
        held_steps: [N] control steps for which the object has been up without a break.
    """

    name = "hand-grasp"
    engines = ("mujoco",)

    metric_definitions = MappingProxyType(
        {
            "success": "1 where the object was up at goal_height for the last hold_s and not lost",
            "lifted_at_any_time": "1 where it was up at any control step",
            "seconds": "s, until it was first up; the time so far while it was not",
            "height": "m, of the object above its rest on the table now",
        }
    )

    Config = HandGraspConfig
    interface: ClassVar[tuple[str, ...]] = ("object",)
    causes = ("lost",)
    default_randomization = HAND_RANDOMIZATION
    delays_controls = True
    camera: Any = ((0.42, -0.38, 0.30), (0.0, 0.0, 0.13))
    cfg: HandGraspConfig

    pick: Tensor
    grasp_pos: Tensor
    grasp_quat: Tensor
    held_steps: Tensor
    ever_done: Tensor
    first_done_s: Tensor
    last_action: Tensor
    height: Tensor
    centre_distance: Tensor
    touch_share: Tensor
    force: Tensor
    touched_once: Tensor
    lost: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        self.grasps = grasp_list(self.cfg.object, self.cfg.sampler, self.cfg.grasps, self.cfg.grasp_seed)
        self.item = find_object(self.cfg.object)

    def scene(self) -> Scene:
        scene = Scene(_table, dt=self.cfg.dt)
        scene.add(self.item.spec, "thing", pos=(0.0, 0.0, self.item.rest_height))
        return add_allegro(scene, height=HEIGHT)

    def setup(self) -> None:
        world = self.world
        n = self.world.num_envs
        self.hand = AllegroHand(world, control_dt=self.cfg.control_dt)
        self.child("hand", self.hand)
        self.thing = world.bodies(["thing/object"])
        self.step_sizes = torch.tensor(STEPS)
        self._leashes = torch.tensor(LEASHES)
        self.zero = torch.tensor([0.0, 0.0, HEIGHT])
        self._size = max(self.item.size)
        for name, width in (("grasp_pos", 3), ("grasp_quat", 4), ("last_action", 22)):
            self.buffer(name, n, width)
        self.buffer(
            "force", n, 5
        )  # kept, since the engine knows touches from its last step alone: neither reset nor resume have one
        for name in ("first_done_s", "height", "centre_distance", "touch_share"):
            self.buffer(name, n)
        for name in ("ever_done", "touched_once", "lost"):
            self.buffer(name, n, dtype=torch.bool)
        for name in ("pick", "held_steps"):
            self.buffer(name, n, dtype=torch.int64)
        self.expert = HandExpert(self)
        self.child("expert", self.expert)
        self._terms = {name: torch.zeros(n) for name in self.cfg.reward}

    def groups(self) -> dict[str, Group]:
        fingers = joint_angles(16, "joint angles of the fingers")
        wrist = own(WRIST, 6, "m, rad", doc="slides count from (0, 0, 0.3) m, world axes")
        thing, grasp = place("object's position"), place("grasp frame's position")
        centre = Turned(own(CENTRE, 3, "m", "object", doc="a constant of each object"), THING)
        terms = (
            Term("joint_position", fingers, noise=0.01),
            Term("joint_velocity", joint_velocities(16, "joint velocities of the fingers"), scale=0.2, noise=0.1),
            Term("wrist", wrist, noise=0.001),
            Term("command", TARGETS - Joined((fingers, wrist)), scale=10.0, initial="0"),
            Term("touch", Above(FORCES, TOUCHED)),
            Term("force", FORCES, scale=1.0 / TOUCH_SCALE, clip=3.0, noise=0.05, initial="0"),
            Term("object_position", Turned(thing - grasp, GRASP), scale=5.0, noise=0.002, estimated="object's pose"),
            Term("object_axes", Turned(axes(THING, "xy"), GRASP), noise=0.01, estimated="object's pose"),
            Term("superquadric_centre", Turned(thing + centre - grasp, GRASP), scale=5.0, noise=0.002,
                 estimated="object's pose"),
            Term("lifted", thing[2] - REST, scale=10.0, noise=0.002, estimated="object's pose"),
            Term("last_action", acted(22)),
        )  # fmt: skip
        names = self.hand.whole.names
        unit = ("rad",) * 16 + ("m",) * 3 + ("rad",) * 3
        low = tuple(-v for v in STEPS)
        return {"hand": Group(1, terms, ActionSpec("joint_delta", names, low, STEPS, unit, (0.0,) * 22))}

    @property
    def actuation(self) -> dict[str, Actuation]:
        step = (
            "wanted = target of the step before + command, held within leash of the joint's angle, then within "
            "[lower, upper]; an increment, not a place"
        )
        return {"hand": self.hand.actuation((step,), 22, LEASHES)}

    @property
    def disturbed_bodies(self) -> tuple[str, ...]:
        return ("thing/object",)

    def parameters(self) -> dict[str, Parameter]:
        shapes = [f"thing/part{i}" for i in range(len(self.item.parts))]
        return hand_parameters(self.world, self.hand, "thing/object", shapes)

    def reset(self, ids: Tensor) -> None:
        rng = self.rng(ids)
        n = len(ids)
        pick = rng.integers(0, len(self.grasps.position))
        u = rng.uniform(-1.0, 1.0, (3,))
        pos = torch.cat((self.cfg.object_spread * u[:, :2], torch.full((n, 1), self.item.rest_height)), 1)
        half = 0.5 * torch.pi * u[:, 2]
        quat = torch.stack((half.cos(), 0.0 * half, 0.0 * half, half.sin()), 1)
        axes = matrix(quat).view(-1, 3, 3)
        place = pos + torch.einsum("nij,nj->ni", axes, self.grasps.position[pick])
        rotation = multiply(quat, self.grasps.quaternion[pick])
        start = place - BACK * matrix(rotation).view(-1, 3, 3)[:, :, 2]
        fingers = torch.where(self.grasps.tips[pick][:, None], PINCH_OPEN, OPEN)
        wrist = torch.cat((start - self.zero, wrist_angles(rotation)), 1)
        self.hand.reset(ids, torch.cat((fingers, wrist), 1))
        self.thing.set_state(ids, at_rest(pos, quat))
        self.pick[ids] = pick
        self.grasp_pos[ids] = place
        self.grasp_quat[ids] = rotation
        self.height[ids] = 0.0
        self.centre_distance[ids] = (start - pos - axes @ self.grasps.centre).norm(dim=1)
        self.last_action[ids] = 0.0
        self.force[ids] = 0.0
        self.first_done_s[ids] = self.touch_share[ids] = 0.0
        self.held_steps[ids] = 0
        self.ever_done[ids] = self.touched_once[ids] = self.lost[ids] = False
        self.expert.reset(ids)

    def apply(self, actions: dict[str, Tensor]) -> None:
        a = actions["hand"][:, 0]
        self.last_action.copy_(self.given["hand"][:, 0])
        hand = self.hand
        now = hand.joints.pos
        wanted = (hand.target + self.step_sizes * a.clamp(-1.0, 1.0)).clamp(now - self._leashes, now + self._leashes)
        hand.command(wanted.clamp(hand.lower, hand.upper), self.late.get("hand"))

    def advance(self) -> None:
        state = self.thing.state[:, 0]
        hand = self.hand.grasp.pos[:, 0]
        self.force.copy_(self.hand.touch)
        touching = self.force > TOUCHED
        share = touching.sum(1) / 5.0
        share = torch.where(share > 0.3, share, 0.0)  # two at least, so that poking does not pay
        height = state[:, 2] - self.item.rest_height
        centre = state[:, :3] + matrix(state[:, 3:7]).view(-1, 3, 3) @ self.grasps.centre
        away = (hand - centre).norm(dim=1)
        up = height >= self.cfg.goal_height
        self.lost.copy_(away > LOST + self._size)
        goal = self.cfg.goal_height
        lift = height.clamp(max=goal) - self.height.clamp(max=goal)  # G-PAYN's episodes end there: higher is not better
        self.touched_once |= touching.any(1)
        self._terms = {
            "contacts": share - self.touch_share, "lift": lift,
            "near": torch.where(self.touched_once, 0.0, self.centre_distance - away),
            "goal": up.float(), "failure": self.lost.float(),
        }  # fmt: skip
        self.touch_share.copy_(share)
        self.height.copy_(height)
        self.centre_distance.copy_(away)
        self.held_steps.copy_(torch.where(up, self.held_steps + 1, 0))
        self.first_done_s.copy_(torch.where(up & ~self.ever_done, self.steps * self.cfg.control_dt, self.first_done_s))
        self.ever_done |= up

    def measured(self) -> dict[str, dict[str, Tensor]]:
        hand, n = self.hand, len(self.force)
        values = {
            "joint angles of the fingers": hand.joints.pos[:, :16], "joint velocities of the fingers": hand.joints.vel[:, :16],
            WRIST: hand.joints.pos[:, 16:], TARGETS.name: hand.target, FORCES.name: self.force,
            "object's position": self.thing.pos[:, 0], THING.name: self.thing.quat[:, 0],
            "grasp frame's position": hand.grasp.pos[:, 0], GRASP.name: hand.grasp.quat[:, 0],
            CENTRE: self.grasps.centre.expand(n, 3), REST.name: torch.full((n, 1), self.item.rest_height),
            ACTED: self.last_action,
        }  # fmt: skip
        return {"hand": {name: value[:, None] for name, value in values.items()}}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        return {"hand": {name: value[:, None] for name, value in self._terms.items()}}

    def terminated(self) -> Tensor:
        return self.lost.long()

    def metrics(self) -> dict[str, Tensor]:
        success = (self.held_steps * self.cfg.control_dt >= self.cfg.hold_s) & ~self.lost
        late = torch.where(self.ever_done, self.first_done_s, self.steps * self.cfg.control_dt)
        return {
            "success": success.float(),
            "lifted_at_any_time": self.ever_done.float(),
            "seconds": late,
            "height": self.height,
        }

    def gauges(self, i: int) -> list[Gauge]:
        held = float(self.held_steps[i]) * self.cfg.control_dt
        height = Gauge("height", float(self.height[i]), self.cfg.goal_height, "m", at_most=False)
        return [height, Gauge("held up for", held, self.cfg.hold_s, "s", at_most=False)]

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """The scripted expert: it reads the true state, see hand_expert.HandExpert."""
        return self.expert.act


def _table() -> mujoco.MjSpec:
    """A table whose contacts have elliptic friction cones and stiff friction, without which what is held creeps."""
    spec = table(half=(0.5, 0.5), centre=(0.0, 0.0))
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    return spec
