"""Seeds as users of other libraries expect them: environments that nobody gave a seed play episodes of their own."""

from __future__ import annotations

import secrets
from typing import Any

from rookery.sim.engines import check_seed
from rookery.sim.env import Env

__all__ = ["fresh_seed", "seed_for", "unsigned"]


def fresh_seed() -> int:
    """63 bits from the operating system."""
    return secrets.randbits(63)


def seed_for(env: Env, seed: Any) -> int | None:
    """The seed with which an adapter resets an environment.

    Args:
        env: what is wrapped.
        seed: that the adapter was given; None where its random streams are to go on, which begin with a fresh seed in an
            environment that has been given none (`Env.seeded`).

    Raises:
        RookeryError: no whole number of at most 64 bits.
    """
    if seed is not None:
        return check_seed(seed)
    return None if env.seeded else fresh_seed()


def unsigned(seed: int | None) -> int | None:
    """For gymnasium's own generators, which take no numbers below 0."""
    return None if seed is None else seed % 2**64
