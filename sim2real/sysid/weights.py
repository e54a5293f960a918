"""Weights of residuals: their size and for how long they stay alike, signal by signal.

Residuals of a model that is nearly right are small but slow: neighbors say nearly the same. Counted as independent, 30,000 of
them give intervals that are ten times too narrow. Their autocorrelation time says how many samples are worth one.

Slow residuals are also what the model itself gets wrong, and no statistics of one log tells how that moves a parameter. So
values that change the cost of the slow part by less than TOLERANCE are not told apart; noise that is white does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rookery.sim2real.sysid.problem import Problem

Array = NDArray[np.float64]
LEAST_SIGMA = 1e-7
"""Least standard deviation of a signal, in its unit, as a share of 1 rad, m or rad/s: below it numbers are only rounded."""
TOLERANCE = 0.01
"""Share of the cost of slow residuals within which parameters are not told apart (our choice). Of a Go2 held in the air, delays
of 0 and 5 ms differ by about this much, and which of them fits better changes from one part of the log to the next."""
SOKAL = 5.0
"""Autocorrelations are summed up to this many autocorrelation times (Sokal, "Monte Carlo methods in statistical mechanics",
1997): beyond it they are noise."""


@dataclass(frozen=True)
class SampleWeights:
    """Weights of the C signals of a problem.

    Args:
        sigma: [C] root mean square of the residuals.
        time: [C] autocorrelation time, in samples, at least 1.
        count: [C] samples.
        slow: [C] share of the squares that neighbors have in common: the autocorrelation from one sample to the next.
    """

    sigma: Array
    time: Array
    count: Array
    slow: Array

    @property
    def signals(self) -> int:
        """C."""
        return len(self.count)

    @property
    def values(self) -> int:
        """Number of residuals, those of all signals."""
        return round(float(self.count.sum()))

    @property
    def effective(self) -> float:
        """Number of independent values that the residuals are worth, those of all signals; at most `values`."""
        return float((self.count / self.time).sum())

    @property
    def tolerance(self) -> float:
        """Rise of the cost that is put down to the model."""
        return TOLERANCE * float((self.slow * self.count / self.time).sum())

    def rows(self, channels: NDArray[np.int64]) -> Array:
        """[m] factors on residuals, whose weighted squares sum up to minus twice the logarithm of the likelihood."""
        return np.asarray((1.0 / (self.sigma * np.sqrt(self.time)))[channels])


def weights_of(problem: Problem, residuals: Array, correlated: bool = True) -> SampleWeights:
    """Weights by the residuals [m] of a candidate.

    Args:
        correlated: judge the autocorrelation; otherwise residuals count as independent.
    """
    table = residuals.reshape(-1, len(problem.names))
    count = np.full(len(problem.names), len(table), float)
    sigma = np.maximum(np.sqrt((table**2).mean(axis=0)), LEAST_SIGMA)
    if not correlated:
        return SampleWeights(sigma, np.ones_like(sigma), count, np.zeros_like(sigma))
    time, slow = autocorrelation(table, problem.stretches)
    return SampleWeights(sigma, time, count, slow)


def autocorrelation(table: Array, stretches: tuple[int, ...]) -> tuple[Array, Array]:
    """Autocorrelation times [C] of residuals [S, C] in runs of these lengths, in samples: one and twice the sum of the
    autocorrelations; and [C] the first of these, at least 0."""
    longest = max(stretches)
    total = np.zeros((longest, table.shape[1]))
    first = 0
    for length in stretches:
        spectrum = np.fft.rfft(table[first : first + length], 2 * longest, axis=0)
        total += np.fft.irfft(np.abs(spectrum) ** 2, 2 * longest, axis=0)[:longest]
        first += length
    pairs = np.array([sum(max(length - lag, 0) for length in stretches) for lag in range(longest)], float)
    rho = (total / pairs[:, None]) / np.maximum(total[0] / pairs[0], LEAST_SIGMA**2)
    sums = 2.0 * np.cumsum(rho, axis=0) - 1.0
    lags = np.arange(longest)[:, None]
    enough = lags >= SOKAL * sums
    last = np.where(enough.any(axis=0), enough.argmax(axis=0), longest - 1)
    return np.maximum(sums[last, np.arange(table.shape[1])], 1.0), np.maximum(rho[1], 0.0)
