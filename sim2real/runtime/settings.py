"""Limits of the safety filter and what each fault leads to: from the contract, with a user's TOML over it.

[limits]                    # see `Limits`
tilt_deg = 50
fence_m = 2.0
[reactions]                 # fault = reaction
battery = "land"
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.untrusted import Damaged, read_toml
from rookery.sim.values import UNBOUNDED, from_values
from rookery.sim2real.contract import Contract, ContractGroup

FAULTS = {
    "operator": "the operator asked for a stop",
    "not_finite": "a measured value is NaN or infinite",
    "silent": "the vehicle is silent",
    "stale": "measurements are too old",
    "frozen": "measurements do not change",
    "clock": "the vehicle's clock jumped",
    "ground": "the map of the ground is too old",
    "hung": "the policy's step did not return in time",
    "tilt": "the body leans too far",
    "fence": "it is too far from its target",
    "height": "it is too low or too high",
    "spin": "it turns too fast",
    "jump": "its place or attitude jumped",
    "joint": "a joint is outside its limits",
    "torque": "a joint pushes harder than its limit",
    "speed": "a joint moves faster than its limit",
    "collision": "something pushes against the arm",
    "disarmed": "the vehicle no longer follows",
    "deadline": "too many control steps in a row were late",
    "battery": "the battery is low",
    "command": "the policy's command is not finite",
}
"""Faults in the order of `enum safety_fault`, which is how bad they are."""

REACTIONS = {
    "land": "a multirotor comes down by its own controller and stops its motors",
    "stop": "motors stop at once",
    "damp": "joints only resist motion",
    "hold": "joints stay where they are; an arm brakes, and its own controller holds it",
    "sit": "joints move to the rest pose, an arm's home, then only resist",
}

BY_FAMILY = {"multirotor": "land", "joints": "damp", "arm": "hold"}
"""What a fault leads to where nothing else is said."""
ALLOWED = {"multirotor": ("land", "stop"), "joints": ("damp", "hold", "sit"), "arm": ("hold", "damp", "sit")}


Number = Annotated[float, UNBOUNDED]
Count = Annotated[int, Meta(le=100_000)]


@dataclass(frozen=True)
class Limits:
    """Conditions under which a policy goes on; infinity or 0 s switches one off."""

    stale_ms: Number = 50.0  # ms, age of the newest measurement; the vehicle must be safe 80 ms after the last
    silent_ms: Number = 50.0  # ms, since anything arrived
    frozen_ms: Number = (
        50.0  # ms, that measurements arrive and do not change: sensors of real robots never repeat all values
    )
    clock_ms: Number = (
        200.0  # ms, that the vehicle's clock may run from ours; a minute of two crystals of 100 ppm makes 12
    )
    policy_ms: Number = 50.0  # ms, since the policy's step last returned
    ground_ms: Number = 300.0  # ms, age of a map of the ground: lidars make about 15 a second, and the ground stays
    misses: Count = 5  # late control steps in a row
    tilt_deg: Number = 60.0  # deg; of a multirotor, most of which train with starts within 30
    fence_m: Number = math.inf  # m, from the target; the contract's distance_from_target where it has one
    lowest_m: Number = -math.inf  # m, of the body in flight
    highest_m: Number = math.inf  # m
    spin_deg_s: Number = 720.0  # deg/s
    jump_m: Number = 0.5  # m, from where two readings' mean velocity leads; 20 m/s of change within stale_ms makes that
    jump_deg: Number = 30.0  # deg, likewise of the attitude; what turns by spin_deg_s within stale_ms makes 18
    battery: Number = 0.15  # share that is left
    collision: Number = 0.4  # external torque of a joint, share of its limit of torque
    command_change: Number = math.inf  # largest change in a control step, share of the command's range

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            if math.isnan(getattr(self, f.name)):
                raise RookeryError(f"{f.name} must be a number, got nan.")
        for name in ("stale_ms", "silent_ms", "frozen_ms", "clock_ms", "policy_ms", "ground_ms", "misses"):
            if getattr(self, name) < 0:
                raise RookeryError(f"{name} must not be below 0 (0 switches it off), got {getattr(self, name):g}.")
        for name in ("command_change", "tilt_deg", "fence_m", "spin_deg_s", "jump_m", "jump_deg", "collision"):
            if not getattr(self, name) > 0.0:
                raise RookeryError(f"{name} must be above 0 (inf switches it off), got {getattr(self, name):g}.")
        if not self.battery < 1.0:
            raise RookeryError(f"battery must be a share below 1, got {self.battery:g}.")
        if not self.lowest_m < self.highest_m:
            raise RookeryError(f"lowest_m must be below highest_m, got {self.lowest_m:g} and {self.highest_m:g}.")


@dataclass(frozen=True)
class SafetySettings:
    """Limits of the safety filter, and the reaction to each fault.

    Args:
        limits: see Limits.
        reactions: for each of FAULTS one of REACTIONS.
    """

    limits: Limits = field(default_factory=Limits)
    reactions: Mapping[str, str] = field(default_factory=dict)


def family_of(group: ContractGroup) -> str:
    """Family of robots that a group of a contract is for."""
    actuation = group.actuation
    if actuation is not None and actuation.multirotor is not None:
        return "multirotor"
    return "arm" if actuation is not None and actuation.references is not None else "joints"


def frozen_ms(control_dt: float) -> float:
    """The limit of that name for a policy that steps every `control_dt` s.

    A change that comes right after a step is seen a period late, and the limit is passed by up to another one: together within
    70 ms, so that the vehicle is safe after 80. One measurement that is like the one before is none of a frozen sensor.
    """
    period = 1e3 * control_dt
    return min(Limits.frozen_ms, max(70.0 - 2.0 * period, 1.5 * period))


def safety_settings(contract: Contract, group: str, overrides: Path | None = None) -> SafetySettings:
    """The settings of a contract's group, with those of a TOML file over them.

    Raises:
        RookeryError: the file cannot be read, or says what is not known or not allowed.
    """
    of = contract.groups[group]
    family = family_of(of)
    limits = Limits(frozen_ms=frozen_ms(contract.control_dt))
    if (fence := of.safety.get("distance_from_target")) is not None and fence.high is not None:
        limits = dataclasses.replace(limits, fence_m=float(fence.high))
    reactions = dict.fromkeys(FAULTS, BY_FAMILY[family])
    if overrides is not None:
        values = _read(overrides)
        for key in values:
            if key not in ("limits", "reactions"):
                raise unknown("table of safety settings", key, ("limits", "reactions"))
            if not isinstance(values[key], Mapping):
                raise RookeryError(f"{key} must be a table in {overrides}: write [{key}] above its lines.")
        limits = from_values(Limits, values.get("limits", {}), "safety limit", limits, "limits.")
        reactions |= _reactions(values.get("reactions", {}), family)
    return SafetySettings(limits, reactions)


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except OSError as error:
        raise RookeryError(f"cannot read the safety settings {path}: {error.strerror or error}.") from None
    except Damaged as error:
        raise RookeryError(f"the safety settings {path} cannot be read: {error}.") from None


def _reactions(values: Mapping[str, object], family: str) -> dict[str, str]:
    out = {}
    for fault, reaction in values.items():
        if fault not in FAULTS:
            raise unknown("fault", fault, FAULTS)
        if reaction not in ALLOWED[family]:
            raise RookeryError(
                f"the reaction to {fault} must be one of {', '.join(ALLOWED[family])} for a robot of the family {family}, "
                f"got {reaction!r}."
            )
        out[fault] = str(reaction)
    return out
