"""The exporters by name, for `rookery export --target NAME`: a new one is one file and one line below.

An exporter from outside this package is an entry point of an installed package::

    [project.entry-points."rookery.exporters"]
    torque = "my_robot.torque:Torque"

or a class in a file, ``--target my_exporter.py:Torque``, or it is registered in Python by `register`. Importing this imports no
exporter and no torch.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rookery.sim.errors import RookeryError
from rookery.sim.own_files import entry_points, is_in_file, object_at, object_in_file, unknown_name

if TYPE_CHECKING:
    from rookery.sim2real.export.exporter import Exporter

__all__ = ["EXPORTERS", "exporter", "exporter_names", "exporters_for", "register"]

ENTRY_POINTS = "rookery.exporters"

EXPORTERS: dict[str, str | type[Exporter]] = {
    "bundle": "rookery.sim2real.export.bundle:Bundle",
    "contract": "rookery.sim2real.export.bundle:ContractFile",
    "onnx": "rookery.sim2real.export.onnx:Onnx",
    "c": "rookery.sim2real.export.c:C",
    "cpp": "rookery.sim2real.export.cpp_header:Cpp",
    "readme": "rookery.sim2real.export.readme:Readme",
    "golden": "rookery.sim2real.export.golden:GoldenVectors",
    "linux": "rookery.sim2real.export.linux_target:Linux",
    "crazyflie": "rookery.sim2real.export.crazyflie_target:Crazyflie",
    "px4": "rookery.sim2real.export.px4_target:Px4",
    "mcu": "rookery.sim2real.export.mcu:Microcontroller",
}
"""By name the class, or its "module:Class"."""


def register(cls: type[Exporter]) -> None:
    """Make an exporter known by its name, in this process.

    Raises:
        RookeryError: the name is taken, or the class is no exporter.
    """
    checked = _checked(cls, getattr(cls, "__name__", repr(cls)))
    if checked.name in EXPORTERS:
        raise RookeryError(f"there is an exporter {checked.name!r} already: choose another name.")
    EXPORTERS[checked.name] = checked


def exporter_names() -> list[str]:
    """All exporters: of this package, registered ones, and entry points of installed packages. Imports none of them."""
    return list(dict.fromkeys([*EXPORTERS, *entry_points(ENTRY_POINTS)]))


def exporter(name: str) -> Exporter:
    """The exporter of a name, also as ``my_exporter.py:Class``.

    Raises:
        RookeryError: an unknown name, with the nearest match; or an exporter that fails to load, after its traceback.
    """
    if is_in_file(name):
        return _checked(object_in_file(name), name)()
    found = EXPORTERS.get(name) or entry_points(ENTRY_POINTS).get(name)
    if found is None:
        raise unknown_name("target", name, exporter_names())
    return (_checked(object_at(found, "exporter", name), found) if isinstance(found, str) else found)()


def exporters_for(target: str) -> list[Exporter]:
    """The exporter of a target after all that it includes.

    Raises:
        RookeryError: as of `exporter`; or one includes itself, or two write the same file.
    """
    out: dict[str, Exporter] = {}
    _collect(target, (), out)
    owners: dict[str, str] = {}
    for name, each in out.items():
        for file in each.files:
            if file in owners:
                raise RookeryError(f"the exporters {owners[file]!r} and {name!r} both write {file}: rename one's file.")
            owners[file] = name
    return list(out.values())


def _collect(name: str, path: tuple[str, ...], out: dict[str, Exporter]) -> None:
    if name in path:
        raise RookeryError(f"the exporter {name!r} includes itself ({' -> '.join((*path, name))}): change `includes`.")
    if name not in out:
        found = exporter(name)
        for included in found.includes:
            _collect(included, (*path, name), out)
        out[name] = found


def _checked(found: object, shown: str) -> type[Exporter]:
    """`found` as the class of an exporter, with a name and with files inside the export's folder."""
    from rookery.sim2real.export.exporter import Exporter

    if not (isinstance(found, type) and issubclass(found, Exporter)):
        raise RookeryError(
            f"{shown} is no exporter: give a class that derives from rookery.sim2real.export.exporter.Exporter."
        )
    if not getattr(found, "name", ""):
        raise RookeryError(f'{shown} has no name: write one into the class, name = "my-target".')
    for what in ("includes", "files"):
        if isinstance(getattr(found, what), str):
            raise RookeryError(
                f"{what} of {shown} is a text: write a tuple, such as {what} = ({getattr(found, what)!r},)."
            )
    for file in found.files:
        path = PurePosixPath(file)
        if set("{}") & set(file.replace("{group}", "")):
            raise RookeryError(f"{shown} writes {file!r}: the one name in braces is {{group}}.")
        if not file or path.is_absolute() or ".." in path.parts or str(path) != file:
            raise RookeryError(
                f"{shown} writes {file!r}: give a path inside the export's folder, such as 'limits.csv'."
            )
    return found
