"""Parameters of which every run takes some and `make test-all` takes all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(quick: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """All values for `pytest.mark.parametrize`, of which those that are not `quick` are slow; tuples are several arguments."""
    quick, values = list(quick), list(values)
    assert quick and all(q in values for q in quick), "a quick value that is none"
    slow = pytest.mark.slow
    return [v if v in quick else pytest.param(*(v if isinstance(v, tuple) else (v,)), marks=slow) for v in values]
