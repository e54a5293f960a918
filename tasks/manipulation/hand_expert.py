"""The scripted expert of hand-grasp: approach along the sampled grasp, close until nothing moves, lift and hold.

A state machine for all worlds at once, in the manner of the scripted pipeline of G-PAYN (arXiv 2306.03484). The fingers close
as in a power grasp where the object is before the palm, and as in a pinch where only their tips reach it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.robots.manipulators.allegro import FIST, OPEN, PINCH_OPEN, PINCH_SHUT
from rookery.sim.buffers import Buffers

if TYPE_CHECKING:
    from rookery.tasks.manipulation.hand_grasp import HandGrasp

APPROACH = 0
CLOSE = 1
LIFT = 2
THERE = 0.004  # m, from the grasp at which the fingers begin to close
LATEST = 1.0  # s, of the approach; then they close in any case
CLOSING = 0.7  # s, from open to shut where nothing is in between
SQUEEZE = (0.9, 1.3)  # s, of closing before the lift: when all fingers are at rest, and at the latest
STILL = 0.15  # rad/s, of finger joints that are at rest
RAISE = 0.16  # m, of the hand's goal over the grasp: more than the task asks for, since things sag and tilt in the hand
LIFT_SPEED = 0.15  # m/s


class HandExpert(Buffers):
    """Actions of hand-grasp that grasp and lift.

    Attributes:
        phase: [N] int64, APPROACH, CLOSE or LIFT. clock: [N] s, in this phase.
    """

    phase: Tensor
    clock: Tensor

    def __init__(self, task: HandGrasp) -> None:
        super().__init__()
        self.task = task
        n = task.world.num_envs
        self.buffer("phase", n, dtype=torch.int64)
        self.buffer("clock", n)

    def reset(self, ids: Tensor) -> None:
        """Begin anew in the worlds `ids`."""
        self.phase[ids] = APPROACH
        self.clock[ids] = 0.0

    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The action [N, 1, 22] of every world; called once in each control step."""
        task = self.task
        hand = self.task.hand
        self._next_phase()
        closing = torch.where(self.phase == APPROACH, 0.0, self.clock / CLOSING).clamp(max=1.0)
        closing = torch.where(self.phase == LIFT, 1.0, closing)[:, None]
        tips = task.grasps.tips[task.pick][:, None]
        fingers = torch.where(tips, torch.lerp(PINCH_OPEN, PINCH_SHUT, closing), torch.lerp(OPEN, FIST, closing))
        raised = torch.where(self.phase == LIFT, LIFT_SPEED * self.clock, 0.0).clamp(max=RAISE)
        wrist = hand.target[:, 16:].clone()  # its angles are right from the start
        wrist[:, :3] = task.grasp_pos - task.zero
        wrist[:, 2] += raised
        wanted = torch.cat((fingers, wrist), 1) - hand.target
        self.clock += task.cfg.control_dt
        return {"hand": (wanted / task.step_sizes).clamp(-1.0, 1.0)[:, None]}

    def _next_phase(self) -> None:
        """To the next phase, where this one is done."""
        task = self.task
        hand = self.task.hand
        t = self.clock
        near = (hand.grasp.pos[:, 0] - task.grasp_pos).norm(dim=1) < THERE
        still = hand.joints.vel[:, :16].abs().amax(1) < STILL
        done = torch.where(self.phase == APPROACH, near | (t > LATEST), (still & (t > SQUEEZE[0])) | (t > SQUEEZE[1]))
        done &= self.phase != LIFT
        self.phase += done
        self.clock[done] = 0.0
