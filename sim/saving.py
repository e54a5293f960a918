"""A scene as one MJCF file that plain MuJoCo opens, with the files of its meshes and pictures beside it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import mujoco

from rookery.sim import files
from rookery.sim.errors import RookeryError

ASSETS = "assets"
"""Folder beside the MJCF with the files that it names."""
DIGITS = 17  # of a double, so that every number comes back with the same bits


def save(
    spec: mujoco.MjSpec, path: Path, start: mujoco.MjData | None, inertia: Mapping[str, tuple[float, float, float]]
) -> list[Path]:
    """Write what `Scene.save` promises; `inertia`: principal moments in kg m^2, by body, that MuJoCo's compiler would refuse.

    Returns:
        The files written, the MJCF first.
    """
    if path.suffix != ".xml":
        raise RookeryError(f"a scene is saved as an MJCF file, got {str(path)!r}: give a name that ends in .xml.")
    try:
        model = spec.compile()
    except ValueError as e:
        raise RookeryError(f"MuJoCo refuses the scene: {e}") from e
    if start is not None:
        spec.add_key(
            name="start", qpos=start.qpos, qvel=start.qvel, act=start.act, ctrl=start.ctrl, mpos=start.mocap_pos.ravel(),
            mquat=start.mocap_quat.ravel(),
        )  # fmt: skip
    spec.comment = _lost(model, inertia)
    contents = _name_assets(spec)
    spec.assets = contents
    with _exact():
        text = spec.to_xml()
    out = [path, *(path.parent / name for name in contents)]
    try:
        for file, data in zip(out, (text.encode(), *contents.values()), strict=True):
            files.make_folder(file.parent)
            files.replace(file, data)
    except OSError as e:
        raise RookeryError(f"the scene cannot be written to {path.parent}: {e.strerror}. Choose another folder.") from e
    return out


def _lost(model: mujoco.MjModel, inertia: Mapping[str, tuple[float, float, float]]) -> str:
    """Notes for a reader of the file: what Rookery computes outside of the model."""
    lines = [
        "A scene of Rookery. Aerodynamics, rotor lag and the onboard controllers of drones are not part of the model."
    ]
    for name, moments in inertia.items():
        body = model.body(name)
        if tuple(body.inertia) != moments:
            lines.append(
                f"{name}: the published principal moments {moments} kg m^2 belong to no rigid body, and MuJoCo's compiler "
                f"refuses them: here they are {tuple(map(float, body.inertia))}."
            )
    return "\n".join(lines)


def _name_assets(spec: mujoco.MjSpec) -> dict[str, bytes]:
    """Give the spec's files names of their own below ASSETS; their contents by that name."""
    named = (
        [(m, "file") for m in spec.meshes] + [(t, "file") for t in spec.textures] + [(h, "file") for h in spec.hfields]
    )
    contents: dict[str, bytes] = {}
    for element, attribute in named:
        given = getattr(element, attribute)
        if not given:
            continue
        if given not in spec.assets:
            raise RookeryError(
                f"the scene's {element.name!r} is read from the file {given!r}, which its part does not hold: load the robot "
                "with rookery.robots.load, or put the file's bytes into MjSpec.assets."
            )
        data = spec.assets[given]
        name = f"{ASSETS}/{given.replace('/', '_')}"
        contents[name] = data if isinstance(data, bytes) else data.encode()
        setattr(element, attribute, name)
    return contents


@contextmanager
def _exact() -> Iterator[None]:
    """MuJoCo writes numbers with six digits and offers no other way: the C library's own setting is changed for the while."""
    (path,) = Path(mujoco.__file__).parent.glob("libmujoco*")
    library = ctypes.CDLL(str(path))
    before = library._mjPRIVATE__get_xml_precision()
    library._mjPRIVATE__set_xml_precision(DIGITS)
    try:
        yield
    finally:
        library._mjPRIVATE__set_xml_precision(before)
