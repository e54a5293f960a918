"""Errors that a user can put right; `RookeryError` is that of assets, which raise it too."""

from __future__ import annotations

from rookery.assets.errors import RookeryError, unknown

__all__ = ["FixedError", "ProcessLost", "RookeryError", "unknown"]


class ProcessLost(RookeryError):
    """A process of an environment's own ended, ran out of memory or stopped computing."""


class FixedError(RookeryError):
    """A value of the argument `fixed` that its parameter does not take; the command line, which gives it by --set, says so."""
