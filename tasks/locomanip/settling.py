"""Additional commands of an arm's joints, so that its tool settles on its goal."""

from __future__ import annotations

from torch import Tensor

from rookery.robots.arms.kinematics import Kinematics, Place
from rookery.sim.buffers import Buffers

DAMPING = 0.05  # of an inverse kinematics step
MAX_STEP = 0.2  # rad


class Settling(Buffers):
    """Offsets [N, 6] rad of an arm's joint targets, that take in the tool's error and forget it slowly.

    A policy's arm hangs below its goal by what its weight and load bend the servos, and lags behind by what the trunk moves.
    At rest the offset is gain / leak times the joints' error.

    Args:
        tool: kinematics from the trunk to the tool centre.
        worlds: N.
        gain: share of an inverse kinematics step that is taken in at each control step.
        leak: share of the offset that is forgotten at each control step.
    """

    offset: Tensor

    def __init__(self, tool: Kinematics, worlds: int, gain: float, leak: float) -> None:
        super().__init__()
        self.tool = tool
        self.gain = gain
        self.leak = leak
        self.buffer("offset", worlds, 6)

    def step(self, joints: Tensor, goal: Place, begins: Tensor, acts: Tensor) -> Tensor:
        """The offsets of this control step.

        Args:
            joints: [N, 6] rad, where the arm is.
            goal: of the tool, in the trunk's frame.
            begins: [N] bool, an episode begins: the past is forgotten.
            acts: [N] bool, where there is an offset at all.
        """
        change = self.tool.step(joints, goal.pos, goal.quat, DAMPING, MAX_STEP)
        self.offset.mul_(1.0 - self.leak).add_(self.gain * change)
        self.offset[begins | ~acts] = 0.0
        return self.offset
