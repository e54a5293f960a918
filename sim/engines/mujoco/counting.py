"""Compiled loops over what MuJoCo counts in each world: warnings, and forces of actuators."""

from __future__ import annotations

from rookery.sim.random_kernels import kernel


@kernel
def raise_peaks(forces, peaks):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Raise peaks [N, nu] to the sizes of forces [N, k, nu]; what is no number stays to be seen."""
    for n in range(forces.shape[0]):
        for k in range(forces.shape[1]):
            for u in range(forces.shape[2]):
                size = abs(forces[n, k, u])
                if not size <= peaks[n, u]:
                    peaks[n, u] = size


@kernel
def any_warned(warnings, kinds, seen):  # type: ignore[no-untyped-def]  # pragma: no cover
    """True where a world has more or fewer warnings of these kinds than it had.

    Args:
        warnings: [N, all kinds, 2], the last axis being MuJoCo's: of what, and how many. kinds: [K]. seen: [N, K] how many.
    """
    for n in range(len(seen)):
        for k in range(len(kinds)):
            if warnings[n, kinds[k], 1] != seen[n, k]:
                return True
    return False
