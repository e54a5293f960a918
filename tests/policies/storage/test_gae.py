"""Advantages against the definition: lambda-weighted n-step returns, written out for each row in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.policies.storage.rollout import gae, moments


def by_definition(reward, value, final, last, terminated, truncated, gamma, lam, elapsed=None):
    """(1 - lam) sum_n lam^(n-1) R_n - V, the last n-step return of the episode or the rollout taking the rest."""
    steps, worlds = reward.shape
    elapsed = torch.ones_like(reward) if elapsed is None else elapsed.double()
    out = torch.zeros_like(reward)
    for w in range(worlds):
        for t in range(steps):
            returns = []
            collected = 0.0
            k = t
            while True:
                collected += gamma ** elapsed[t:k, w].sum() * reward[k, w]
                if terminated[k, w]:
                    beyond = 0.0
                    over = True
                elif truncated[k, w]:
                    beyond = final[k, w]
                    over = True
                else:
                    over = k == steps - 1
                    beyond = last[w] if over else value[k + 1, w]
                returns.append(collected + gamma ** elapsed[t : k + 1, w].sum() * beyond)
                if over:
                    break
                k += 1
            mix = sum((1 - lam) * lam**n * r for n, r in enumerate(returns[:-1]))
            out[t, w] = mix + lam ** (len(returns) - 1) * returns[-1] - value[t, w]
    return out


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    steps=st.integers(1, 9),
    often=st.floats(0.0, 0.6),
    gamma=st.sampled_from([0.0, 0.9, 0.99, 1.0]),
    lam=st.sampled_from([0.0, 0.5, 0.95, 1.0]),
)
def test_gae_is_its_definition(seed, steps, often, gamma, lam):
    g = torch.Generator().manual_seed(seed)
    shape = (steps, 4)
    reward, value, final = (torch.randn(shape, generator=g, dtype=torch.float64) for _ in range(3))
    last = torch.randn(4, generator=g, dtype=torch.float64)
    terminated, truncated = (torch.rand(shape, generator=g) < often for _ in range(2))
    got = gae(reward, value, final, last, terminated, truncated, gamma, lam)
    want = by_definition(reward, value, final, last, terminated, truncated, gamma, lam)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    elapsed = torch.randint(1, 5, shape, generator=g)
    got = gae(reward, value, final, last, terminated, truncated, gamma ** elapsed.double(), lam)
    want = by_definition(reward, value, final, last, terminated, truncated, gamma, lam, elapsed)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def test_nothing_leaks_across_the_end_of_an_episode():
    torch.manual_seed(0)
    reward = torch.randn(6, 2, 3)
    value = torch.randn(6, 2, 3)
    final = torch.randn(6, 2, 3)
    last = torch.randn(2, 3)
    ends = torch.zeros(6, 2, 1, dtype=torch.bool)
    ends[2, 0] = True
    no = torch.zeros_like(ends)
    for terminated, truncated in ((ends, no), (no, ends)):
        before = gae(reward, value, final, last, terminated, truncated, 0.99, 0.95)
        changed = reward.clone()
        changed[3:] += 100.0
        after = gae(changed, value, final, last, terminated, truncated, 0.99, 0.95)
        assert torch.equal(before[:3, 0], after[:3, 0])
        assert not torch.equal(before[:3, 1], after[:3, 1])


def test_final_value_counts_only_where_truncated():
    zero = torch.zeros(2, 3)
    one = torch.ones(2, 3)
    truncated = torch.tensor([[True, False, True], [False, False, False]])
    terminated = torch.tensor([[False, False, True], [False, False, False]])
    got = gae(zero, zero, one, torch.zeros(3), terminated, truncated, 0.9, 0.95)
    torch.testing.assert_close(got[0], torch.tensor([0.9, 0.0, 0.0]))


def test_moments_of_the_active_entries_alone():
    """Three, one and none of them."""
    x = torch.tensor([[1.0, 2.0, 6.0, 90.0], [5.0, 70.0, 80.0, 90.0], [60.0, 70.0, 80.0, 90.0]])
    active = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]).bool()
    mean, std = moments(x, active)
    assert mean[:, 0].tolist() == pytest.approx([3.0, 5.0, 0.0])
    assert std[:, 0].tolist() == pytest.approx([(14 / 3) ** 0.5, 0.0, 0.0])
    mean, std = moments(x, None)
    assert mean[0, 0].item() == pytest.approx(24.75)
    assert std[0, 0].item() == pytest.approx(x[0].numpy().std())
