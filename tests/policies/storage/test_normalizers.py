"""Running statistics against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.policies.storage.normalizers import ObservationNorm, ReturnScale, ValueNorm


def test_observation_statistics_are_those_of_all_samples():
    norm = ObservationNorm(3, clip=5.0)
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(4):
        for _ in range(3):
            x = rng.normal([0.0, 50.0, -3.0], [1.0, 0.1, 20.0], size=(7, 2, 3)).astype(np.float32)
            mask = rng.random((7, 2)) < 0.7
            norm.record(torch.from_numpy(x), torch.from_numpy(mask))
            seen.append(x[mask])
        before = norm.mean.clone()
        norm.commit()
        assert not torch.equal(before, norm.mean)
    everything = np.concatenate(seen).astype(np.float64)
    np.testing.assert_allclose(norm.mean, everything.mean(0), rtol=1e-5)
    np.testing.assert_allclose(norm.std, everything.std(0), rtol=2e-4)


def test_statistics_are_frozen_until_commit_and_constants_are_harmless():
    norm = ObservationNorm(2, clip=5.0)
    x = torch.tensor([[4.0, 7.0]] * 10)
    norm.record(x)
    assert torch.equal(norm.normalize(x), torch.tensor([[4.0, 5.0]] * 10))
    norm.commit()
    assert torch.equal(norm.normalize(x), torch.zeros(10, 2))
    assert norm.std.tolist() == [np.float32(0.01)] * 2  # noise of a hundredth is not blown up
    norm.commit()  # nothing pending: nothing changes
    assert norm.mean.tolist() == [4.0, 7.0]


def test_components_of_a_pool_have_the_statistics_of_all_their_samples():
    plain, pooled = ObservationNorm(4, 5.0), ObservationNorm(4, 5.0, pools=[0, 1, 0, 3])
    chance = torch.Generator().manual_seed(0)
    seen = []
    for shift in (0.0, 3.0):
        x = torch.randn(40, 4, generator=chance) * torch.tensor([1.0, 2.0, 0.1, 3.0]) + torch.tensor(
            [5.0, 0.0, -2.0, 1.0]
        )
        seen.append(x + shift)
        for norm in (plain, pooled):
            norm.record(seen[-1])
            norm.commit()
    everything = torch.cat(seen).double()
    both = everything[:, [0, 2]]
    torch.testing.assert_close(pooled.mean[[0, 2]].double(), both.mean().expand(2), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(pooled.std[[0, 2]].double(), both.std(correction=0).expand(2), rtol=1e-4, atol=1e-6)
    assert torch.equal(pooled.mean[[1, 3]], plain.mean[[1, 3]]) and torch.equal(pooled.std[[1, 3]], plain.std[[1, 3]])


def test_observation_statistics_survive_saving():
    a, b = ObservationNorm(2, 5.0), ObservationNorm(2, 5.0)
    a.record(torch.randn(50, 2))
    a.commit()
    b.load_state_dict({k: v.clone() for k, v in a.state_dict().items()})
    for norm in (a, b):
        torch.manual_seed(3)
        norm.record(torch.randn(50, 2))
        norm.commit()
    assert torch.equal(a.std, b.std) and torch.equal(a.mean, b.mean)


def test_value_norm_is_its_definition():
    beta = 0.9
    rng = np.random.default_rng(1)
    norm = ValueNorm(2, beta)
    assert torch.equal(norm.normalize(torch.ones(2, 3)), torch.ones(2, 3))  # before the first update
    batches = [rng.normal([[2.0], [0.0]], [[3.0], [0.01]], size=(2, 40)) for _ in range(6)]
    for b in batches:
        norm.update(torch.from_numpy(b).float())
    weights = np.array([(1 - beta) * beta ** (5 - k) for k in range(6)])
    mean = sum(w * b.mean(1) for w, b in zip(weights, batches, strict=True)) / weights.sum()
    square = sum(w * (b**2).mean(1) for w, b in zip(weights, batches, strict=True)) / weights.sum()
    std = np.sqrt(np.maximum(square - mean**2, 1e-2))
    x = np.linspace(-3.0, 3.0, 8).reshape(2, 4).astype(np.float32)
    np.testing.assert_allclose(norm.normalize(torch.from_numpy(x)), (x - mean[:, None]) / std[:, None], rtol=1e-4)
    assert std[1] == 0.1  # the floor
    back = norm.denormalize(norm.normalize(torch.from_numpy(x)))
    np.testing.assert_allclose(back, x, rtol=1e-5, atol=1e-6)


def test_value_norm_ignores_inactive_entries():
    a, b = ValueNorm(1, 0.9), ValueNorm(1, 0.9)
    x = torch.randn(1, 10)
    mask = torch.arange(10).unsqueeze(0) < 6
    a.update(torch.where(mask, x, 1e6), mask)
    b.update(x[:, :6])
    torch.testing.assert_close(a.statistics(), b.statistics())


def test_fixed_components_stay_and_the_others_go_on():
    norm = ObservationNorm(3, 10.0)
    fixed = torch.tensor([True, False, True])
    norm.set_statistics(torch.tensor([1.0, 7.0, 2.0]), torch.tensor([0.5, 7.0, 3.0]), fixed)
    x = torch.randn(100, 3) * 4.0 + 5.0
    norm.record(x)
    norm.commit()
    assert norm.mean[fixed].tolist() == [1.0, 2.0] and norm.std[fixed].tolist() == [0.5, 3.0]
    torch.testing.assert_close(norm.mean[1], x[:, 1].mean())
    torch.testing.assert_close(norm.std[1], x[:, 1].std(correction=0))


def test_the_return_scale_is_that_of_all_discounted_sums():
    """Against a loop over every agent's rewards, in several calls."""
    gamma, limit, worlds, agents = 0.9, 2.0, 3, 2
    rng = np.random.default_rng(1)
    scale, wide = (ReturnScale(worlds, agents, gamma, most) for most in (limit, 1e3))
    assert scale.scale.item() == 1.0
    sums = np.zeros((worlds, agents))
    seen: list[float] = []
    for steps, factor in ((5, 1.0), (1, 1.0), (9, 0.2), (4, 0.2)):
        reward = factor * rng.normal(0.5, 1.0, (steps, worlds, agents)).astype(np.float32)
        ended = rng.random((steps, worlds)) < 0.2
        active = rng.random((steps, worlds, agents)) < 0.8
        elapsed = rng.integers(1, 4, (steps, worlds, agents))
        for own in (scale, wide):
            own.record(*(torch.from_numpy(v) for v in (reward, ended, active, elapsed)))
        for t in range(steps):
            for n in range(worlds):
                for a in range(agents):
                    sums[n, a] = gamma ** elapsed[t, n, a] * sums[n, a] + reward[t, n, a] if active[t, n, a] else 0.0
                    if active[t, n, a]:
                        seen.append(sums[n, a])
                if ended[t, n]:
                    sums[n] = 0.0
        np.testing.assert_allclose(scale.scale.item(), np.abs(seen).max() / limit, rtol=1e-5)
        np.testing.assert_allclose(wide.scale.item(), np.std(seen), rtol=1e-5)
    assert np.abs(seen).max() / limit > np.std(seen) > 0.0, "the limit decides, and does not where it is wide"


def test_no_rewards_leave_the_scale_at_one():
    scale = ReturnScale(2, 1, 0.9, 5.0)
    one = torch.ones(3, 2, 1)
    scale.record(torch.zeros(3, 2, 1), torch.zeros(3, 2, dtype=torch.bool), one.bool(), one)
    assert scale.scale.item() == 1.0


def test_a_component_that_hardly_moves_is_not_blown_up_and_one_that_moves_is_not_held_down():
    """0.02 of a sensor's range is movement; 1e-4 is the noise of one that stands still."""
    rng = torch.Generator().manual_seed(3)
    x = torch.randn(20_000, 2, generator=rng) * torch.tensor([1e-4, 0.02]) + torch.tensor([3.0, -1.0])
    norm = ObservationNorm(2, clip=10.0)
    norm.record(x)
    norm.commit()
    still, moving = norm.normalize(x).std(0).tolist()
    assert still < 0.05
    assert abs(moving - 1.0) < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # compiled, and by torch
def test_last_observations_are_those_of_episodes_that_were_cut_off(dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(2)
    norm = ObservationNorm(3, 1.5)
    norm.record(2.0 * torch.randn(50, 3, generator=g) + 1.0)
    norm.commit()
    x = 3.0 * torch.randn(40, 2, 3, generator=g, dtype=dtype)
    x[5, 1, 2] = torch.nan
    terminated, truncated = (torch.rand(40, generator=g) < 0.4 for _ in "ab")
    terminated[5], truncated[5] = False, True
    ids, rows = norm.gather_last(x, terminated, truncated)
    assert ids.tolist() == [i for i in range(40) if truncated[i] and not terminated[i]] and 5 < len(ids) < 20
    torch.testing.assert_close(rows, norm.normalize(x)[ids], rtol=1e-6, atol=1e-6, equal_nan=True)
    ids, rows = norm.gather_last(x, truncated, truncated)
    assert len(ids) == 0 and rows.shape == (0, 2, 3)
