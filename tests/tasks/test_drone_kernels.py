"""The kernels of the drone tasks against the same formulas in torch and NumPy, and in any number of worlds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from rookery.sim.rotations import from_axis_angle, multiply
from rookery.tasks.drones import kernels
from rookery.tasks.drones.body_frame import BodyFrame
from rookery.tasks.drones.kernels import CAUSE_RANKS, COLLISION, GROUND, OUT_OF_BOUNDS

N, A = 40, 3
COUNTS = (1, 2, 3, 7, 8, 9, 17, 33)


def states(seed: int = 0) -> torch.Tensor:
    """[N, A, 13] with unit quaternions."""
    s = torch.randn(N, A, 13, generator=torch.Generator().manual_seed(seed))
    s[..., 3:7] /= s[..., 3:7].norm(dim=-1, keepdim=True)
    return s


def numbers(*shape: int, seed: int = 1) -> torch.Tensor:
    return 2 * torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) - 1


FACING = 3.0 * numbers(N, A, seed=3)
GROUND_HEIGHT = numbers(N, seed=4).clamp_min(0.0)
ABOVE = 0.2


def start_states(ids: torch.Tensor, draws: torch.Tensor, target: torch.Tensor, ranges: tuple) -> torch.Tensor:
    out = torch.full((len(ids), A, 13), math.nan)
    kernels.starts(
        ids.numpy(), draws.numpy(), target.numpy(), FACING.numpy(), *ranges, GROUND_HEIGHT.numpy(), ABOVE, out.numpy()
    )
    return out


def test_starts_are_those_of_the_formula_in_torch():
    ids = torch.tensor([1, 5, 6, 39])
    draws, target = numbers(4, A, 12), numbers(N, A, 3, seed=2)
    box, speed, spin, heading, tilt = ranges = (1.5, 0.4, 0.7, 2.0, 0.6)
    at, velocity, rates, turn = draws.split(3, dim=-1)
    around = math.pi * turn[..., 1]
    axis = torch.stack((around.cos(), around.sin(), 0 * around), dim=-1)
    lean = from_axis_angle(axis, tilt * turn[..., 2].abs())
    attitude = multiply(lean, from_axis_angle(torch.tensor([0.0, 0.0, 1.0]), FACING[ids] + heading * turn[..., 0]))
    want = torch.cat((target[ids] + box * at, attitude, speed * velocity, spin * rates), dim=-1)
    raised = GROUND_HEIGHT[ids] > 0.0
    lowest = (GROUND_HEIGHT[ids] + ABOVE)[:, None]
    assert ((want[..., 2] < lowest) & raised[:, None]).any()
    want[raised, :, 2] = torch.maximum(want[..., 2], lowest)[raised]
    torch.testing.assert_close(start_states(ids, draws, target, ranges), want, atol=3e-7, rtol=1e-6)


def test_crashes_by_height_distance_and_bounds():
    pos = torch.zeros(N, A, 3)
    pos[..., 0] = torch.tensor([0.0, 1.0, 2.0])
    pos[..., 2] = 1.0
    pos[1, 0, 2] = 0.09  # under the ground's 0.1 m
    pos[2, 1, 2] = 0.11
    pos[3, 2] = pos[3, 0] + torch.tensor([0.1, 0.1, 0.1])  # 0.173 m apart, under 0.2 m
    pos[4, 1] = pos[4, 0] + torch.tensor([0.12, 0.12, 0.12])  # 0.208 m
    pos[5, 0, 2] = pos[5, 1, 2] = 0.05
    pos[5, 1, 0] = 0.1  # on the ground, and together
    state = torch.cat((pos, torch.zeros(N, A, 10)), dim=-1)
    out = torch.zeros(N, A, dtype=torch.bool)
    out[5, 0] = out[6, 2] = out[7, 0] = True
    pos[7, 0, 2] = state[7, 0, 2] = 0.0
    want = torch.zeros(N, A, dtype=torch.int64)
    want[1, 0] = want[7, 0] = GROUND
    want[3, 0] = want[3, 2] = want[5, 0] = want[5, 1] = COLLISION
    want[6, 2] = OUT_OF_BOUNDS
    crashed, cause = torch.ones(N, A, dtype=torch.bool), torch.full((N, A), 9)
    nobody, ground = np.zeros((0, 0), bool), np.zeros(N, np.float32)
    kernels.detect_crashes(state.numpy(), ground, 0.1, 0.1, 0.0, out.numpy(), nobody, crashed.numpy(), cause.numpy())
    assert torch.equal(cause, want)
    assert torch.equal(crashed, want > 0)
    told = torch.zeros(N, A, dtype=torch.bool)
    told[8, 1] = True  # whoever is told in place of the distances
    kernels.detect_crashes(
        state.numpy(), ground, 0.1, 0.1, 0.0, out.numpy(), told.numpy(), crashed.numpy(), cause.numpy()
    )
    want[3] = 0
    want[5, 0] = want[5, 1] = GROUND
    want[8, 1] = COLLISION
    assert torch.equal(cause, want)
    ground[2] = 0.02  # raised, and lowered
    ground[1] = -0.02
    kernels.detect_crashes(
        state.numpy(), ground, 0.1, 0.1, 0.0, out.numpy(), told.numpy(), crashed.numpy(), cause.numpy()
    )
    want[1, 0] = 0
    want[2, 1] = GROUND
    assert torch.equal(cause, want)
    assert torch.equal(crashed, want > 0)


def test_a_body_that_touches_the_ground_with_its_edge_has_crashed():
    """Rims of cylinders turned at random, point by point, are the oracle of how far down a body reaches."""
    rng = np.random.default_rng(0)
    radius, height, margin = 0.06, 0.025, 1e-3
    turns = Rotation.random(400, rng).as_matrix()
    turns[0] = np.eye(3)
    turns[1] = Rotation.from_euler("y", 90, degrees=True).as_matrix()  # on its edge
    angle = np.linspace(0.0, 2.0 * np.pi, 4001)
    rim = np.stack((radius * np.cos(angle), radius * np.sin(angle), np.full_like(angle, 0.5 * height)))
    rims = np.concatenate((rim, rim * [[1.0], [1.0], [-1.0]]), axis=1)
    down = -(turns @ rims)[:, 2].min(1)
    assert down[0] == pytest.approx(0.5 * height) and down[1] == pytest.approx(radius)
    quat = Rotation.from_matrix(turns).as_quat()[:, [3, 0, 1, 2]]
    for above, crashes in ((1e-5, False), (-1e-5, True)):
        z = np.maximum(down + margin, height) + above
        state = torch.zeros(400, 1, 13)
        state[:, 0, 2] = torch.from_numpy(z + 0.3)
        state[:, 0, 3:7] = torch.from_numpy(quat)
        ground, nobody = np.full(400, 0.3, np.float32), np.zeros((0, 0), bool)
        crashed, cause = np.zeros((400, 1), bool), np.zeros((400, 1), np.int64)
        kernels.detect_crashes(
            state.numpy(), ground, radius, height, margin, np.zeros((400, 1), bool), nobody, crashed, cause
        )
        assert (crashed == crashes).all() and (cause == GROUND * crashes).all()


def test_of_several_causes_the_highest_ranks():
    own = (4, 5, 6)  # a task's, however many
    cause = torch.randint(0, 7, (200, 2), generator=torch.Generator().manual_seed(0))
    got = torch.full((200,), -1)
    kernels.first_cause(cause.numpy(), got.numpy())
    want = torch.zeros(200, dtype=torch.int64)
    for code in (OUT_OF_BOUNDS, GROUND, COLLISION, *own):
        want[(cause == code).any(1)] = code
    assert torch.equal(got, want)
    assert (OUT_OF_BOUNDS, GROUND, COLLISION) == CAUSE_RANKS


@pytest.mark.parametrize("given", [0, 1, 2])
def test_vectors_turn_into_the_body_frame_as_by_scipy(given):
    s = states()
    points, vectors = {"goals": numbers(N, A, 6)}, {"wind": numbers(N, A, 3, seed=3), "gates": numbers(N, A, 9, seed=4)}
    points, vectors = (points if given > 1 else {}), (vectors if given else {})
    seen = BodyFrame(N, A).observe(s, points, vectors)
    turn = Rotation.from_quat(s[..., 3:7].reshape(-1, 4).double().numpy(), scalar_first=True)
    pos = s[..., :3].repeat(1, 1, 2)
    world = {
        "up": torch.tensor([0.0, 0, 1]).expand(N, A, 3), "linear_velocity": s[..., 7:10], **vectors,
        **{name: p - pos for name, p in points.items()},
    }  # fmt: skip
    assert seen.keys() == world.keys() | {"angular_velocity"}
    assert torch.equal(seen["angular_velocity"], s[..., 10:13])
    for name, v in world.items():
        parts = v.unflatten(-1, (-1, 3)).reshape(N * A, -1, 3).double().numpy()
        want = np.stack([turn.apply(parts[:, k], inverse=True) for k in range(parts.shape[1])], axis=1)
        np.testing.assert_allclose(seen[name].numpy(), want.reshape(v.shape), atol=2e-6, err_msg=name)


def pursuit(n: int) -> dict[str, torch.Tensor]:
    """Everything that a pursuit computes in a step of n worlds."""
    state, target, last, previous = (
        states()[:n],
        numbers(N, A, 3)[:n],
        numbers(N, A, 4)[:n],
        numbers(N, A, 4, seed=5)[:n],
    )
    steps, crashed = torch.arange(N)[:n], (torch.arange(N * A).view(N, A) % 29 == 0)[:n]
    distance, total, count = torch.zeros(n, A), numbers(N, A, seed=6)[:n].abs(), torch.arange(float(N))[:n] % 3
    out = {name: torch.full((n, A), math.nan) for name in ("near", "on_target", "ang_vel", "yaw_rate", "rate", "crash")}
    astray = torch.zeros(n, A, dtype=torch.bool)
    arrays = state.contiguous().numpy(), target.contiguous().numpy()
    sums = distance.numpy(), total.numpy(), count.numpy()
    kernels.pursue(*arrays, steps.numpy(), 20, 1.5, *sums, astray.numpy())
    near, on_target, *motion = (t.numpy() for t in out.values())
    kernels.closeness(sums[0], near, on_target)
    kernels.motion_rewards(arrays[0], last.numpy(), previous.numpy(), crashed.numpy(), *motion)
    metrics = {name: torch.full((n,), math.nan) for name in ("success", "error", "metric_crash")}
    figures = (t.numpy() for t in metrics.values())
    kernels.pursuit_metrics(steps.numpy(), 30, 2.0, *sums, crashed.numpy(), *figures)
    return {"distance": distance, "total": total, "count": count, "astray": astray, **out, **metrics}


def test_a_pursuit_is_that_of_the_formulas_in_torch():
    got = pursuit(N)
    s, target = states(), numbers(N, A, 3)
    d = (target - s[..., :3]).norm(dim=-1)
    counts = (torch.arange(N) > 20).float()
    total = numbers(N, A, seed=6).abs() + d * counts[:, None]
    count = torch.arange(float(N)) % 3 + counts
    crashed = torch.arange(N * A).view(N, A) % 29 == 0
    error = total / count.clamp_min(1.0)[:, None]
    spin = s[..., 10:13]
    good = (error < 2.0).all(1) & (torch.arange(N) >= 30) & ~crashed.any(1)
    want = {
        "distance": d, "total": total, "count": count, "astray": d > 1.5, "near": (-5 * d).exp(),
        "on_target": (-20 * d).exp(), "ang_vel": spin.square().sum(-1), "yaw_rate": spin[..., 2].abs(),
        "rate": (numbers(N, A, 4) - numbers(N, A, 4, seed=5)).square().sum(-1), "crash": crashed.float(),
        "success": good.float(), "error": torch.where(count > 0, error.mean(1), d.mean(1)),
        "metric_crash": crashed.any(1).float(),
    }  # fmt: skip
    assert good.any() and not good.all()
    for name, value in want.items():
        torch.testing.assert_close(got[name], value, atol=1e-6, rtol=2e-6, msg=lambda m, name=name: f"{name}: {m}")


def test_each_world_is_computed_alike_in_any_number_of_worlds():
    full = pursuit(N)
    ids = torch.arange(N)
    draws, target, s = numbers(N, A, 12), numbers(N, A, 3), states()
    ranges = (1.5, 0.4, 0.7, 2.0, 0.6)
    start = start_states(ids, draws, target, ranges)
    seen = BodyFrame(N, A).observe(s, {"target": target}, {})
    for n in COUNTS:
        for name, value in pursuit(n).items():
            assert torch.equal(value, full[name][:n]), (name, n)
        assert torch.equal(start_states(ids[:n], draws[:n], target, ranges), start[:n])
        for name, value in BodyFrame(n, A).observe(s[:n], {"target": target[:n]}, {}).items():
            assert torch.equal(value, seen[name][:n]), (name, n)


@pytest.mark.parametrize(
    ("error", "good"), [(0.5, False), (float(np.nextafter(np.float32(0.5), np.float32(0.0))), True)]
)
def test_a_success_is_nearer_than_its_bound(error, good):
    """By one drone of two, after the last step: at the bound it has failed."""
    total = np.float32([[0.1, error]])
    success, *others = (np.full(1, np.nan, np.float32) for _ in range(3))
    kernels.pursuit_metrics(
        np.array([30]), 30, 0.5, np.ones((1, 2), np.float32), total, np.ones(1, np.float32), np.zeros((1, 2), bool),
        success, *others,
    )  # fmt: skip
    assert success[0] == good
