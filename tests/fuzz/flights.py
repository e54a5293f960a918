"""Files that `rookery fly` reads besides bundles: hand-written contracts and safety settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rookery.sim2real.runtime.onnx_controller import observation_c, read_contract
from rookery.sim2real.runtime.settings import safety_settings

SHORT, SAFETY = "contract.json", "safety.toml"
CONTRACT: dict[str, Any] = {
    "schema": "rookery-short-contract",
    "control_dt": 0.01,
    "observation": [
        {"name": "offset", "of": "target - position", "axes": "body", "clip": 3.0},
        {"name": "wind", "of": "wind", "size": 2, "unit": "m/s"},
        {"name": "last", "of": "last action"},
        {"name": "up", "of": {"kind": "constant", "values": [0.0, 0.0, 1.0], "frame": "world"}},
    ],
    "action": {"kind": "ctbr", "low": [-3.0, -3.0, -3.0, 0.0], "high": [3.0, 3.0, 3.0, 0.4]},
    "multirotor": {"mass": 0.03, "most_thrust": 0.4},
    "history": 2,
    "fence_m": 3.0,
}
LIMITS = """# of a first flight
[limits]
tilt_deg = 45
fence_m = 1.5
misses = 3
command_change = 0.5
[reactions]
battery = "land"
tilt = "stop"
"""


def write(folder: Path) -> None:
    """Both files."""
    (folder / SHORT).write_text(json.dumps(CONTRACT))
    (folder / SAFETY).write_text(LIMITS)


def read_short(folder: Path) -> None:
    """The contract, and the C of its observation."""
    contract = read_contract(folder)
    for group in contract.groups:
        observation_c(contract, group)


def read_safety(folder: Path) -> None:
    """Settings over those of the contract."""
    contract = read_contract(folder)
    for group in contract.groups:
        safety_settings(contract, group, folder / SAFETY)
