"""What the `rotor` engine takes from a scene, and what it refuses."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from rotor_scenes import RACKET, bare_ground, scene, with_boxes

from rookery.robots.drones.crazyflie import CRAZYFLIE_21 as C
from rookery.sim.engines.rotor import build
from rookery.sim.engines.rotor.world import RotorWorld
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.layout import TYPE, type_row
from rookery.sim.scene import Scene


def read(s: Scene) -> build.Parts:
    return build.read(s, s.compile())


def test_parts_of_a_scene():
    base = with_boxes(("net", "box", (0.1, 2.0, 1.0), (0, 1, 3.0)))
    parts = read(
        scene(drone=RACKET, drones=((0, 0, 1), (1, 0, 2)), balls=((0, 3, 1),), base=base, friction=0.3, restitution=0.7)
    )
    assert parts.bodies == ["drone_0/base", "drone_1/base", "ball_0/base"]
    np.testing.assert_allclose(parts.mass, [C.mass, C.mass, 0.047])
    np.testing.assert_allclose(parts.inertia[1], np.diag(C.inertia))
    np.testing.assert_allclose(parts.start[:, :3], [[0, 0, 1], [1, 0, 2], [0, 3, 1]])
    np.testing.assert_allclose(parts.bounce, [0, 0, 0.7], atol=1e-6)
    assert parts.grip[2] == pytest.approx(0.3)
    assert parts.ball_radius == [0.04]
    kinds = sorted((s.body, s.kind) for s in parts.shapes)
    plane, sphere, cylinder, box = (
        int(getattr(mujoco.mjtGeom, f"mjGEOM_{k}")) for k in ("PLANE", "SPHERE", "CYLINDER", "BOX")
    )
    assert kinds == [(-1, plane), (-1, box), *[(b, cylinder) for b in (0, 0, 1, 1)], (2, sphere)]
    net = next(s for s in parts.shapes if s.kind == box)
    np.testing.assert_allclose(net.bounds, [[-0.1, -1, 2], [0.1, 3, 4]])
    racket = next(s for s in parts.shapes if s.body == 1 and s.size[0] == pytest.approx(0.2))
    assert np.hypot(0.2, 0.05) <= racket.reach < 0.35


def test_a_full_inertia_is_read_as_it_was_given():
    full = (2.4e-5, 3.1e-5, 4.3e-5, 4e-6, -3e-6, 5e-6)
    xx, yy, zz, xy, xz, yz = full
    np.testing.assert_allclose(
        read(scene(inertia=full)).inertia[0], [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], rtol=1e-6, atol=1e-12
    )


def test_bounds_of_turned_shapes_hold_them():
    g = np.random.default_rng(0)
    for kind, size in (
        ("BOX", (0.1, 0.3, 0.5)),
        ("CYLINDER", (0.2, 0.6, 0)),
        ("CAPSULE", (0.2, 0.4, 0)),
        ("SPHERE", (0.3, 0, 0)),
    ):
        q = g.normal(size=4)
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, q / np.linalg.norm(q))
        s = build.Shape(
            0,
            -1,
            int(getattr(mujoco.mjtGeom, f"mjGEOM_{kind}")),
            np.array(size),
            np.array([1.0, 2, 3]),
            turn.reshape(3, 3),
            0,
        )
        points = g.uniform(-1, 1, (20000, 3))
        inside = {
            "BOX": (np.abs(points) <= size).all(axis=1),
            "CYLINDER": (np.hypot(*points[:, :2].T) <= size[0]) & (np.abs(points[:, 2]) <= size[1]),
            "CAPSULE": np.linalg.norm(points - np.clip(points, [0, 0, -size[1]], [0, 0, size[1]]), axis=1) <= size[0],
            "SPHERE": np.linalg.norm(points, axis=1) <= size[0],
        }[kind]
        world = points[inside] @ s.mat.T + s.pos
        low, high = s.bounds
        assert (world >= low).all() and (world <= high).all()
        reach = np.linalg.norm(points[inside], axis=1).max()
        assert np.linalg.norm(build._half_box(s.kind, s.size)) >= reach


def test_the_row_of_a_type_has_a_place_for_everything():
    row = type_row(C)
    assert len(row) == TYPE
    assert row[49:61] == [v for p in C.rotor_positions for v in p]
    mix = np.array(row[65:77]).reshape(4, 3)
    # rolling right (positive x) needs more thrust at the left (positive y); pitching down needs more behind
    places = np.array(C.rotor_positions)
    np.testing.assert_allclose(np.sign(mix[:, 0]), np.sign(places[:, 1]))
    np.testing.assert_allclose(np.sign(mix[:, 1]), -np.sign(places[:, 0]))
    np.testing.assert_allclose(np.sign(mix[:, 2]), C.directions)


def part(xml: str, name: str = "thing") -> Scene:
    return scene().add(lambda: mujoco.MjSpec.from_string(f"<mujoco>{xml}</mujoco>"), name)


FREE = '<body name="b" pos="5 0 5"><freejoint/>{}</body>'
BAD = {
    "joints": ('<worldbody><body name="arm"><joint name="hinge"/><geom size=".1"/></body></worldbody>',
               "free bodies only, and the scene has joint 'thing/hinge': use engine 'mujoco'"),
    "free box": ("<worldbody>" + FREE.format('<geom type="box" size=".1 .1 .1"/>') + "</worldbody>",
                 "'thing/b' is none of them: use engine 'mujoco'"),
    "centre of mass": ("<worldbody>" + FREE.format('<geom size=".1" pos="0 0 .2"/>') + "</worldbody>",
                       "centre of mass at the origin"),
    "attached body": ("<worldbody>" + FREE.format('<geom size=".1"/><body name="c"><geom size=".1"/></body>') + "</worldbody>",
                      "'thing/c' is attached to one"),
    "ellipsoid": ('<worldbody><geom name="egg" type="ellipsoid" size=".1 .2 .3"/></worldbody>', "'thing/egg' is none of them"),
    "mesh": ('<asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset><worldbody><geom name="m" type="mesh" mesh="m"/>'
             "</worldbody>", "'thing/m' is none of them"),
    "equality": ("<worldbody>" + FREE.format('<geom size=".1"/>') + '</worldbody><equality><weld body1="b"/></equality>',
                 "does not simulate equality constraints"),
    "tendon": ("<worldbody>" + FREE.format('<geom size=".1"/><site name="s"/>') + '<site name="t"/></worldbody>'
               '<tendon><spatial><site site="s"/><site site="t"/></spatial></tendon>', "does not simulate tendons"),
    "pair": ("<worldbody>" + FREE.format('<geom name="g" size=".1"/>') + '<geom name="h" size=".1"/></worldbody><contact>'
             '<pair geom1="g" geom2="h"/></contact>', "does not simulate contact pairs"),
    "actuator": ("<worldbody>" + FREE.format('<geom size=".1"/><site name="s"/>') + '</worldbody><actuator><motor name="jet" '
                 'site="s" gear="0 0 1 0 0 0"/></actuator>', "actuator 'thing/jet' is none"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_it_does_not_simulate_is_refused_with_the_engine_that_does(case):
    xml, message = BAD[case]
    with pytest.raises(RookeryError, match=message):
        RotorWorld(part(xml), 1, 1)


def test_drones_that_begin_in_collision_are_refused():
    with pytest.raises(RookeryError, match="'drone_0/base' and 'drone_1/base' begin in collision"):
        RotorWorld(scene(drones=((0, 0, 1), (0.05, 0, 1))), 1, 1)
    RotorWorld(scene(drones=((0, 0, 1), (2.001 * C.body_radius, 0, 1)), base=bare_ground), 1, 1)
