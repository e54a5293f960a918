"""Errors that a user can put right; `RookeryError` is that of assets, which raise it too."""

from __future__ import annotations

from rookery.assets.errors import RookeryError, unknown

__all__ = ["Diverged", "FixedError", "ProcessLost", "RookeryError", "unknown"]


class ProcessLost(RookeryError):
    """A process of an environment's own ended, ran out of memory or stopped computing."""


class Diverged(RookeryError):
    """An action, a weight or a figure of a training is not a finite number; the same settings would come to it again."""


class FixedError(RookeryError):
    """A value of the argument `fixed` that its parameter does not take; the command line, which gives it by --set, says so."""
