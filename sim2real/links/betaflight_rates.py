"""Betaflight's rate curves: from a stick to deg/s, as rc.c has them, and the RC tuning of a profile (MSP_RC_TUNING)."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace

from rookery.sim.errors import RookeryError
from rookery.sim2real.links.crtp import unpack

BETAFLIGHT, ACTUAL, QUICK = 0, 3, 4
TYPES = {BETAFLIGHT: "BETAFLIGHT", 1: "RACEFLIGHT", 2: "KISS", ACTUAL: "ACTUAL", QUICK: "QUICK"}
"""Names of the kinds of curves, of which three are known here."""
STICK = 500  # us of a channel from the middle to its end
MOST = 1998.0  # deg/s, that any curve gives
STEEPEST = 0.01  # least denominator of a super factor
_FIELDS = "BBBBBBBBHBBBBBBHHHB"
LONG = 23  # bytes of the tuning with the kind of the curves, since version 1.43 of the interface


@dataclass(frozen=True)
class RateCurve:
    """The curve of one axis.

    Args:
        kind: one of TYPES.
        rc_rate, rate, expo: as the firmware stores them.
        limit: deg/s.
    """

    kind: int
    rc_rate: int
    rate: int
    expo: int
    limit: int = int(MOST)

    def degrees(self, stick: float) -> float:
        """deg/s of a stick from -1 to 1."""
        curve = {BETAFLIGHT: self._betaflight, ACTUAL: self._actual, QUICK: self._quick}[self.kind]
        most = min(float(self.limit), MOST)
        return max(-most, min(most, curve(stick)))

    def _betaflight(self, s: float) -> float:
        expo, rate = self.expo / 100.0, self.rc_rate / 100.0
        if rate > 2.0:
            rate += 14.54 * (rate - 2.0)
        bent = s * (abs(s) ** 3 * expo + 1.0 - expo)
        return 200.0 * rate * bent / min(1.0, max(STEEPEST, 1.0 - abs(s) * self.rate / 100.0))

    def _actual(self, s: float) -> float:
        expo, middle = self.expo / 100.0, 10.0 * self.rc_rate
        bent = abs(s) * (s**5 * expo + s * (1.0 - expo))
        return s * middle + max(0.0, 10.0 * self.rate - middle) * bent

    def _quick(self, s: float) -> float:
        """With quickrates_rc_expo off, as it is unless somebody switches it on."""
        middle = 2.0 * self.rc_rate
        most = max(10.0 * self.rate, middle)
        if middle == 0.0:
            return 0.0
        expo = self.expo / 100.0
        bent = abs(s) ** 3 * expo + abs(s) * (1.0 - expo)
        return s * middle / min(1.0, max(STEEPEST, 1.0 - bent * (1.0 - middle / most)))


@dataclass(frozen=True)
class RcTuning:
    """A rate profile.

    Args:
        curves: of roll, pitch and yaw.
        throttle_middle, throttle_expo: of the throttle's curve, %.
        throttle_limit: kind of its limit, 0 for none.
    """

    curves: tuple[RateCurve, RateCurve, RateCurve]
    throttle_middle: int = 50
    throttle_expo: int = 0
    throttle_limit: int = 0

    @classmethod
    def unpack(cls, data: bytes) -> RcTuning:
        """The tuning in a message's data.

        Raises:
            ValueError: it is shorter.
        """
        (
            rc_roll, expo_roll, roll, pitch, yaw, _, middle, expo, _, expo_yaw, rc_yaw, rc_pitch, expo_pitch, limited, _,
            most_roll, most_pitch, most_yaw, kind,
        ) = (int(v) for v in unpack(_FIELDS, data))  # fmt: skip
        curves = (
            RateCurve(kind, rc_roll, roll, expo_roll, most_roll),
            RateCurve(kind, rc_pitch, pitch, expo_pitch, most_pitch),
            RateCurve(kind, rc_yaw, yaw, expo_yaw, most_yaw),
        )
        return cls(curves, middle, expo, limited)

    def with_kind(self, kind: int) -> RcTuning:
        """The same numbers under another kind of curves."""
        a, b, c = (replace(curve, kind=kind) for curve in self.curves)
        return replace(self, curves=(a, b, c))


class StickFinder:
    """A curve turned round: the channel's offset for a rate.

    Args:
        curve: of the axis.
        deadband: us about the middle that the firmware takes as the middle.

    Attributes:
        most: deg/s, at the stick's end.

    Raises:
        RookeryError: the curve has no such inverse.
    """

    def __init__(self, curve: RateCurve, deadband: int) -> None:
        if curve.kind not in (BETAFLIGHT, ACTUAL, QUICK):
            raise RookeryError(
                f"its rates are of type {TYPES.get(curve.kind, curve.kind)}, and this link knows ACTUAL, BETAFLIGHT and QUICK."
            )
        if curve.kind == QUICK and curve.expo:
            raise RookeryError(
                "its QUICK rates have an expo, whose form MSP does not tell (quickrates_rc_expo): set the expo to 0."
            )
        if not 0 <= deadband < STICK:
            raise RookeryError(f"its deadband is {deadband} us of {STICK}.")
        self._deadband = deadband
        self._rates = [curve.degrees(k / (STICK - deadband)) for k in range(STICK - deadband + 1)]
        self.most = self._rates[-1]

    def offset(self, rate: float) -> int:
        """us from the middle, the nearest whole number, for deg/s; the end where the curve does not reach it."""
        size, rates = abs(rate), self._rates
        k = bisect.bisect_left(rates, size)
        if k == len(rates) or (k > 0 and size - rates[k - 1] < rates[k] - size):
            k -= 1
        out = k + self._deadband if k else 0
        return out if rate >= 0.0 else -out
