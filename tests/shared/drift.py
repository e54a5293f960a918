"""Metrics of drone tasks without the drift of headings, which tests/tasks/test_turning.py judges for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def without_drift(metrics: Mapping[str, T]) -> dict[str, T]:
    """All but `yaw_drift`, which is there."""
    assert "yaw_drift" in metrics
    return {name: value for name, value in metrics.items() if name != "yaw_drift"}
