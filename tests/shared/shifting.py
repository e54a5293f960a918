"""A cart on a rail that is to stand at the middle, driven by choices, by a choice and a number, or by two masked choices."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import torch
from torch import Tensor

from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Discrete, Group, Term, Weights
from rookery.sim.task import Task

CART = """<mujoco><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0" damping="4"/>
    <geom size=".1" mass="1"/></body></worldbody><actuator><motor name="push" joint="x"/></actuator></mujoco>"""


@dataclass(frozen=True)
class ShiftConfig:
    dt: float = 0.02  # s
    control_dt: float = 0.1  # s
    episode_s: float = 2.0  # s
    reward: Weights = Weights(near=1.0)


class Shift(Task):
    """A cart that goes left or right by choice."""

    Config = ShiftConfig
    name = "shift"
    causes = ("never",)
    engines = ("mujoco",)
    headline = "success"
    action = ActionSpec("steer", choices=(Discrete("direction", ("left", "stay", "right"), neutral=1),))

    def scene(self) -> Scene:
        return Scene(lambda: mujoco.MjSpec.from_string(CART), dt=self.cfg.dt)

    def groups(self) -> dict[str, Group]:
        return {"driver": Group(2, (Term("x", 1, "m"), Term("speed", 1, "m/s"), Term("last", 1)), self.action)}

    def setup(self) -> None:
        self.joint = self.world.joints(["x"])
        self.motor = self.world.actuators(["push"])
        self.last = torch.zeros(self.world.num_envs, 2, self.action.size)
        self.fouls = torch.zeros(self.world.num_envs)

    def reset(self, ids: Tensor) -> None:
        self.joint.set_state(ids, self.rng(ids).uniform(-0.6, 0.6, (1,)))
        self.last[ids] = 0.0
        self.fouls[ids] = 0.0

    def force(self, a: Tensor) -> Tensor:
        """[N, A] of actions [N, A, D]."""
        return 4.0 * (a[..., 0] - 1.0)

    def apply(self, actions: dict[str, Tensor]) -> None:
        delayed = actions["driver"]  # [N, A, D], or [N, K, A, D] where actions are delayed
        a = delayed[:, -1] if delayed.dim() == 4 else delayed
        mask = self.action_mask()
        if mask is not None:
            start = 0
            for k, choice in enumerate(self.action.choices):
                index = a[..., k : k + 1].long() + start
                self.fouls += (~mask["driver"].gather(-1, index)).sum((1, 2))
                start += len(choice.options)
        self.last = a.clone()
        self.motor.set_control(self.force(delayed).mean(-1, keepdim=True))

    def observe(self) -> dict[str, dict[str, Tensor]]:
        rows = {"x": self.joint.pos, "speed": self.joint.vel}
        seen = {name: x[:, None].expand(-1, 2, 1) for name, x in rows.items()}
        return {"driver": seen | {"last": self.last[..., :1]}}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        return {"driver": {"near": (1.0 - 2.0 * self.joint.pos.abs()).expand(-1, 2)}}

    def terminated(self) -> Tensor:
        return torch.zeros(self.world.num_envs, dtype=torch.int64)

    def metrics(self) -> dict[str, Tensor]:
        """Success: within 15 cm of the middle at the end. Fouls: options taken that were not allowed."""
        return {"success": (self.joint.pos[:, 0].abs() < 0.15).float(), "fouls": self.fouls}


class ShiftMixed(Shift):
    """A cart whose push is a number, times the gear that is chosen."""

    name = "shift-mixed"
    action = ActionSpec("push", ("push",), (-2.0,), (2.0,), ("N",), (0.0,), (Discrete("gear", ("off", "low", "high")),))

    def force(self, a: Tensor) -> Tensor:
        return 2.0 * a[..., 0] * a[..., 1]


class ShiftMasked(Shift):
    """A cart with a direction and a brake. To go on outwards is not allowed beyond 50 cm, nor to brake in the left half."""

    name = "shift-masked"
    action = ActionSpec("drive", choices=(*Shift.action.choices, Discrete("brake", ("open", "closed"))), masked=True)

    def force(self, a: Tensor) -> Tensor:
        return super().force(a) * (1.0 - a[..., 1])

    def action_mask(self) -> dict[str, Tensor] | None:
        x = self.joint.pos
        ones = torch.ones_like(x, dtype=torch.bool)
        mask = torch.cat((x > -0.5, ones, x < 0.5, ones, x >= 0.0), 1)
        return {"driver": mask[:, None].expand(-1, 2, -1).clone()}


class Stuck(ShiftMasked):
    """The same with a direction that nobody may take, once the cart is beyond 1 cm."""

    name = "shift-stuck"

    def action_mask(self) -> dict[str, Tensor] | None:
        masks = super().action_mask()
        assert masks is not None
        masks["driver"][..., :3] &= (self.joint.pos.abs() < 0.01)[:, None]
        return masks
