"""Scene: robots and props composed into one MuJoCo model with readable names (`drone_0/base`, `ball/base`).

A part is a function that makes a fresh `mujoco.MjSpec`, because attaching consumes a spec. Parts attach at a place in the
world or to a site of an earlier part ("an arm on a dog's back").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import mujoco

from rookery.assets.geometry import without_looks
from rookery.sim import saving
from rookery.sim.engines.contact_counts import Count, Pair, add_counters
from rookery.sim.engines.contact_sensors import add_sensors
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.mujoco_warnings import take_warnings
from rookery.sim.rendering.looks import dress

SpecFactory = Callable[[], mujoco.MjSpec]
Extension = TypeVar("Extension")


@dataclass(frozen=True)
class Placement:
    """One attached part: its prefix, where it stands, and how to make it."""

    name: str
    make: SpecFactory
    pos: tuple[float, float, float]
    quat: tuple[float, float, float, float]
    site: str | None


class Scene:
    """Parts and the options of the physics.

    Args:
        base: makes the spec that everything is attached to: ground, sky, lights. None is an empty, dark world.
        dt: physics step in s.
        integrator: "euler", "implicitfast", "implicit", "rk4" or "discrete" (MuJoCo's names).
    """

    def __init__(self, base: SpecFactory | None = None, *, dt: float = 0.002, integrator: str = "implicitfast") -> None:
        if dt <= 0:
            raise RookeryError(f"the physics step must be positive, got {dt} s.")
        self.base = base
        self.dt = float(dt)
        self.integrator = integrator
        self.placements: list[Placement] = []
        self.inertia: dict[str, tuple[float, float, float]] = {}
        """Principal moments (kg m^2) written after compiling, by body name: some published airframes break the triangle
        inequality, which MuJoCo's compiler insists on although a free body flies well without it."""
        self._extensions: dict[type[Any], Any] = {}
        self.contact_pairs: list[tuple[str, str]] = []
        """Pairs of geoms whose contacts are measured."""
        self.contact_counts: dict[str, Count] = {}
        """What contacts are counted, by name."""

    def add(
        self,
        part: SpecFactory,
        name: str,
        *,
        count: int = 1,
        pos: Sequence[float] = (0.0, 0.0, 0.0),
        quat: Sequence[float] = (1.0, 0.0, 0.0, 0.0),
        spacing: float = 1.0,
        site: str | None = None,
    ) -> Scene:
        """Attach a part; returns the scene, so calls chain.

        Args:
            part: makes a fresh MjSpec at each call.
            name: prefix of all its names, ``name/``; with `count` > 1 the prefixes are ``name_0/``, ``name_1/``, ...
            count: how many copies, `spacing` m apart along x.
            pos: m, world (or in the frame of `site`).
            quat: wxyz, likewise.
            site: full name of a site of an earlier part to attach to, such as ``go2/arm_mount``; None: the world.

        Raises:
            RookeryError: the name is taken, or `count` is not positive.
        """
        if count < 1:
            raise RookeryError(f"a scene needs at least one {name!r}, got count={count}.")
        for i in range(count):
            full = name if count == 1 else f"{name}_{i}"
            if any(p.name == full for p in self.placements):
                raise RookeryError(f"the scene already has a part {full!r}: give this one another name.")
            x, y, z = (float(v) for v in pos)
            w, a, b, c = (float(v) for v in quat)
            self.placements.append(Placement(full, part, (x + i * spacing, y, z), (w, a, b, c), site))
        return self

    def add_contact_sensor(self, geom: str, others: Sequence[str]) -> Scene:
        """Measure contacts of a geom with others, for `World.contact_sensor`; returns the scene.

        Args:
            geom, others: full names, such as ``ball/ball`` and ``["ground", "drone_0/racket"]``. Names that the scene does
                not have are an error when it is compiled.
        """
        for other in others:
            if (geom, other) not in self.contact_pairs and (other, geom) not in self.contact_pairs:
                self.contact_pairs.append((geom, other))
        return self

    def count_contacts(self, name: str, pairs: Sequence[Pair], but: Sequence[Pair] = ()) -> Scene:
        """Count contact points between parts, for `World.contact_count`; returns the scene.

        Args:
            name: of the count.
            pairs: of parts, such as ``("body:go2/base", "world")``: contacts of a robot with the floor. A part is "world" (the
                world's own geoms), "geom:NAME", "body:NAME" (that body and all that hangs on it), or likewise the body of
                "joint:NAME" or "site:NAME". The same body twice stands for contacts of its links with each other.
            but: pairs whose contacts are left out, each of them among `pairs`: ``("geom:go2/FL_foot", "world")``. Names that
                the scene does not have are an error when it is compiled.
        """
        self.contact_counts[name] = Count(tuple(pairs), tuple(but))
        return self

    def extension(self, kind: type[Extension]) -> Extension:
        """Data that an MjSpec cannot hold and that some engines read, one object of each type.

        Args:
            kind: its type, such as rookery.sim.multirotor.aeronautics.Aeronautics; ``kind()`` makes it at the first call.
        """
        if kind not in self._extensions:
            self._extensions[kind] = kind()
        found: Extension = self._extensions[kind]
        return found

    def spec(self) -> mujoco.MjSpec:
        """A fresh MjSpec of the whole scene."""
        root = self.base() if self.base is not None else mujoco.MjSpec()
        for p in self.placements:
            child = p.make()
            if p.site is None:
                frame = root.worldbody.add_frame(pos=p.pos, quat=p.quat)
                root.attach(child, frame=frame, prefix=p.name + "/")
            else:
                site = root.site(p.site)
                if site is None:
                    raise unknown("site", p.site, [s.name for s in root.sites])
                _shift(child, p.pos, p.quat)
                root.attach(child, site=site, prefix=p.name + "/")
        add_sensors(root, self.contact_pairs)
        add_counters(root, self.contact_counts)
        root.option.timestep = self.dt
        root.option.integrator = _integrator(self.integrator)
        return root

    def save(self, path: str | Path, start: mujoco.MjData | None = None) -> list[Path]:
        """Write the scene, with its looks, as one MJCF that plain MuJoCo opens: ``mujoco.MjModel.from_xml_path(path)``.

        Masses, geoms, joints and actuators are the same to the last bit. Generated meshes stand in the file itself; those that
        a robot brought as files stand in the folder `assets` beside it. A comment at its top says what the file cannot hold:
        what engines compute outside of the model (air, rotors, onboard controllers), and entries of `inertia`.

        Args:
            path: of the MJCF, ending in .xml; folders are made, and files of that name replaced.
            start: a state to write as keyframe `start`, such as ``env.world.mj_data(0)``.

        Returns:
            The files written, the MJCF first.

        Raises:
            RookeryError: another ending, a part that reads a file which it does not hold, or a folder that cannot be written.
        """
        return saving.save(self.spec(), Path(path), start, self.inertia)

    def compile(self, visual: bool = False) -> mujoco.MjModel:
        """The compiled model.

        Args:
            visual: keep geoms that only look (contype = conaffinity = 0), their meshes, and the sky, and give the materials
                the textures of videos. Physics runs without them, since each costs time at every step; the layout of the
                state is the same either way. A geom that gives its body mass, or that a pair, sensor or tendon names, is no
                mere look.

        Raises:
            RookeryError: MuJoCo cannot put the parts together or compile them.
        """
        take_warnings()
        try:
            with nullcontext() if visual else without_looks():  # most are not even made
                spec = self.spec()
        except ValueError as e:
            raise RookeryError(f"MuJoCo refuses the scene: {e}") from e
        if not visual:
            for geom in _only_looks(spec):
                spec.delete(geom)
            used = {g.meshname for g in spec.geoms}
            for mesh in [m for m in spec.meshes if m.name not in used]:
                spec.delete(mesh)
            for sky in [t for t in spec.textures if t.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX]:
                spec.delete(sky)  # the others give cameras their colors
        else:
            _flatten_unseen(spec)
            dress(spec)
        try:
            model = spec.compile()
        except ValueError as e:
            raise RookeryError(f"MuJoCo refuses the scene: {e}") from e
        for name, moments in self.inertia.items():
            model.body(name).inertia[:] = moments
        if self.inertia:
            mujoco.mj_setConst(model, mujoco.MjData(model))
        return model


def _shift(part: mujoco.MjSpec, pos: Sequence[float], quat: Sequence[float]) -> None:
    """Move all that stands in a part's world, before it goes to a site: MuJoCo lays its world's frame on the site's."""
    world = part.worldbody
    own = [
        x for kind in (world.bodies, world.geoms, world.sites, world.frames, world.lights, world.cameras) for x in kind
    ]
    frame = world.add_frame(pos=list(pos), quat=list(quat))
    for element in own:
        if element.frame is None:
            element.set_frame(frame)


def _flatten_unseen(spec: mujoco.MjSpec) -> None:
    """Height fields of which no geom is drawn: to give millions of triangles to OpenGL would take it ten seconds."""
    for field in spec.hfields:
        if all(g.group > 2 for g in spec.geoms if g.hfieldname == field.name):
            field.nrow = field.ncol = 2
            field.userdata = [0.0] * 4


def _only_looks(spec: mujoco.MjSpec) -> list[mujoco.MjsGeom]:
    """Geoms that collide with nothing, weigh nothing and are named by nothing else."""
    named = {n for p in spec.pairs for n in (p.geomname1, p.geomname2)}
    named |= {n for s in spec.sensors for n in (s.objname, s.refname)}
    named |= {w.target.name for t in spec.tendons for w in t.path if isinstance(w.target, mujoco.MjsGeom)}
    named.discard("")
    return [
        g for g in spec.geoms
        if g.contype == 0 and g.conaffinity == 0 and g.name not in named
        and (g.parent.explicitinertial or g.parent.name == "world" or g.mass == 0 or g.density == 0)
    ]  # fmt: skip


def _integrator(name: str) -> int:
    table = {
        "euler": mujoco.mjtIntegrator.mjINT_EULER,
        "rk4": mujoco.mjtIntegrator.mjINT_RK4,
        "implicit": mujoco.mjtIntegrator.mjINT_IMPLICIT,
        "implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
        "discrete": mujoco.mjtIntegrator.mjINT_DISCRETE,
    }
    if name not in table:
        raise unknown("integrator", name, table)
    return int(table[name])
