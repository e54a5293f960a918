"""Contacts of balls: restitution by speed at every phase of a physics step, how deep they sink in, spin and rolling.

Called by `python benchmarks/contacts.py --balls`. Both balls of the volleyball tasks, thrown at level ground and at the racket
of a free drone, at their step of 5 ms; each of PHASES worlds meets it at another moment of the step. Restitution is the
relative speed along the normal after over before, gravity's share taken out. Depth is the deepest overlap at the end of a
physics step. An oblique hit with friction enough to stick keeps 5/7 of the speed along the ground and leaves the ball rolling;
a ball that slides at first rolls at 5/7 of its speed in the end.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import commit, machine
from numpy.typing import NDArray

from rookery.assets.scenery import ball, ground
from rookery.robots.drones.iris import IRIS
from rookery.robots.drones.model import add_drone
from rookery.sim.engines import make_world
from rookery.sim.scene import Scene
from rookery.sim.world import World
from rookery.tasks.volleyball.ball import BALLS

Floats = NDArray[np.float64]
ENGINES = ("rotor", "mujoco", "pybullet")
SPEEDS = (2.0, 4.0, 6.0, 8.0, 10.0)  # m/s
PHASES = 32
DT = 0.005  # s
LATE = 0.02 + DT * (np.arange(PHASES) + 0.5) / PHASES  # s, after which each world's ball arrives
STEPS = 16
G = 9.81
RACKET_M = 0.2
HIGH = 20.0  # m, of the drone
RESULTS = Path(__file__).parent / "results"
AT = {speed: f"at_{speed:g}" for speed in SPEEDS}
COLUMNS = [
    {"key": "engine", "title": "engine"}, {"key": "ball", "title": "ball"}, {"key": "what", "title": "hits"},
    *({"key": key, "title": f"{speed:g} m/s"} for speed, key in AT.items()),
    {"key": "depth_mm", "title": "depth, mm", "format": ".1f"},
]  # fmt: skip
METRICS = {
    "at_2": f"least and greatest restitution over {PHASES} phases of a step, 0.8 being stated; of oblique hits (at 6 m/s) "
    "and of rolling the share of the speed and spin that should be left",
    "depth_mm": "deepest overlap at the end of a physics step, over all speeds",
}


def by_speed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each engine, ball and thing hit, with a range for each speed, and the greatest depth."""
    out: dict[tuple[str, ...], dict[str, Any]] = {}
    for r in rows:
        key = r["engine"], r["ball"], r["what"]
        new = {"engine": key[0], "ball": key[1], "what": key[2], "depth_mm": None, **dict.fromkeys(AT.values())}
        merged = out.setdefault(key, new)
        merged[AT.get(r["speed_m_s"], AT[2.0])] = f"{r['least']:.3f} to {r['greatest']:.3f}"
        if r["depth_mm"] is not None:
            merged["depth_mm"] = max(r["depth_mm"], merged["depth_mm"] or 0.0)
    return list(out.values())


def write() -> None:
    """Write benchmarks/results/contact-balls.json."""
    start = time.perf_counter()
    rows = []
    for row in balls():
        rows.append(row)
        print(row, flush=True)
    result = {
        "name": "contact-balls",
        "command": "python benchmarks/contacts.py --balls",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(time.perf_counter() - start, 1),
        "metrics": METRICS,
        "columns": COLUMNS,
        "rows": by_speed(rows),
    }
    (RESULTS / "contact-balls.json").write_text(json.dumps(result, indent=1) + "\n")


def balls(engines: tuple[str, ...] = ENGINES) -> Iterator[dict[str, Any]]:
    """One row a measurement: engine, ball, what it hits, speed (m/s), restitution as stated, least and greatest, depth (mm).
    Of spin and rolling the least and greatest share of what they should be."""
    for engine in engines:
        for kind in BALLS:
            for what in ("ground", "racket"):
                yield from (bounce(engine, kind, what, speed) for speed in SPEEDS)
            yield oblique(engine, kind)
            yield rolling(engine, kind)


def build(engine: str, kind: str, friction: float, racket: bool = False) -> tuple[World, float]:
    """The world, and the height (m) of what the ball hits."""
    b = BALLS[kind]
    scene = Scene(ground, dt=DT, integrator="euler")
    if racket:
        add_drone(scene, "drone", IRIS, (0.0, 0.0, HIGH), RACKET_M)
    scene.add(lambda: ball(b.radius, b.mass, restitution=b.restitution, friction=(friction, 0.0, 0.0)), "ball",
              pos=(0.0, 0.0, HIGH + 5.0))  # fmt: skip
    world = make_world(engine, scene, PHASES)
    if not racket:
        return world, 0.0
    geom = world.model.geom("drone/racket")  # type: ignore[attr-defined]
    return world, HIGH + float(geom.pos[2] + geom.size[1])


def throw(world: World, high: float, radius: float, speed: float, along: float = 0.0, gravity: float = G) -> None:
    """Let each world's ball arrive at a height after its time LATE, with these speeds (m/s) downwards and along x."""
    state = torch.zeros(PHASES, 1, 13, dtype=torch.float64)
    state[:, 0, 0] = torch.tensor(-along * LATE)
    state[:, 0, 2] = torch.tensor(high + radius + speed * LATE - 0.5 * gravity * LATE**2)
    state[:, 0, 3] = 1.0
    state[:, 0, 7] = along
    state[:, 0, 9] = torch.tensor(-speed + gravity * LATE)
    world.bodies(["ball/base"]).set_state(None, state)


def bounce(engine: str, kind: str, what: str, speed: float) -> dict[str, Any]:
    """A head-on hit. The drone is free and nothing pulls at it; the ball meets it in its middle."""
    b = BALLS[kind]
    world, high = build(engine, kind, 0.0, what == "racket")
    gravity = G if what == "ground" else 0.0
    world.params.set("gravity", [], torch.tensor([0.0, 0.0, -gravity]).repeat(PHASES, 1))
    throw(world, high, b.radius, speed, gravity=gravity)
    view = world.bodies(["ball/base"] if what == "ground" else ["ball/base", "drone/base"])
    depth = 0.0
    for _ in range(STEPS):
        world.step(1)
        x = view.state.double().numpy()
        top = high if what == "ground" else high + x[:, 1, 2] - HIGH
        depth = max(depth, float((top + b.radius - x[:, 0, 2]).max()))
    if what == "ground":
        after = np.sqrt(np.maximum(x[:, 0, 9] ** 2 + 2 * G * (x[:, 0, 2] - b.radius), 0.0))
    else:
        after = x[:, 0, 9] - x[:, 1, 9]
    e = after / speed
    return row(engine, kind, what, speed, b.restitution, e, depth)


def oblique(engine: str, kind: str) -> dict[str, Any]:
    """At 6 m/s downwards and 3 m/s along the ground."""
    b = BALLS[kind]
    world, _ = build(engine, kind, 2.0)
    throw(world, 0.0, b.radius, 6.0, along=3.0)
    world.step(STEPS)
    x = world.bodies(["ball/base"]).state.double().numpy()[:, 0]
    share = np.concatenate((x[:, 7], turning(x) * b.radius)) / (3.0 * 5 / 7)
    return row(engine, kind, "ground, oblique: speed and spin", 6.0, 1.0, share, None)


def rolling(engine: str, kind: str) -> dict[str, Any]:
    """On the ground, sliding at first."""
    b = BALLS[kind]
    world, _ = build(engine, kind, 0.4)
    state = torch.zeros(PHASES, 1, 13)
    state[..., 2], state[..., 3], state[..., 7] = b.radius, 1.0, 1.0
    world.bodies(["ball/base"]).set_state(None, state)
    world.step(400)
    x = world.bodies(["ball/base"]).state.double().numpy()[:, 0]
    share = np.concatenate((x[:, 7], turning(x) * b.radius)) / (5 / 7)
    return row(engine, kind, "ground, rolling: speed and spin", 1.0, 1.0, share, float(b.radius - x[:, 2].min()))


def turning(x: Floats) -> Floats:
    """[N] rad/s about world y, from states [N, 13]."""
    w, i, j, k = x[:, 3:7].T
    y = 2 * (i * j + w * k), 1 - 2 * (i * i + k * k), 2 * (j * k - w * i)  # world y in body axes
    return np.asarray(sum(a * x[:, 10 + n] for n, a in enumerate(y)))


def row(
    engine: str, kind: str, what: str, speed: float, stated: float, found: Floats, depth: float | None
) -> dict[str, Any]:
    return {
        "engine": engine, "ball": kind, "what": what, "speed_m_s": speed, "stated": stated,
        "least": round(float(found.min()), 4), "greatest": round(float(found.max()), 4),
        "depth_mm": None if depth is None else round(1e3 * max(depth, 0.0), 3),
    }  # fmt: skip
