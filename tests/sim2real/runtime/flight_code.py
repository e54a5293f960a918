"""Flight code of others: where it runs, how it is flown there, and how its flight is judged by its log."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.sim2real.runtime.flown import read_flight
from tests.sim2real.runtime.processes import ROOKERY, patience

NOT_RUN = "not run against flight code:"
"""Beginning of the reason of a skip."""
ERROR = {"hover": 0.3, "walk": 0.3}
"""m from the target, m/s from the commanded velocity: rms over the policy's flight, after its first second."""
SETTLE_S = 1.0
DOWN_M = 0.3
"""m, from the height where it took off: it is down."""
WALK = ("--command", "velocity=0.3,0,0")
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class FlightCode:
    """A program that serves a vehicle.

    Args:
        name: of the program.
        policy: "hover" or "walk".
        example: an address of a vehicle that it serves.
        refusal: words of the sentence by which the link refuses it; "" where it is flown.
    """

    name: str
    policy: str
    example: str
    refusal: str = ""


CODE = {
    "ROOKERY_PX4": FlightCode("PX4's simulation", "hover", "mavlink://:14540"),
    "ROOKERY_ARDUPILOT": FlightCode("ArduPilot's simulation", "hover", "mavlink://:14550", "and not PX4"),
    "ROOKERY_BETAFLIGHT": FlightCode("Betaflight's simulation", "hover", "betaflight://127.0.0.1:5761?tracker=14810"),
    "ROOKERY_CRAZYFLIE": FlightCode("the Crazyflie's firmware", "hover", "crazyflie://127.0.0.1:19850"),
    "ROOKERY_UNITREE": FlightCode("unitree_mujoco", "walk", "unitree://lo?domain=1"),
}
"""By the variable that holds the address of the running vehicle."""


def why_not(variable: str) -> str:
    """The reason for which nothing is flown there; "" where the variable names a vehicle."""
    return "" if os.environ.get(variable) else f"{NOT_RUN} {variable} names no running vehicle of {CODE[variable].name}"


def fly_code(variable: str, bundle: Path, log: Path, seconds: float) -> list[str]:
    """Fly the vehicle that a variable names; faults of the flight in words, [] where there are none."""
    code = CODE[variable]
    words = ["fly", str(bundle), *patience(bundle), "--link", os.environ[variable], "--log", str(log)]
    words += ["--seconds", f"{seconds:g}", *(WALK if code.policy == "walk" else ())]
    done = subprocess.run([*ROOKERY, *words], capture_output=True, text=True, timeout=TIMEOUT_S + seconds, check=False)
    if code.refusal:
        sentences = [line for line in done.stderr.splitlines() if not line.startswith("rookery: no real-time")]
        alright = done.returncode == 2 and len(sentences) == 1 and code.refusal in sentences[0]
        return [] if alright else [f"it is not refused by a sentence: {done.returncode}, {done.stdout}{done.stderr}"]
    out = [] if done.returncode == 0 else [f"exit code {done.returncode}: {done.stdout}{done.stderr}"]
    return out + (judged(log, code.policy, seconds) if done.returncode != 2 else [])


def judged(log: Path, policy: str, seconds: float) -> list[str]:
    """Faults of a flight, by its log alone."""
    flown = read_flight(log)
    steps = [] if flown is None else flown.vehicles.get(0, [])
    phases = [s["phase"] for i, s in enumerate(steps) if i == 0 or steps[i - 1]["phase"] != s["phase"]]
    out = [f"fault {s['fault']}" for s in steps if "fault" in s][:1]
    if phases[-3:] != ["policy", "exit", "idle"]:
        out.append(f"it did not come down by its exit: {phases}")
    acted = [s for s in steps if s["phase"] == "policy"]
    lasted = acted[-1]["time"] - acted[0]["time"] if acted else 0.0
    if lasted < 0.95 * seconds:
        out.append(f"the policy acted for {lasted:.1f} s of {seconds:g}")
    settled = [s for s in acted if s["time"] - acted[0]["time"] > min(SETTLE_S, 0.5 * seconds)]
    error = _error(settled, policy)
    if not error < ERROR[policy]:
        out.append(f"an error of {error:.2f}")
    if policy == "hover" and not _height(steps, -1) - _height(steps, 0) < DOWN_M:
        out.append("it is still in the air")
    return out


def _error(steps: list[dict[str, Any]], policy: str) -> float:
    """Rms error of what the policy was asked for; nan where the log does not tell."""
    try:
        if policy == "hover":
            off = [np.subtract(s["state"]["position"], s["commands"]["target"]) for s in steps]
        else:
            off = [_ahead(s) - np.asarray(_asked(s))[:2] for s in steps if any(_asked(s))]
        return float(np.sqrt(np.square(np.array(off, float)).sum(axis=1).mean()))
    except (KeyError, TypeError, ValueError, np.exceptions.AxisError):  # nothing told, or null
        return float("nan")


def _asked(step: dict[str, Any]) -> list[float]:
    """Velocity that a walking robot is asked for."""
    (velocity,) = (v for name, v in step["commands"].items() if name.startswith("commanded velocity"))
    return list(velocity)


def _ahead(step: dict[str, Any]) -> np.ndarray:
    """[2] m/s, estimated velocity ahead and to the left."""
    w, x, y, z = step["state"]["rotation"]
    heading = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    c, s = np.cos(heading), np.sin(heading)
    vx, vy, _ = step["estimates"]["velocity"]
    return np.array((c * vx + s * vy, c * vy - s * vx))


def _height(steps: list[dict[str, Any]], k: int) -> float:
    told = [s["state"]["position"][2] for s in steps if "position" in s.get("state", {})]
    return float(told[k]) if told and told[k] is not None else float("nan")
