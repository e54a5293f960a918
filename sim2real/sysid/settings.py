"""Settings of reading a log, and the log that comes out: names, units, gains, and the checks.

Settings stand in a TOML file beside the log and of its name (`flight.csv`, `flight.toml`), or on the command line, which goes
first::

    rate = 200.0            # Hz, of a log without times
    kp = 20.0               # N m/rad: one for all, or one for each joint
    kd = [1.5, 1.5, 1.5]    # N m s/rad
    joints = ["hip", "thigh", "calf"]
    degrees = true
    time_unit = "ms"
    skip_gaps = true
    [columns]
    position = "q_*"        # our name = the file's, * for the joint
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import Damaged, read_toml
from rookery.sim.values import from_values
from rookery.sim2real.sysid.checks import check_joints, check_times
from rookery.sim2real.sysid.jointed.robot import JointedRobot
from rookery.sim2real.sysid.logs import JointLog
from rookery.sim2real.sysid.table import Table

Array = NDArray[np.float64]
Gains = Annotated[tuple[Annotated[float, Meta(ge=0)], ...], Meta(min_length=1)]
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class LogSettings:
    """See the module; None is for what the file says.

    Args:
        rate: Hz, of a log without times.
        kp, kd: N m/rad and N m s/rad of the drives, one for all or one for each joint.
        joints: names of the components, in the file's order.
        degrees: angles and their rates are in degrees.
        time_unit: one of TIME_UNITS.
        skip_gaps: the stretches between gaps count, each by itself; otherwise a gap is an error.
        columns: the file's names by ours.
    """

    rate: Annotated[float, Meta(gt=0)] | None = None
    kp: Gains | None = None
    kd: Gains | None = None
    joints: tuple[str, ...] | None = None
    degrees: bool | None = None
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    skip_gaps: bool | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def over(self, other: LogSettings) -> LogSettings:
        """These, and where they say nothing the other ones."""
        names = [f.name for f in dataclasses.fields(self) if f.name != "columns"]
        values = {n: v if (v := getattr(self, n)) is not None else getattr(other, n) for n in names}
        return LogSettings(**values, columns={**other.columns, **self.columns})


def beside(path: Path) -> LogSettings:
    """Settings in the TOML file beside a log; none where there is no such file.

    Raises:
        RookeryError: it cannot be read, or holds something else.
    """
    file = path.with_suffix(".toml")
    if path.is_dir() or not file.is_file():
        return LogSettings()
    try:
        return from_table(str(file), read_toml(file))
    except (Damaged, OSError) as error:
        raise RookeryError(f"{file} is not valid TOML: {error}.") from error


def from_table(where: str, values: Mapping[str, Any]) -> LogSettings:
    """Settings of a TOML table.

    Raises:
        RookeryError: an unknown name, or a value of another type.
    """
    lists = {k: [v] if k in ("kp", "kd") and not isinstance(v, (list, tuple)) else v for k, v in values.items()}
    return from_values(LogSettings, lists, f"setting of {where}", inside=f"{where}: ")


def times(table: Table, settings: LogSettings, length: int) -> Array:
    """[T] s, from 0.

    Raises:
        RookeryError: there are none.
    """
    if "time" in table.columns:
        return np.asarray((table.columns["time"] - table.columns["time"][0]) * TIME_UNITS[settings.time_unit or "s"])
    if settings.rate is None:
        raise RookeryError(f"{table.source} has no times: give --rate in Hz, or name the column, --columns time=NAME.")
    return np.arange(length) / settings.rate


def joint_log(table: Table, settings: LogSettings, robot: JointedRobot) -> JointLog:
    """The log of a jointed robot, checked.

    Raises:
        RookeryError: something is missing or wrong.
    """
    table = table.renamed(settings.columns)
    if settings.joints is not None:
        table = _named(table, settings.joints)
    factor = np.pi / 180.0 if settings.degrees else 1.0
    found: dict[str, Any] = {}
    for name, scale in (("position", factor), ("target", factor), ("velocity", factor), ("target_velocity", factor),
                        ("feedforward", 1.0), ("torque", 1.0)):  # fmt: skip
        values = table.gather(name, robot.joints)
        found[name] = None if values is None else scale * values
    position, target = found.pop("position"), found.pop("target")
    if position is None or target is None:
        raise RookeryError(
            f"{table.source} needs the joints' positions and targets, and has {', '.join(list(table.columns)[:24])}: name them "
            "with --columns, such as --columns 'position=q_*'."
        )
    kp, kd = _gains(table, settings, robot)
    time = times(table, settings, len(position))
    pieces = check_times(table.source, time, bool(settings.skip_gaps), settings.time_unit is not None)
    log = JointLog(
        table.source, robot.joints, time, position, target, kp, kd, pieces=pieces, notes=table.notes, **found
    )  # fmt: skip
    return check_joints(log, robot, bool(settings.degrees))


def _named(table: Table, joints: Sequence[str]) -> Table:
    """With numbered components under the joints' names."""
    columns = {}
    for name, values in table.columns.items():
        quantity, _, part = name.partition(".")
        known = part.isdigit() and int(part) < len(joints)
        columns[f"{quantity}.{joints[int(part)]}" if known else name] = values
    return dataclasses.replace(table, columns=columns)


def _gains(table: Table, settings: LogSettings, robot: JointedRobot) -> tuple[Array, Array]:
    out = []
    for place, (name, given) in enumerate((("kp", settings.kp), ("kd", settings.kd))):
        if given is not None:
            if len(given) not in (1, len(robot.joints)):
                raise RookeryError(f"--{name} must be one number, or one for each of the {len(robot.joints)} joints.")
            out.append(np.broadcast_to(np.array(given), (len(robot.joints),)).copy())
        elif all(j in table.gains for j in robot.joints):
            out.append(np.array([table.gains[j][place] for j in robot.joints]))
        else:
            raise RookeryError(
                f"{table.source} does not say the drives' gains: give --kp (N m/rad) and --kd (N m s/rad); the model of "
                f"{robot.name} has {robot.kp[0]:g} and {robot.kd[0]:g}."
            )
    return out[0], out[1]
