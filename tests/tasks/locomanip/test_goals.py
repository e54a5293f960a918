"""Moving goals: where they go, how they get there, and the rotations between them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from rookery.sim.random import Streams
from rookery.sim.rotations import rotation_error
from rookery.tasks.locomanip.goals import GROUND, TRUNK_BOX, GoalRanges, MovingGoals, cartesian
from rookery.tasks.locomanip.trajectory_math import slerp

N = 256
SHOULDER = (0.0045, 0.0, 0.497)
HOME = (0.5, 0.06, 0.0)


def goals() -> MovingGoals:
    out = MovingGoals(N, SHOULDER, HOME, Streams(N, 0), 0.02)
    out.reset(torch.arange(N))
    return out


def test_goals_begin_at_home_and_never_enter_trunk_or_ground() -> None:
    g = goals()
    low = torch.tensor(TRUNK_BOX[0])
    high = torch.tensor(TRUNK_BOX[1])
    first, _ = g.pose()
    want = torch.tensor([0.5 * math.cos(0.06), 0.0, 0.5 * math.sin(0.06)]) + torch.tensor(SHOULDER)
    assert torch.allclose(first, want.expand(N, 3), atol=1e-5)
    seen = []
    for _ in range(400):
        g.advance()
        pos, quat = g.pose()
        inside = ((pos - torch.tensor(SHOULDER) > low + 0.03) & (pos - torch.tensor(SHOULDER) < high - 0.03)).all(1)
        assert not inside.any()
        assert pos[:, 2].min() > GROUND - 0.02
        assert torch.allclose(quat.norm(dim=1), torch.ones(N), atol=1e-5)
        seen.append(pos.clone())
    path = torch.stack(seen)
    assert path.std((0, 1)).min() > 0.1  # they roam
    assert (path[1:] - path[:-1]).norm(dim=-1).max() < 0.06  # and do not jump: 3 m/s at the very most
    assert ((path[..., 0] < 0.0).float().mean()) > 0.02  # also behind the shoulder, at the sides


def test_travel_and_hold_times_are_those_asked_for() -> None:
    g, r = goals(), GoalRanges()
    assert ((g.travel >= r.travel_s[0]) & (g.travel <= r.travel_s[1])).all()
    assert ((g.hold >= r.hold_s[0]) & (g.hold <= r.hold_s[1])).all()
    end = g.end.clone()
    for _ in range(round((r.travel_s[0] + r.hold_s[0]) / 0.02) - 1):
        g.advance()
    assert torch.equal(g.end, end)  # the quickest goal is not over yet
    for _ in range(round((r.travel_s[1] + r.hold_s[1]) / 0.02)):
        g.advance()
    assert (g.end != end).any(1).float().mean() > 0.95


def test_a_look_ahead_is_the_goal_of_later() -> None:
    g = goals()
    soon, turned = g.pose(0.2)
    clock = g.clock.clone()
    for _ in range(10):
        g.advance()
    same = g.clock > clock  # worlds whose goal did not end meanwhile
    now, turn = g.pose()
    assert torch.allclose(now[same], soon[same], atol=1e-5)
    assert torch.allclose(turn[same], turned[same], atol=1e-5)


def test_goals_on_their_way_are_as_the_formulas_have_them() -> None:
    g = goals()
    way = torch.Generator().manual_seed(0)
    g.clock.copy_(4.0 * torch.rand(N, generator=way))
    g.end_quat[::2] *= -1.0  # the same orientation, and the long way round if taken as it stands
    g.end_quat[:8] = g.start_quat[:8]
    for ahead_s in (0.0, 0.2):
        share = ((g.clock + ahead_s) / g.travel).clamp(0.0, 1.0)[:, None]
        share = share * share * (3.0 - 2.0 * share)
        pos, quat = g.pose(ahead_s)
        want = cartesian(g.start + share * (g.end - g.start)) + g.shoulder
        torch.testing.assert_close(pos, want, rtol=0, atol=1e-6)
        turned = torch.from_numpy(slerp(g.start_quat, g.end_quat, share[:, 0])).float()
        assert rotation_error(turned, quat).abs().max() < 1e-3
        assert (quat.norm(dim=1) - 1.0).abs().max() < 1e-6


def test_rotation_error_against_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = Rotation.random(50, random_state=rng), Rotation.random(50, random_state=rng)

    def wxyz(r: Rotation) -> torch.Tensor:
        return torch.from_numpy(np.roll(r.as_quat(), 1, axis=-1)).float()

    vector = rotation_error(wxyz(b), wxyz(a))
    assert np.allclose(vector.numpy(), (b * a.inv()).as_rotvec(), atol=1e-4)


@pytest.mark.parametrize("end", [(0.3, -1.5, 0.0), (0.25, -0.6, 0.0)])
def test_ways_through_the_trunk_are_refused(end: tuple[float, float, float]) -> None:
    g = goals()
    assert not g.path_is_free(torch.tensor([HOME]), torch.tensor([end])).any()
    assert g.path_is_free(torch.tensor([HOME]), torch.tensor([[0.6, 0.3, 0.5]])).all()
