"""Compiled functions of tasks against their torch forms (benchmarks/kernel_cases.py), on what they get while tasks run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rookery

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from kernel_cases import CASES, Case

N, STEPS = 16, 40
CONFIG = {"drone-hover": {"episode_s": 0.3}}
"""Episodes that end in time, too."""


def copied(x: Any) -> Any:
    """Arrays and tensors apart, also those inside of tuples and dicts."""
    if isinstance(x, dict):
        return {k: copied(v) for k, v in x.items()}
    if isinstance(x, tuple):
        parts = [copied(v) for v in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    return x.copy() if isinstance(x, np.ndarray) else x.clone() if isinstance(x, torch.Tensor) else x


def numbers(x: Any) -> Iterator[torch.Tensor]:
    """All arrays and tensors in it."""
    if isinstance(x, np.ndarray | torch.Tensor):
        yield torch.as_tensor(x).double()
    elif isinstance(x, dict | tuple | list):
        for part in x.values() if isinstance(x, dict) else x:
            yield from numbers(part)


class Both:
    """A compiled function that asserts in every call that its torch form does the same; what it writes is compared, too."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.compiled = getattr(case.owner, case.name)
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        given = copied(args)
        wanted = self.case.form(*given, **kwargs)
        got = self.compiled(*args, **kwargs)
        for mine, torchs in zip(numbers([*args, got]), numbers([*given, wanted]), strict=True):
            torch.testing.assert_close(mine, torchs, rtol=1e-5, atol=2e-6, msg=lambda m: f"{self.case.title}: {m}")
        return got

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else partial(self, owner)


@pytest.mark.parametrize("task", dict.fromkeys(case.task for case in CASES))
def test_compiled_code_is_its_torch_form(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = [Both(case) for case in CASES if case.task == task]
    for function in functions:
        monkeypatch.setattr(function.case.owner, function.case.name, function)
    env = rookery.make(task, N, seed=1, config=CONFIG.get(task, {}))
    controller = env.controller()
    obs, _ = env.reset()
    generator = torch.Generator().manual_seed(0)
    for step in range(STEPS):
        if controller is not None and step < STEPS // 2:
            actions = controller(obs)
        else:  # crashes and touches come by
            shapes = {g: (N, s.count, s.action.size) for g, s in env.groups.items()}
            actions = {g: 2.0 * torch.rand(shape, generator=generator) - 1.0 for g, shape in shapes.items()}
        obs = env.step(actions)[0]
    env.close()
    assert all(function.calls for function in functions)
