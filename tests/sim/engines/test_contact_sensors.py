"""Contacts of a whole control step: impulses against momentum, times against ballistics, on every engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import mujoco
import pytest
import torch

from rookery.assets.scenery import ball, box, ground
from rookery.sim.engines import make_world
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene
from rookery.sim.world import World

G = 9.81
MASS = 0.1
RADIUS = 0.05
Make = Callable[..., World]


@pytest.fixture(params=["mujoco", "pybullet", "rotor"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    worlds: list[World] = []

    def build(scene: Scene, n: int = 1) -> World:
        worlds.append(make_world(request.param, scene, n))
        return worlds[-1]

    yield build
    for w in worlds:
        w.close()


def bouncing(height: float = 0.2, dt: float = 0.001, *, contact_time: float = 0.01) -> Scene:
    """A ball of restitution 0.8 whose lowest point is `height` above the ground."""
    scene = Scene(lambda: ground(visual=False), dt=dt)
    scene.add(
        lambda: ball(RADIUS, MASS, restitution=0.8, contact_time=contact_time), "ball", pos=(0, 0, RADIUS + height)
    )
    return scene.add_contact_sensor("ball/ball", ["ground"])


def test_a_bounce_in_one_control_step(make: Make):
    """The bounce lies inside the step: nothing touches at its end, and yet the impulse is the change of momentum."""
    w = make(bouncing(), 2)
    state = w.bodies(["ball/base"])
    touch = w.contact_sensor("ball/ball", ["ground"])
    start = state.state.clone()
    start[1, 0, 2] += 1.0  # the second ball does not come down
    state.set_state(None, start)
    w.step(280)
    fall = math.sqrt(2 * 0.2 / G)
    assert state.pos[0, 0, 2] > RADIUS + 0.05
    gained = MASS * (float(state.lin_vel[0, 0, 2]) + G * 0.28)
    assert float(touch.impulse[0, 0]) == pytest.approx(gained, rel=0.02)
    assert float(touch.when[0, 0]) == pytest.approx(fall, abs=1.1 * w.dt)
    assert touch.impulse.shape == touch.when.shape == (2, 1)
    assert touch.impulse[1, 0] == 0.0 and touch.when[1, 0] == math.inf
    w.step(20)  # in the air
    assert touch.impulse[0, 0] == 0.0 and touch.when[0, 0] == math.inf


def test_the_impulses_of_short_steps_add_up(make: Make):
    w = make(bouncing())
    state = w.bodies(["ball/base"])
    touch = w.contact_sensor("ball/ball", ["ground"])
    total = 0.0
    first = math.inf
    for i in range(56):
        w.step(5)
        total += float(touch.impulse[0, 0])
        first = min(first, 0.005 * i + float(touch.when[0, 0]))
    assert total == pytest.approx(MASS * (float(state.lin_vel[0, 0, 2]) + G * 0.28), rel=0.02)
    assert first == pytest.approx(math.sqrt(2 * 0.2 / G), abs=1.1 * w.dt)


def test_a_ball_at_rest_presses_its_weight(make: Make):
    w = make(bouncing(0.0))
    touch = w.contact_sensor("ball/ball", ["ground"])
    w.step(1500)
    w.step(100)
    assert float(touch.impulse[0, 0]) == pytest.approx(MASS * G * 0.1, rel=0.02)
    assert touch.when[0, 0] <= 1.1 * w.dt


def walls(dt: float = 0.001) -> Scene:
    """No gravity in the plane that matters: a ball flies along x between two fixed walls, 1 m from each other."""
    spec = mujoco.MjSpec()
    for name, x in (("left", -0.55), ("right", 0.55)):
        spec.worldbody.add_geom(
            name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.05, 2, 2], pos=[x, 0, 0], friction=[0, 0, 0]
        )
    spec.option.gravity = [0, 0, 0]
    scene = Scene(lambda: spec.copy(), dt=dt)
    scene.add(lambda: ball(RADIUS, MASS, restitution=0.8, contact_time=0.01, friction=(0, 0, 0)), "ball")
    return scene.add_contact_sensor("ball/ball", ["right", "left"])


def test_each_body_gets_its_own_contacts(make: Make):
    """From the middle to the right wall, then to the left one: twice within one control step."""
    w = make(walls())
    state = w.bodies(["ball/base"])
    touch = w.contact_sensor("ball/ball", ["right", "left"])
    flying = torch.zeros(1, 1, 13)
    flying[..., 3] = 1.0
    flying[..., 7] = 5.0
    state.set_state(None, flying)
    w.step(150)  # 90 ms to the right wall, back at 4 m/s
    speed = -float(state.lin_vel[0, 0, 0])
    assert speed == pytest.approx(4.0, abs=0.3)
    assert touch.impulse[0].tolist() == pytest.approx([MASS * (5.0 + speed), 0.0], rel=0.03)
    assert touch.when[0].tolist() == pytest.approx([0.09, math.inf], abs=1.1 * w.dt)
    state.set_state(None, flying)
    w.step(400)
    again = float(state.lin_vel[0, 0, 0])
    assert 0.0 < again < speed
    assert touch.impulse[0].tolist() == pytest.approx([MASS * (5.0 + speed), MASS * (speed + again)], rel=0.03)
    assert 0.09 + 0.9 / 4.3 < touch.when[0, 1] < 0.09 + 0.9 / 3.5 + 0.011


def test_other_contacts_count_for_nothing(make: Make):
    """A bounce off the ground, of which there is no sensor."""
    spec = mujoco.MjSpec()
    for name, size, pos in (
        ("left", [0.05, 2, 2], [-2.0, 0, 0]), ("right", [0.05, 2, 2], [2.0, 0, 0]), ("floor", [1, 1, 0.1], [0, 0, -0.35]),
    ):  # fmt: skip
        spec.worldbody.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=size, pos=pos)
    scene = Scene(lambda: spec.copy(), dt=0.001)
    scene.add(lambda: ball(RADIUS, MASS, restitution=0.8, contact_time=0.01), "ball")
    scene.add_contact_sensor("ball/ball", ["right", "left"])
    w = make(scene)
    touch = w.contact_sensor("ball/ball", ["right", "left"])
    w.step(280)
    assert w.bodies(["ball/base"]).lin_vel[0, 0, 2] > 0.0, "it has bounced"
    assert touch.impulse.tolist() == [[0.0, 0.0]] and touch.when.tolist() == [[math.inf, math.inf]]


def test_a_view_takes_its_pairs_in_any_order(make: Make):
    w = make(walls())
    state = w.bodies(["ball/base"])
    both, turned, one = (
        w.contact_sensor(g, o)
        for g, o in (("ball/ball", ["left", "right"]), ("right", ["ball/ball"]), ("ball/ball", ["left"]))
    )
    assert both.names == ("left", "right") and both.geom == "ball/ball"
    flying = torch.zeros(1, 1, 13)
    flying[..., 3] = 1.0
    flying[..., 7] = 5.0
    state.set_state(None, flying)
    w.step(150)
    assert both.impulse[0, 1] > 0 and both.impulse[0, 0] == 0
    assert torch.equal(turned.impulse[:, 0], both.impulse[:, 1]) and torch.equal(turned.when[:, 0], both.when[:, 1])
    assert one.impulse[0, 0] == 0.0


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_a_box_lands_on_many_points(engine: str):
    """Four corners: their forces are added up."""
    scene = Scene(lambda: ground(visual=False), dt=0.002)
    scene.add(lambda: box((0.2, 0.2, 0.1), 1.5), "box", pos=(0, 0, 0.06)).add_contact_sensor("box/box", ["ground"])
    w = make_world(engine, scene, 1)
    touch = w.contact_sensor("box/box", ["ground"])
    w.step(500)
    w.step(100)
    assert float(touch.impulse[0, 0]) == pytest.approx(1.5 * G * 0.2, rel=0.02)
    w.close()


def pushed(mode: str, derived: bool) -> tuple[list[float], list[float]]:
    """A motor pushes a slide against a wall; impulses and times of 6 control steps of 10 physics steps."""
    xml = """<mujoco><option gravity="0 0 0"/><worldbody><geom name="wall" type="box" size=".1 1 1" pos="0.35 0 0"/>
      <body name="cart"><joint name="slide" type="slide" axis="1 0 0"/><geom name="cart" size=".2" mass="2"/></body>
      </worldbody><actuator><motor name="push" joint="slide"/></actuator>
      <sensor><jointpos name="at" joint="slide"/></sensor></mujoco>"""
    w = make_world(
        "mujoco", Scene(lambda: mujoco.MjSpec.from_string(xml), dt=0.004).add_contact_sensor("cart", ["wall"]), 2
    )
    touch = w.contact_sensor("cart", ["wall"])
    u = w.actuators(["push"])
    if derived:
        w.sensors("at")
    pushes = torch.rand(6, 2, 10, 1, generator=torch.Generator().manual_seed(3)) * 30.0
    out: tuple[list[float], list[float]] = ([], [])
    for rows in pushes:
        if mode == "rows":
            u.set_control(rows)
        elif mode == "held":
            u.set_control(rows[:, 0])
        else:
            source = rows[:, :1].expand(2, 10, 1) if mode == "inner, held" else rows
            w.inner_loops = (lambda i, source=source: u.set_control(source[:, i]),)
        w.step(10)
        out[0].extend(touch.impulse.flatten().tolist())
        out[1].extend(touch.when.flatten().tolist())
    return out


@pytest.mark.parametrize(("mode", "inner"), [("rows", "inner"), ("held", "inner, held")])
def test_every_way_of_stepping_mujoco_sees_the_same(mode: str, inner: str):
    impulses, times = pushed(mode, False)
    assert sum(v > 0 for v in impulses) >= 4 and min(impulses) == 0.0
    for way, derived in ((mode, True), (inner, False), (inner, True)):
        again = pushed(way, derived)
        assert again[0] == pytest.approx(impulses, rel=1e-6)  # summed in float32
        assert again[1] == times


def test_watching_changes_no_state():
    plain = make_world("mujoco", bouncing(), 1)
    seen = make_world("mujoco", bouncing(), 1)
    seen.contact_sensor("ball/ball", ["ground"])
    plain.step(280)
    seen.step(280)
    assert torch.equal(plain.snapshot()["state"], seen.snapshot()["state"])


def test_a_world_that_failed_has_no_contacts(make: Make):
    w = make(bouncing(0.0), 2)
    state = w.bodies(["ball/base"])
    touch = w.contact_sensor("ball/ball", ["ground"])
    w.step(10)
    assert (touch.impulse > 0).all()
    bad = state.state.clone()
    bad[1, 0, 7] = math.nan
    state.set_state(None, bad)
    w.step(10)
    assert w.failed.tolist() == [1]
    assert touch.impulse[0, 0] > 0 and touch.impulse[1, 0] == 0.0 and touch.when[1, 0] == math.inf


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_pairs_need_a_contact_sensor(engine: str):
    w = make_world(engine, walls(), 1)
    with pytest.raises(RookeryError, match=r"scene.add_contact_sensor\('left', \['right'\]\)"):
        w.contact_sensor("left", ["right"])
    with pytest.raises(RookeryError, match="at least one"):
        w.contact_sensor("ball/ball", [])
    w.close()


def test_what_cannot_have_a_contact_sensor():
    with pytest.raises(RookeryError, match="ball/ball"):
        bouncing().add_contact_sensor("ball/bal", ["ground"]).compile()
    scene = Scene(
        lambda: mujoco.MjSpec.from_string(
            """<mujoco><worldbody><geom name="a" size="1"/>
            <geom name="look" size="1" contype="0" conaffinity="0"/></worldbody></mujoco>"""
        )
    )
    with pytest.raises(RookeryError, match="'look' collides with nothing"):
        scene.add_contact_sensor("a", ["look"]).compile()
    assert walls().add_contact_sensor("left", ["ball/ball"]).compile().nsensor == 2  # the same pair again


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_geoms_of_one_body_are_told_apart(engine: str):
    xml = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/><body><freejoint/>
      <geom name="low" size=".1" mass="1" pos="0 0 .1"/>
      <geom name="high" size=".1" mass="1" pos="0 0 1"/></body></worldbody></mujoco>"""
    scene = Scene(lambda: mujoco.MjSpec.from_string(xml)).add_contact_sensor("floor", ["low", "high"])
    w = make_world(engine, scene, 1)
    touch = w.contact_sensor("floor", ["high", "low"])
    w.step(50)
    assert touch.impulse[0, 0] == 0.0
    assert float(touch.impulse[0, 1]) == pytest.approx(2.0 * G * 0.1, rel=0.1)
    w.close()
