"""Running statistics: of observations, so that networks see values near one, and of returns, so that critics do.

All accumulate in float64 and are used in float32. Trainers freeze them while an iteration's samples are collected and
learnt from: the policy that chose an action is then exactly the policy that its log-probability belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rookery.policies.storage.normalizer_kernels import gather, gather_last
from rookery.policies.storage.prefix import check_state
from rookery.policies.training.reduction import ALONE, Reduction
from rookery.sim.arrays import indices

STD_FLOOR = 1e-2
"""Least standard deviation of an observation component: one that hardly moves is not blown up into noise."""

VARIANCE_FLOOR = 1e-2
"""Least variance of returns, as in the authors' code for MAPPO (Yu et al. 2021, arXiv 2103.01955, valuenorm.py)."""


class ObservationNorm:
    """``clip((x - mean) / std, -clip, clip)`` with the mean and standard deviation of everything committed so far.

    `normalize` uses the frozen statistics, `record` adds samples to the pending ones, `commit` makes those count.
    Components that `set_statistics` fixes never change.

    Args:
        size: number of components O.
        clip: limit of the normalized value.
        device: where the statistics live.
        pools: [O] numbers below O; components with the same one have one mean and one standard deviation, over all their
            samples together. None for components that each have their own.

    Attributes:
        reduction: over the processes whose samples count together.
    """

    def __init__(
        self, size: int, clip: float, device: torch.device | str = "cpu", pools: Sequence[int] | None = None
    ) -> None:
        self.clip = clip
        self.reduction: Reduction = ALONE
        self._pools = None if pools is None else torch.tensor(pools, device=device)
        self.mean = torch.zeros(size, device=device)
        self.std = torch.ones(size, device=device)
        self._fixed = torch.zeros(size, dtype=torch.bool, device=device)
        self._count = torch.zeros((), dtype=torch.float64, device=device)
        self._mean = torch.zeros(size, dtype=torch.float64, device=device)
        self._m2 = torch.zeros(size, dtype=torch.float64, device=device)
        # n, then the sum of z, then the sum of z * z
        self._pending = torch.zeros(2 * size + 1, dtype=torch.float64, device=device)
        self._number, self._sum, self._squares = self._pending.split([1, size, size])

    def normalize(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """Normalized copy of x [..., O], in `out` if given."""
        out = torch.sub(x, self.mean, out=out)
        return out.div_(self.std).clamp_(-self.clip, self.clip)

    def record(self, x: Tensor, mask: Tensor | None = None) -> None:
        """Add samples x [..., O] to the pending statistics, only those where mask [...] is true."""
        # Relative to the present mean and std, where float32 products lose nothing that matters.
        z = ((x - self.mean) / self.std).reshape(-1, self.mean.numel())
        if mask is None:
            self._number += z.shape[0]
        else:
            keep = mask.reshape(-1, 1)
            z = torch.where(keep, z, 0.0)
            self._number += keep.sum()
        self._sum += z.sum(0, dtype=torch.float64)
        self._squares += z.square_().sum(0, dtype=torch.float64)

    def record_normalized(self, x: Tensor, out: Tensor) -> Tensor:
        """`record` and `normalize` of samples x [..., O] with the same bits, the differences computed once; in `out`, which
        lies side by side."""
        torch.sub(x, self.mean, out=out).div_(self.std)
        z = out.view(-1, self.mean.numel())
        self._number += z.shape[0]
        self._sum += z.sum(0, dtype=torch.float64)
        self._squares += z.square().sum(0, dtype=torch.float64)
        return out.clamp_(-self.clip, self.clip)

    def gather(self, x: Tensor, index: Tensor, record: bool, out: Tensor | None = None) -> Tensor:
        """The rows `index` [r] of x [R, O] normalized [r, O], in `out` if given, which lies side by side; `record` adds them to
        the pending statistics."""
        out = torch.empty(len(index), x.shape[1], dtype=x.dtype, device=x.device) if out is None else out
        if x.device.type == "cpu" and x.dtype is torch.float32:
            gather(index.numpy(), x.contiguous().numpy(), *self.arrays(record), out.numpy())
            return out
        return self.record_normalized(x[index], out) if record else self.normalize(x[index], out)

    def gather_last(self, x: Tensor, terminated: Tensor, truncated: Tensor) -> tuple[Tensor, Tensor]:
        """The worlds [m] whose episodes were cut off and did not terminate, and their last observations, of x [N, A, O],
        normalized [m, A, O]."""
        if x.device.type == "cpu" and x.dtype is torch.float32:
            mean, std, clip, _ = self.arrays(False)
            given = terminated.numpy(), truncated.numpy(), x.contiguous().numpy()
            ids, out = gather_last(*given, mean, std, clip)
            return torch.from_numpy(ids), torch.from_numpy(out)
        index = indices(truncated & ~terminated)
        return index, self.normalize(x[index])

    def arrays(self, record: bool) -> tuple[NDArray[np.float32], NDArray[np.float32], float, NDArray[np.float64]]:
        """Mean, standard deviation, limit and, to `record`, pending sums, as the kernel `gather` takes them."""
        sums = self._pending if record else self._pending[:0]
        return self.mean.numpy(), self.std.numpy(), self.clip, sums.numpy()

    def commit(self) -> None:
        """Merge the pending samples (Chan et al. 1979) and refresh the frozen mean and std."""
        size = self.mean.numel()
        self.reduction.sum(self._pending)
        n = self._pending[0]
        some = n.clamp(min=1.0)
        z_mean = self._pending[1 : size + 1] / some
        z_var = (self._pending[size + 1 :] / some - z_mean.square()).clamp_(min=0.0)
        batch_mean = self.mean + self.std * z_mean
        batch_m2 = self.std.double().square() * z_var * n
        total = (self._count + n).clamp(min=1.0)
        delta = torch.where(n > 0, batch_mean - self._mean, 0.0)
        self._m2 += batch_m2 + delta.square() * (self._count * n / total)
        self._mean += delta * (n / total)
        self._count += n
        self._pending.zero_()
        known = self._count > 0
        mean = self._pooled(self._mean)
        variance = self._pooled(self._m2 / total + (self._mean - mean).square())
        std = torch.where(known, variance.sqrt().clamp(min=STD_FLOOR), 1.0)
        self.mean.copy_(torch.where(self._fixed, self.mean, mean))
        self.std.copy_(torch.where(self._fixed, self.std, std))

    def _pooled(self, x: Tensor) -> Tensor:
        """The mean of x [O] over the components of each pool [O]."""
        if self._pools is None:
            return x
        sums = torch.zeros_like(x).index_add_(0, self._pools, x)
        counts = torch.zeros_like(x).index_add_(0, self._pools, torch.ones_like(x))
        return (sums / counts.clamp(min=1.0))[self._pools]

    def set_statistics(self, mean: Tensor, std: Tensor, fixed: Tensor) -> None:
        """Fix components at statistics from elsewhere.

        Args:
            mean, std: [O], read only where `fixed`.
            fixed: [O] bool; the other components go on as before.
        """
        self.mean.copy_(torch.where(fixed, mean, self.mean))
        self.std.copy_(torch.where(fixed, std, self.std))
        self._fixed |= fixed

    def state_dict(self) -> dict[str, Tensor]:
        """The committed statistics (pending ones are empty between iterations)."""
        return {
            "count": self._count,
            "mean64": self._mean,
            "m2": self._m2,
            "mean": self.mean,
            "std": self.std,
            "fixed": self._fixed,
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put saved statistics back, in place; any that do not fit raise RookeryError and change nothing."""
        check_state(self.state_dict(), state)
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])
        self._pending.zero_()


def put_statistics(module: nn.Module, part: str, norm: ObservationNorm) -> None:
    """Copy running statistics into the mean and std of a policy's stage."""
    with torch.no_grad():
        stage = module.get_submodule(part)
        stage.get_buffer("mean").copy_(norm.mean)
        stage.get_buffer("std").copy_(norm.std)


class ValueNorm:
    """Exponential mean and variance of returns, debiased, with a floor under the variance.

    After n updates with batch means m_k and batch mean squares s_k, weights w_k = (1 - beta) beta^(n-k), W = sum w_k:
    ``mean = sum w_k m_k / W``, ``var = max(sum w_k s_k / W - mean^2, 1e-2)``.
    The critic regresses ``normalize(returns)``; advantages are computed from ``denormalize(critic)``.

    Args:
        count: number of independent statistics G (one for each set of weights).
        beta: memory; the default 0.99999 makes it all but a plain average over the run.
        device: where the statistics live.

    Attributes:
        reduction: over the processes whose returns count together.
    """

    def __init__(self, count: int = 1, beta: float = 0.99999, device: torch.device | str = "cpu") -> None:
        self.beta = beta
        self.reduction: Reduction = ALONE
        self._mean = torch.zeros(count, dtype=torch.float64, device=device)
        self._square = torch.zeros(count, dtype=torch.float64, device=device)
        self._weight = torch.zeros((), dtype=torch.float64, device=device)

    def update(self, returns: Tensor, mask: Tensor | None = None) -> None:
        """Take in a batch of returns [G, R]; entries where mask [G, R] is false do not count."""
        x = returns.double()
        if mask is None and self.reduction.size == 1:
            mean = x.mean(1)
            square = x.square().mean(1)
        else:
            mask = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
            n = self.reduction.sum(mask.sum(1))
            x = torch.where(mask, x, 0.0)
            mean = self.reduction.sum(x.sum(1)) / n.clamp(min=1)
            square = self.reduction.sum(x.square().sum(1)) / n.clamp(min=1)
            # A set of weights whose agents were all inactive keeps its statistics.
            known = self._weight.clamp(min=1e-12)
            mean = torch.where(n > 0, mean, self._mean / known)
            square = torch.where(n > 0, square, self._square / known)
        self._mean.lerp_(mean, 1.0 - self.beta)
        self._square.lerp_(square, 1.0 - self.beta)
        self._weight.mul_(self.beta).add_(1.0 - self.beta)

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Debiased mean and standard deviation, each [G, 1] float32; 0 and 1 before the first update."""
        seen = self._weight > 0
        weight = self._weight.clamp(min=1e-12)
        mean = self._mean / weight
        var = (self._square / weight - mean.square()).clamp(min=VARIANCE_FLOOR)
        std = torch.where(seen, var.sqrt(), 1.0)
        return mean.float().unsqueeze(1), std.float().unsqueeze(1)

    def normalize(self, returns: Tensor) -> Tensor:
        """Returns [G, R] in units of the statistics."""
        mean, std = self.statistics()
        return (returns - mean) / std

    def denormalize(self, values: Tensor) -> Tensor:
        """The critic's outputs [G, R] as returns."""
        mean, std = self.statistics()
        return values * std + mean

    def state_dict(self) -> dict[str, Tensor]:
        """The accumulators."""
        return {"mean": self._mean, "square": self._square, "weight": self._weight}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put saved accumulators back, in place; any that do not fit raise RookeryError and change nothing."""
        check_state(self.state_dict(), state)
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])


def discounts(gamma: float, elapsed: Tensor) -> Tensor:
    """``gamma ** elapsed``, and gamma to the bit where 1 control step has passed."""
    return torch.where(elapsed == 1, gamma, gamma**elapsed)


class ReturnScale:
    """By what rewards are divided so that returns have a fixed size (SimbaV2, Lee et al. 2025, arXiv 2502.15280).

    It follows the discounted sum of every agent's rewards since its episode began, ``G = gamma * G + reward``:
    ``scale = max(std(G), max |G| / limit)``. So no scaled G is beyond the limit, and their standard deviation is at most 1.

    Args:
        worlds, agents: N, A.
        gamma: discount per control step.
        limit: of the scaled G.
        device: where the statistics live.
    """

    def __init__(
        self, worlds: int, agents: int, gamma: float, limit: float, device: torch.device | str = "cpu"
    ) -> None:
        self.gamma = gamma
        self.limit = limit
        self._sum = torch.zeros(worlds, agents, dtype=torch.float64, device=device)
        self._moments = torch.zeros(3, dtype=torch.float64, device=device)  # count, mean, sum of squares about it
        self._largest = torch.zeros((), dtype=torch.float64, device=device)

    def record(self, reward: Tensor, ended: Tensor, active: Tensor, elapsed: Tensor) -> None:
        """Take in steps.

        Args:
            reward: [K, N, A] of K steps in a row.
            ended: [K, N] bool, where the episode ended with the step.
            active: [K, N, A] bool, who took part; the others' rewards do not count, and their sums begin anew.
            elapsed: [K, N, A] control steps that a step stood for.
        """
        discount = discounts(self.gamma, elapsed.double())
        for rewards, over, on, factor in zip(reward.double(), ended, active, discount, strict=True):
            self._sum.copy_(torch.where(on, factor * self._sum + rewards, 0.0))
            self._largest.copy_(torch.maximum(self._largest, self._sum.abs().amax()))
            self._merge(self._sum, on)
            self._sum[over] = 0.0

    def _merge(self, x: Tensor, mask: Tensor) -> None:
        """Merge samples (Chan et al. 1979)."""
        count, mean, m2 = self._moments.unbind()
        n = mask.sum()
        own = torch.where(mask, x, 0.0).sum() / n.clamp(min=1)
        delta = torch.where(n > 0, own - mean, 0.0)
        total = count + n
        share = n / total.clamp(min=1.0)
        spread = torch.where(mask, (x - own).square(), 0.0).sum()
        self._moments.copy_(torch.stack((total, mean + delta * share, m2 + spread + delta.square() * count * share)))

    @property
    def scale(self) -> Tensor:
        """Divisor of rewards, one float32; 1 before the first sample and where all returns are 0."""
        variance = self._moments[2] / self._moments[0].clamp(min=1.0)
        scale = torch.maximum(variance.sqrt(), self._largest / self.limit)
        return torch.where(scale > 0.0, scale, 1.0).float()

    def state_dict(self) -> dict[str, Tensor]:
        """The sums of the episodes under way, and the statistics."""
        return {"sum": self._sum, "moments": self._moments, "largest": self._largest}
