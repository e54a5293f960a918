"""MuJoCo's warnings, which it prints and appends to MUJOCO_LOG.TXT in the working folder unless another function takes them."""

from __future__ import annotations

import sys

import mujoco


def take_warnings() -> None:
    """Have this process take MuJoCo's warnings: those of simulations that diverge, one for each step, are counted by who steps;
    others are printed on standard error. No file is written."""
    mujoco.set_mju_user_warning(_take)


def _take(message: str) -> None:
    if "simulation is unstable" not in message:
        print(f"MuJoCo: {message}", file=sys.stderr)
