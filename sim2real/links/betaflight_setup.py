"""Settings that a Betaflight board must have before a link flies it, read over MSP and refused by their names in its CLI."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rookery.sim.errors import RookeryError
from rookery.sim2real.links import msp
from rookery.sim2real.links.betaflight_rates import LONG, RcTuning, StickFinder
from rookery.sim2real.links.crtp import motor_share, unpack

LEAST_API = (1, 43)
"""Of MSP's interface: the first that tells the kind of the rate curves (Betaflight 4.2)."""
ARM, ANGLE, FAILSAFE = 0, 1, 27
"""Permanent numbers of modes."""
BENDING = {
    ANGLE: "ANGLE", 2: "HORIZON", 3: "ALTHOLD", 5: "MAG", 6: "HEADFREE", 12: "PASSTHRU", 29: "3D", 30: "FPV ANGLE MIX",
    35: "FLIP OVER AFTER CRASH", 45: "PARALYZE", 46: "GPS RESCUE", 47: "ACRO TRAINER", 49: "LAUNCH CONTROL",
}  # fmt: skip
"""Modes in which sticks are no body rates."""
RX_MSP = 1 << 14  # feature
STAGE_2 = 2  # failsafe_switch_mode
PROCEDURES = ("AUTO-LAND", "DROP", "GPS-RESCUE")
DROP = 1
CHANNELS = 12  # that the link sends: four sticks and eight AUX channels
STICKS = 4
LOWEST, MIDDLE, HIGHEST = 1000, 1500, 2000  # us
FLAGS = (
    "NOGYRO", "FAILSAFE", "RXLOSS", "NOT_DISARMED", "BOXFAILSAFE", "RUNAWAY", "CRASH", "THROTTLE", "ANGLE", "BOOTGRACE",
    "NOPREARM", "LOAD", "CALIB", "CLI", "CMS", "BST", "MSP", "PARALYZE", "GPS", "RESCUE_SW", "DSHOT_TELEM", "REBOOT_REQD",
    "DSHOT_BBANG", "NO_ACC_CAL", "MOTOR_PROTO",
)  # fmt: skip
"""Names of what keeps it from arming, of bits that are the same in all versions; the last of a version is ARMSWITCH."""

Ask = Callable[[int], bytes]


def flag_names(flags: int, count: int) -> str:
    """The names of arming-disable flags."""
    names = dict(enumerate(FLAGS)) | {count - 1: "ARMSWITCH"}
    return ", ".join(names.get(i, f"flag {i}") for i in range(32) if flags >> i & 1)


@dataclass(frozen=True)
class AuxSwitch:
    """An AUX channel and the value at which it switches a mode on."""

    channel: int
    on: int
    off: int


@dataclass(frozen=True)
class Throttle:
    """From a collective thrust to the throttle's channel.

    Args:
        curve: of a rotor, N.
        weight: N.
        idle: share of the motors' full command at which they turn with the throttle down.
        low: us, of the throttle that is down.
        hover: share of the throttle at which it hovers; 0 to trust the curve.
    """

    curve: tuple[float, float, float]
    weight: float
    idle: float
    low: int
    hover: float

    def _share(self, newton: float) -> float:
        return max(0.0, (motor_share(newton / 4.0, self.curve) - self.idle) / (1.0 - self.idle))

    def value(self, newton: float) -> int:
        """us."""
        share = self._share(newton)
        if self.hover > 0.0:
            share *= self.hover / max(self._share(self.weight), 1e-3)
        return round(self.low + min(1.0, share) * (HIGHEST - self.low))


@dataclass(frozen=True)
class BetaflightSetup:
    """Settings of a board that its link needs.

    Args:
        name: what it says it is.
        version: of the firmware.
        places: of roll, pitch, yaw and throttle among the channels that are sent.
        middle: us, of a stick.
        axes: of roll, pitch and yaw.
        throttle: see there.
        arm, failsafe: the modes' switches.
        ranges: of all modes' switches.
        boxes: numbers of modes in the order of the status's flags.
        quaternion: whether it tells its attitude as such.
        failsafe_text: procedure and delay, for people.
    """

    name: str
    version: str
    places: tuple[int, int, int, int]
    middle: int
    axes: tuple[StickFinder, StickFinder, StickFinder]
    throttle: Throttle
    arm: AuxSwitch
    failsafe: AuxSwitch
    boxes: tuple[int, ...]
    quaternion: bool
    failsafe_text: str

    def channels(self, rates: Sequence[float], thrust: float | None, armed: bool, failsafe: bool) -> list[int]:
        """[CHANNELS] us.

        Args:
            rates: rad/s about the body's x, y and z, which point forward, left and up.
            thrust: N; None for a throttle that is down.
            armed, failsafe: the switches.
        """
        out = [LOWEST] * CHANNELS
        for switch in (self.arm, self.failsafe):
            out[switch.channel] = switch.off
        if armed:
            out[self.arm.channel] = self.arm.on
        if failsafe:
            out[self.failsafe.channel] = self.failsafe.on
        signs = (1.0, 1.0, -1.0)  # its yaw stick turns with the clock, seen from above
        for place, finder, rate, sign in zip(self.places, self.axes, rates, signs, strict=False):
            out[place] = self.middle + finder.offset(sign * math.degrees(rate))
        out[self.places[3]] = LOWEST if thrust is None else self.throttle.value(thrust)
        return out


def read_setup(
    ask: Ask, curve: tuple[float, float, float], weight: float, most: Sequence[float], hover: float, loss_s: float, drop: bool
) -> BetaflightSetup:  # fmt: skip
    """Ask a board for its settings.

    Args:
        ask: the data of the reply to a request; raises LookupError where the board does not know it.
        curve: thrust of a rotor, N.
        weight: N.
        most: [3] rad/s, that the policy may ask for.
        hover: see Throttle.
        loss_s: s, the longest delay of its failsafe that is accepted.
        drop: whether a failsafe that lets it fall is accepted.

    Raises:
        RookeryError: a setting does not fit; the sentence begins in the middle, for the caller to say who.
        ValueError: a reply is too short.
        LookupError: a request is not known.
    """
    name, version = _who(ask)
    (features,) = (int(v) for v in unpack("I", ask(msp.FEATURE_CONFIG)))
    if not features & RX_MSP:
        raise RookeryError("its receiver is not MSP: choose MSP as receiver mode (feature RX_MSP).")
    _, _, middle, low = (int(v) for v in unpack("BHHH", ask(msp.RX_CONFIG)))
    if not (LOWEST < low < middle < HIGHEST and abs(middle - MIDDLE) <= 100):
        raise RookeryError(f"its sticks' middle is {middle} us their end {low}: set mid_rc to 1500, min_check to 1050.")
    places = tuple(ask(msp.RX_MAP)[:STICKS])
    if sorted(places) != [0, 1, 2, 3]:
        raise RookeryError(f"its map of channels is {list(places)}, which is no order of four sticks.")
    (idle,) = (int(v) for v in unpack("6xH", ask(msp.ADVANCED_CONFIG)))
    if idle > 2000:
        raise RookeryError(f"its motors idle at {idle / 100:g} % of full command: set motor_idle to 2000 at most.")
    arm, failsafe = _switches(ask(msp.MODE_RANGES))
    return BetaflightSetup(
        name, version, (places[0], places[1], places[2], places[3]), middle, _axes(ask, most),
        Throttle(curve, weight, idle / 1e4, low, hover), arm, failsafe, tuple(ask(msp.BOXIDS)), _quaternion(ask),
        _failsafe(ask, loss_s, drop),
    )  # fmt: skip


def _who(ask: Ask) -> tuple[str, str]:
    _, major, minor = (int(v) for v in unpack("BBB", ask(msp.API_VERSION)))
    variant = ask(msp.FC_VARIANT)[:4].decode("ascii", "replace")
    if variant != "BTFL":
        raise RookeryError(
            f"the board says that it is {variant!r} and not Betaflight (BTFL), whose settings this link knows."
        )
    if (major, minor) < LEAST_API:
        raise RookeryError(
            f"its MSP is of version {major}.{minor}, and this link needs {LEAST_API[0]}.{LEAST_API[1]}: upgrade to Betaflight "
            "4.2 or newer."
        )
    version = ".".join(str(int(v)) for v in unpack("BBB", ask(msp.FC_VERSION)))
    name = ask(msp.NAME).decode("ascii", "replace").strip("\0 ")
    return f"Betaflight {version}" + (f" {name!r}" if name else ""), version


def _axes(ask: Ask, most: Sequence[float]) -> tuple[StickFinder, StickFinder, StickFinder]:
    data = ask(msp.RC_TUNING)
    if len(data) < LONG:
        raise ValueError(f"{len(data)} bytes where {LONG} are needed")
    tuning = RcTuning.unpack(data)
    if tuning.throttle_expo or tuning.throttle_limit:
        raise RookeryError("its throttle is bent or limited: set thr_expo to 0 and throttle_limit_type to OFF.")
    deadbands = [int(v) for v in unpack("BB", ask(msp.RC_DEADBAND))]
    axes = []
    for curve, deadband, rate, axis in zip(
        tuning.curves, (deadbands[0], *deadbands), most, ("roll", "pitch", "yaw"), strict=True
    ):
        finder = StickFinder(curve, deadband)
        if finder.most < math.degrees(rate) - 0.5:
            raise RookeryError(
                f"the policy turns it by up to {math.degrees(rate):.0f} deg/s in {axis}, and its rates end at "
                f"{finder.most:.0f}: raise its rates."
            )
        axes.append(finder)
    return axes[0], axes[1], axes[2]


def _switches(ranges: bytes) -> tuple[AuxSwitch, AuxSwitch]:
    """The switches of ARM and FAILSAFE."""
    rows = [tuple(ranges[i : i + 4]) for i in range(0, len(ranges) - 3, 4)]
    used = [(mode, STICKS + aux, 900 + 25 * start, 900 + 25 * end) for mode, aux, start, end in rows if start < end]
    out = []
    for mode, name in ((ARM, "ARM"), (FAILSAFE, "FAILSAFE")):
        found = [row for row in used if row[0] == mode]
        if len(found) != 1 or found[0][1] >= CHANNELS:
            raise RookeryError(
                f"its mode {name} has {len(found) or 'no'} range{'s' if len(found) != 1 else ''} of an AUX channel up to AUX "
                f"{CHANNELS - STICKS}: give it one (Modes in its configurator)."
            )
        _, channel, start, end = found[0]
        off = LOWEST if start > LOWEST else HIGHEST
        if start <= off < end:
            raise RookeryError(f"its mode {name} is on at both ends of its AUX channel: leave one end free.")
        out.append(AuxSwitch(channel, min(max((start + end) // 2, LOWEST), HIGHEST), off))
    arm, failsafe = out
    for mode, channel, start, end in used:
        if mode in BENDING and start <= _value(channel, arm, failsafe) < end:
            raise RookeryError(
                f"its mode {BENDING[mode]} is on while AUX {channel - STICKS + 1} is at {_value(channel, arm, failsafe)}, and "
                "this link flies by body rates: change that range."
            )
    if arm.channel == failsafe.channel:
        raise RookeryError("its modes ARM and FAILSAFE have one AUX channel: give each its own.")
    return arm, failsafe


def _value(channel: int, arm: AuxSwitch, failsafe: AuxSwitch) -> int:
    """us of an AUX channel in flight."""
    return {failsafe.channel: failsafe.off, arm.channel: arm.on}.get(channel, LOWEST)


def _quaternion(ask: Ask) -> bool:
    try:
        return len(ask(msp.ATTITUDE_QUATERNION)) >= 8
    except LookupError:
        return False


def _failsafe(ask: Ask, loss_s: float, drop: bool) -> str:
    delay, _, _, switch, _, procedure = (int(v) for v in unpack("BBHBHB", ask(msp.FAILSAFE_CONFIG)))
    if switch != STAGE_2:
        raise RookeryError(
            "its FAILSAFE switch does not begin stage 2, by which this link lands: set failsafe_switch_mode to STAGE2."
        )
    if delay / 10.0 > loss_s:
        raise RookeryError(
            f"it flies on for {delay / 10:g} s without this program before its failsafe: set failsafe_delay to "
            f"{int(10 * loss_s)} or lower, or accept it by ?loss=s."
        )
    if procedure == DROP and not drop:
        raise RookeryError(
            "its failsafe lets it fall (failsafe_procedure DROP): set AUTO-LAND, or accept it by ?drop=1."
        )
    text = PROCEDURES[procedure] if procedure < len(PROCEDURES) else f"number {procedure}"
    return f"{text} after {delay / 10:g} s"
