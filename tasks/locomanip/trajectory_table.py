"""All trajectories of a task as tensors, looked up for all worlds at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rookery.sim.errors import RookeryError, unknown
from rookery.tasks.locomanip.trajectories import Trajectory, resample


class Reference(NamedTuple):
    """References that N worlds are to follow at F times each."""

    pos: Tensor
    """[N, F, 3], m, tool centre point in the trajectory's frame."""
    quat: Tensor
    """[N, F, 4], w x y z."""
    gripper: Tensor
    """[N, F], m."""
    base_command: Tensor
    """[N, F, 3], vx m/s, vy m/s, yaw rate rad/s, body frame."""


class TrajectoryTable:
    """Trajectories at the rate of control. K is their number, over all families, in the order given.

    The samples of all trajectories stand one after the other in one table, so that short ones take no room for long
    ones, and a look-up is one gather.

    Args:
        trajectories: checked ones; the names of their families become `families`, in order of appearance.
        control_dt: s, one step of the table.
        device: where the tensors live.

    Attributes:
        families: names.
        family: index into `families` [K] int64.
        steps: index of the last sample [K] int64; the trajectory takes ``steps * control_dt`` seconds.
        in_base_frame: frame is "base", not "start" [K] bool.
        object_pos: [K, M, 3] m, in the trajectory's frame; M >= 1; zero where a trajectory has fewer than M objects.
        object_quat: [K, M, 4]; the identity there.
        object_names: of the objects, by family.
    """

    def __init__(
        self, trajectories: Sequence[Trajectory], control_dt: float, device: torch.device | str = "cpu"
    ) -> None:
        if not trajectories:
            raise RookeryError("a trajectory table needs at least one trajectory.")
        self.control_dt = control_dt
        self.device = torch.device(device)
        self.families = list(dict.fromkeys(x.family for x in trajectories))
        self.family = self._integers([self.families.index(x.family) for x in trajectories])
        self.in_base_frame = torch.tensor([x.frame == "base" for x in trajectories], device=self.device)
        rows = [resample(x, control_dt) for x in trajectories]
        self.steps = self._integers([len(x.t) - 1 for x in rows])
        self._first = self._integers(np.cumsum([0, *(len(x.t) for x in rows[:-1])]).tolist())
        packed = [np.concatenate((x.pos, x.quat, x.gripper[:, None], x.base_command), axis=1) for x in rows]
        self._rows = torch.from_numpy(np.concatenate(packed)).float().to(self.device)
        self._place_objects(trajectories)

    def _integers(self, values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self.device)

    def _place_objects(self, trajectories: Sequence[Trajectory]) -> None:
        K, M = len(trajectories), max(1, *(len(x.object_name) for x in trajectories))
        pos = np.zeros((K, M, 3))
        quat = np.tile([1.0, 0.0, 0.0, 0.0], (K, M, 1))
        self.object_names: dict[str, tuple[str, ...]] = {}
        for k, x in enumerate(trajectories):
            pos[k, : len(x.object_name)] = x.object_pos
            quat[k, : len(x.object_name)] = x.object_quat
            if self.object_names.setdefault(x.family, x.object_name) != x.object_name:
                raise RookeryError(
                    f"trajectories of family {x.family!r} have the objects {self.object_names[x.family]} and "
                    f"{x.object_name}: give them the same ones, in the same order."
                )
        self.object_pos = torch.from_numpy(pos).float().to(self.device)
        self.object_quat = torch.from_numpy(quat).float().to(self.device)

    def __len__(self) -> int:
        return len(self.steps)

    def ids(self, family: str) -> Tensor:
        """Ids [n] int64 of the trajectories of a family."""
        if family not in self.families:
            raise unknown("family", family, self.families)
        return torch.nonzero(self.family == self.families.index(family)).flatten()

    def __call__(self, trajectory: Tensor, step: Tensor, offsets: Tensor) -> Reference:
        """The reference around each world's place in its trajectory.

        Args:
            trajectory: ids [N] int64.
            step: control steps since the start [N] int64.
            offsets: control steps to look ahead (or back, negative) [F] int64.

        Returns:
            Views of one new tensor. Before the start it is the first sample; from the end on the last one, whose base
            command is zero: the gripper stays, and so does the base.
        """
        at = (step[:, None] + offsets).clamp_(min=0)
        at = torch.minimum(at, self.steps[trajectory][:, None]) + self._first[trajectory][:, None]
        rows = self._rows.index_select(0, at.view(-1)).view(*at.shape, 11)
        return Reference(rows[..., :3], rows[..., 3:7], rows[..., 7], rows[..., 8:])
