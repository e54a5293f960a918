"""Stack: put a small cube on a larger one and let go of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.assets.blocks import GREEN, RED, block
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import TOOL_POSITION, base, place
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.scene import Scene
from rookery.sim.specs import Term, Weights
from rookery.tasks.manipulation.arm_task import DEFAULT_RANDOMIZATION, ArmTask, ArmTaskConfig
from rookery.tasks.manipulation.objects import OBJECT_RANDOMIZATION, TableObject, faces, quarter_heading
from rookery.tasks.manipulation.scripted import ToolTarget
from rookery.tasks.rewards import closeness_tanh

HALF = 0.025
LARGE_HALF = 0.035
"""m: cubes of 5 and 7 cm. These, LIFTED, ALIGNED and AWAY are those of IsaacGymEnvs' franka_cube_stack.py."""
LIFTED = 0.04  # m, of the cube over where it lies
ALIGNED = 0.02  # m, of the cube's place on the other: in the plane, and upwards
AWAY = 0.04  # m, of the tool from the cube it let go
STILL = 0.02  # m/s, our own addition: what falls is not stacked
DENSITY = 400.0  # kg/m^3, light wood
APART = 0.12  # m, least distance of the cubes at the start
HIGHER = 0.013
"""m, over the small cube's middle, where it is gripped: from there the palm, 37 mm over the tool, is over the large cube."""
CARRY = 0.17  # m, height of the tool on its ways
HELD = 0.055  # m, the gripper's opening below which it holds the cube
OPEN = 0.07  # m, above which it has let go


@dataclass(frozen=True)
class StackConfig(ArmTaskConfig):
    """Stack's values. The reward's weights are IsaacGym's."""

    action: str = "pose"  # see robots.manipulators.panda.KINDS
    episode_s: float = 8.0  # s
    cube_yaw: float = 0.7  # rad, largest yaw of the cubes at the start
    reward: Weights = Weights(reach=0.1, lift=1.5, align=2.0, stack=16.0)


class Stack(ArmTask):
    """A Panda puts a small cube on a larger one and lets go.

    Success: at the end the small cube has lain on the large one, let go and still, for a quarter of a second.
    """

    name = "panda-stack"
    engines = ("mujoco",)

    Config = StackConfig
    default_randomization = DEFAULT_RANDOMIZATION | OBJECT_RANDOMIZATION

    def add_objects(self, scene: Scene) -> Scene:
        for name, half, rgba, x in (("small", HALF, RED, 0.4), ("large", LARGE_HALF, GREEN, 0.6)):
            kg = DENSITY * (2.0 * half) ** 3
            scene.add(lambda h=half, m=kg, c=rgba: block((h, h, h), m, c), name, pos=(x, 0.0, half))  # type: ignore[misc]
        return scene

    def setup(self) -> None:
        super().setup()
        self.small = TableObject(self.world, "small", ("block",))
        self.child("small", self.small)
        self.large = TableObject(self.world, "large", ("block",))
        self.child("large", self.large)

    def parameters(self) -> dict[str, Parameter]:
        return super().parameters() | self.small.parameters()

    def reset_objects(self, ids: Tensor) -> None:
        low = (0.38, -0.2, 0.0)
        high = (0.62, 0.2, 0.0)
        n = len(ids)
        pairs = torch.stack([self.draw(ids, (low, high)) for _ in range(32)], 1).view(n, 16, 2, 3)
        pick = ((pairs[:, :, 0] - pairs[:, :, 1]).norm(dim=2) >= APART).float().argmax(1)
        pair = pairs[torch.arange(n), pick]
        yaw = self.cfg.cube_yaw * self.rng(ids).uniform(-1.0, 1.0, (2,))
        for i, (cube, half) in enumerate(((self.small, HALF), (self.large, LARGE_HALF))):
            pair[:, i, 2] = half
            cube.put(ids, pair[:, i], yaw[:, i])

    def refresh_observation(self) -> None:
        self.small.refresh()
        self.large.refresh()

    def observation_terms(self, group: str) -> tuple[Term, ...]:
        small, large = (base(place(f"{size} cube's position") - TOOL_POSITION) for size in ("small", "large"))
        return (
            Term("small", small, scale=4.0, noise=0.002, estimated="cubes' poses"),
            Term("small_heading", faces("small cube"), noise=0.01, estimated="cubes' poses"),
            Term("large", large, scale=4.0, noise=0.002, estimated="cubes' poses"),
            Term("large_heading", faces("large cube"), noise=0.01, estimated="cubes' poses"),
        )

    def quantities(self, group: str) -> dict[str, Tensor]:
        small, large = self.small.body, self.large.body
        return {
            "small cube's position": small.pos[:, 0], faces("small cube").name: quarter_heading(self.small.rotation),
            "large cube's position": large.pos[:, 0], faces("large cube").name: quarter_heading(self.large.rotation),
        }  # fmt: skip

    def placement_error(self) -> Tensor:
        """[N, 3] m, of the small cube from its place on the large one."""
        offset = self.small.pos - self.large.pos
        offset[:, 2] -= HALF + LARGE_HALF
        return offset

    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        tool = self.robot.tool
        cube = self.small.pos
        side = 0.5 * self.robot.opening[:, None] * self.robot.rotation[:, :, 1]
        distance = (tool - cube).norm(dim=1)
        near = (distance + (tool + side - cube).norm(dim=1) + (tool - side - cube).norm(dim=1)) / 3.0
        error = self.placement_error()
        lifted = (cube[:, 2] - HALF > LIFTED).float()
        align = closeness_tanh(error.norm(dim=1), 0.1) * lifted
        stacked = (error[:, :2].norm(dim=1) < ALIGNED) & (error[:, 2].abs() < ALIGNED) & (distance > AWAY)
        rest = (~stacked).float()  # in place of the other terms, not beside them
        terms = {
            "reach": torch.maximum(closeness_tanh(near, 0.1), align) * rest, "lift": lifted * rest,
            "align": align * rest, "stack": stacked.float(),
        }  # fmt: skip
        return terms, stacked & (self.small.speed < STILL)

    def gauges(self, i: int) -> list[Gauge]:
        error = self.placement_error()[i]
        aside, high = float(error[:2].norm()), float(error[2].abs())
        return [Gauge("aside", aside, ALIGNED, "m"), Gauge("too high or low", high, ALIGNED, "m"), *super().gauges(i)]

    def expert_targets(self) -> dict[str, ToolTarget]:
        tool = self.robot.tool
        cube = self.small.pos
        error = self.placement_error()
        grip = tool - cube
        yaw, large_yaw, now = (_yaw(x.rotation) for x in (self.small, self.large, self.robot))
        still = (self.robot.goal.float() - tool).norm(dim=1) < 0.01
        turned, turned_large = ((now - y).abs() < 0.04 for y in (yaw, large_yaw))
        carried = error[:, :2].norm(dim=1) < 0.004
        self.next_phase([
            (grip[:, :2].norm(dim=1) < 0.008) & turned & still, (grip[:, 2] - HIGHER).abs() < 0.005,
            self.robot.opening < HELD, tool[:, 2] > CARRY - 0.01, carried & turned_large & still, error[:, 2] < 0.001,
            self.robot.opening > OPEN,
        ])  # fmt: skip
        over = cube.clone()
        up = self.robot.goal.float()
        onto = self.large.pos + grip
        over[:, 2] = up[:, 2] = onto[:, 2] = CARRY
        down = cube.clone()
        lower = self.large.pos + grip
        down[:, 2] += HIGHER
        lower[:, 2] += HALF + LARGE_HALF
        place = self.of_phase([over, down, down, up, onto, lower, self.robot.goal.float(), up])
        closed = (self.phase >= 2) & (self.phase <= 5)
        slow = torch.where(self.phase == 5, 0.004, 0.01)
        return {
            "arm": ToolTarget(place, torch.where(closed, 1.0, -1.0), torch.where(self.phase < 4, yaw, large_yaw), slow)
        }


def _yaw(rotation: Tensor) -> Tensor:
    """[N] rad, of upright faces, between -pi / 4 and pi / 4."""
    heading = quarter_heading(rotation)
    return 0.25 * torch.atan2(heading[:, 1], heading[:, 0])
