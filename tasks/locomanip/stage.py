"""The stage: puts the parts of the task table where an episode wants them, and sees what became of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rookery.assets.workshop import DOOR_OPEN, LATCH_PLAY
from rookery.sim.buffers import Buffers
from rookery.sim.rotations import matrix
from rookery.sim.world import World
from rookery.tasks.locomanip.library_goals import MARKS, LibraryGoals
from rookery.tasks.locomanip.task_table import BOARD, BUTTON, DOOR, DRAWER, FIXTURES, JOINTS, LEVER, LOOSE, Entry, Signs

UNLATCH = 0.3  # rad, of the lever, from which on the door is free
AJAR = 0.03  # rad, of the door, from which on it stays free whatever the lever does
WIPED_M = 0.02  # m, how near to a mark a hand wipes it
LEANS_M = 3e-4  # m, that a wiped board gives way: 0.1 N


class PartStage(Buffers):
    """The parts of N worlds.

    Args:
        world: has the parts of `task_table.add_parts`, and parameters "gravcomp" and "joint_range".
        entries: the tasks, in the order of the families of `goals.table`.
        goals: which trajectory each world follows.

    Attributes:
        joints: [N, 5] of the fixtures, see task_table.JOINTS.
        thing: [N, 3] m, world: middle of the loose thing in use.
        free: [N] bool, the door is not latched.
    """

    thing_start: Tensor
    pressed: Tensor
    wiped: Tensor
    free: Tensor

    def __init__(self, world: World, entries: Sequence[Entry], goals: LibraryGoals) -> None:
        super().__init__()
        n = world.num_envs
        self.world = world
        self.goals = goals
        self.entries = list(entries)
        self._loose = world.bodies([f"{name}/base" for name in LOOSE])
        self._joints = world.joints(JOINTS)
        self._fixtures = world.bodies([f"{name}/base" for name in FIXTURES])
        index = [LOOSE.index(e.part) if e.part in LOOSE else -1 for e in self.entries]
        self._which = torch.tensor(index)  # by family: place in LOOSE
        self._rows = torch.arange(n)
        self.buffer("thing_start", n, 3)
        self.buffer("pressed", n)
        self.buffer("wiped", n, MARKS, dtype=torch.bool)
        self.buffer("free", n, dtype=torch.bool)

    def reset(self, ids: Tensor) -> None:
        """Put the parts of the worlds' new tasks in place; the others are parked already."""
        table = self.goals.table
        chosen = self.goals.trajectory[ids]
        pos, quat = self.goals.in_world(ids, table.object_pos[chosen, 0], table.object_quat[chosen, 0])
        family = table.family[chosen]
        state = self._loose.state[ids].clone()
        fixtures = self._fixtures.state[ids].clone()
        weightless = torch.ones(len(ids), len(LOOSE))
        for k, entry in enumerate(self.entries):
            here = (family == k).nonzero().squeeze(1)
            if entry.part in FIXTURES:
                at = FIXTURES.index(entry.part)
                fixtures[here, at, :3] = pos[here]
                fixtures[here, at, 3:7] = quat[here]
            elif entry.part:
                at = LOOSE.index(entry.part)
                state[here, at, :3] = pos[here]
                state[here, at, 3:7] = quat[here]
                weightless[here, at] = 0.0
        self._loose.set_state(ids, state)
        self._fixtures.set_state(ids, fixtures)
        self.world.params.set("gravcomp", [f"{name}/base" for name in LOOSE], weightless, ids)
        self._latch(ids, torch.zeros(len(ids), dtype=torch.bool))
        self.thing_start[ids] = pos
        self.pressed[ids] = 0.0
        self.wiped[ids] = False

    def _latch(self, ids: Tensor, free: Tensor) -> None:
        """Let the doors of the worlds `ids` go, or hold them."""
        reach = torch.full((len(ids), 1, 2), -LATCH_PLAY)
        reach[:, 0, 1] = torch.where(free, DOOR_OPEN, LATCH_PLAY)
        self.world.params.set("joint_range", ["door/hinge"], reach, ids)
        self.free[ids] = free

    @property
    def joints(self) -> Tensor:
        return self._joints.pos

    @property
    def thing(self) -> Tensor:
        which = self._which[self.goals.table.family[self.goals.trajectory]]
        return torch.where((which >= 0)[:, None], self._loose.pos[self._rows, which.clamp_min(0)], 0.0)

    def advance(self, tool: Tensor) -> None:
        """After the physics of a control step; `tool` [N, 3] m, world: the tool centre."""
        joints = self.joints
        free = (joints[:, LEVER] > UNLATCH) | (joints[:, DOOR] > AJAR)
        changed = (free != self.free).nonzero().squeeze(1)
        if len(changed):
            self._latch(changed, free[changed])
        self.pressed.copy_(torch.maximum(self.pressed, joints[:, BUTTON]))
        leaning = (joints[:, BOARD] > LEANS_M).nonzero().squeeze(1)
        if len(leaning):
            k = self.goals.trajectory[leaning]
            start = (self.goals.table.object_pos[k, 0], self.goals.table.object_quat[k, 0])
            origin, quat = self.goals.in_world(leaning, *start)
            at = torch.einsum("nij,ni->nj", matrix(quat).view(-1, 3, 3), tool[leaning] - origin)
            near = (self.goals.marks[k] - at[:, None, 1:]).norm(dim=2) < WIPED_M
            self.wiped[leaning] |= near

    def signs(self, tool: Tensor, position: Tensor, rotation: Tensor) -> Signs:
        """Signs for the rules. `tool` as in `advance`; mean errors of the tool [N] m and [N] rad."""
        table = self.goals.table
        k = self.goals.trajectory
        thing = self.thing
        joints = self.joints
        last = min(1, table.object_pos.shape[1] - 1)  # the goal, where there is one
        goal, _ = self.goals.in_world(self._rows, table.object_pos[k, last], table.object_quat[k, last])
        way = goal - self.thing_start
        length = way.norm(dim=1).clamp_min(1e-6)
        return Signs(
            position, rotation, thing[:, 2] - self.thing_start[:, 2], (thing - tool).norm(dim=1),
            ((thing - self.thing_start) * way).sum(1) / length.square(), (goal - thing).norm(dim=1), joints,
            joints[:, DRAWER] / length, self.pressed, self.wiped.float().mean(1),
        )  # fmt: skip

    def done(self, signs: Signs) -> Tensor:
        """[N] bool, each world by the rule of its own task."""
        family = self.goals.table.family[self.goals.trajectory]
        out = torch.zeros(len(family), dtype=torch.bool)
        for k, entry in enumerate(self.entries):
            out |= (family == k) & entry.rule(signs)
        return out
