"""Leaves of expressions that sensors fill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from rookery.sim.terms.expression import Quantity, from_json

if TYPE_CHECKING:
    from rookery.sim.sensors.sensor import Reader
    from rookery.sim.world import World


@dataclass(frozen=True)
class Sensor(Quantity):
    """The values of a sensor, such as a picture: the environment fills them in, see rookery.sim.sensors.sensor.

    Args:
        make: builds its reader in a world; None for one of a contract.
    """

    kind: ClassVar[str] = "sensor"
    make: Callable[[World], Reader] | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Without the reader."""
        return {k: v for k, v in super().to_json().items() if k != "make"}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied without the reader: other processes learn what is observed, and do not read it."""
        return from_json, (self.to_json(),)


@dataclass(frozen=True)
class GroundScan(Sensor):
    """Heights of the ground less that of a body, [P] m, at points around it that turn with its heading.

    Args:
        points: (x, y) m, forward and left of the body's origin, level.
        limit: m, of the heights, either way.
    """

    kind: ClassVar[str] = "ground_scan"
    points: tuple[tuple[float, float], ...] = ()
    limit: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.points) != self.count or not self.limit > 0.0:
            raise ValueError(
                f"a scan has a point for each height and a positive limit, got {len(self.points)} points for {self.count} "
                f"heights and {self.limit!r}."
            )
