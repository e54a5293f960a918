"""Bounces of balls on `mujoco`: restitution, spin and place at any moment of a physics step, and what views say of them."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch

from rookery.assets.court import court
from rookery.assets.drones import quadrotor_spec
from rookery.assets.scenery import ball, box, ground
from rookery.robots.drones.iris import IRIS
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.scene import Scene

PHASES = 32
R, KG = 0.1, 0.005
G = 9.81


def scene(
    e: float = 0.8, mu: float = 0.0, dt: float = 0.005, base=ground, radius: float = R, mass: float = KG
) -> Scene:
    s = Scene(base, dt=dt, integrator="euler")
    s.add(lambda: ball(radius, mass, restitution=e, friction=(mu, 0.0, 0.0)), "ball", pos=(0, 0, 5))
    return s


def states(pos, vel, n: int = PHASES, rate=(0.0, 0.0, 0.0)) -> torch.Tensor:
    """[n, 1, 13] of a ball that flies freely to `pos` with velocity `vel` there, and arrives at n phases of a step of 5 ms."""
    late = 0.02 + 0.005 * (np.arange(n) + 0.5) / n
    out = np.zeros((n, 1, 13))
    v = np.array(vel) + np.outer(late, [0, 0, G])
    out[:, 0, :3] = np.array(pos) - late[:, None] * v + 0.5 * np.outer(late**2, [0, 0, G])
    out[:, 0, 3] = 1.0
    out[:, 0, 7:10] = v
    out[:, 0, 10:13] = rate
    return torch.tensor(out)


def bodies(world: MujocoWorld, name: str = "ball/base") -> np.ndarray:
    """[N, 13] in float64."""
    joint = world.model.body_jntadr[world.model.body(name).id]
    q, v = world.model.jnt_qposadr[joint], world.model.jnt_dofadr[joint]
    return np.concatenate((world.batch.bind("qpos")[:, q : q + 7], world.batch.bind("qvel")[:, v : v + 6]), axis=1)


@pytest.mark.parametrize("speed", [2.0, 4.0, 8.0, 10.0])
@pytest.mark.parametrize("e", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("radius", [0.04, 0.1])
def test_restitution_at_every_phase_of_the_step(speed, e, radius):
    world = MujocoWorld(scene(e, radius=radius), PHASES)
    start = states((0, 0, radius), (0, 0, -speed))
    world.bodies(["ball/base"]).set_state(None, start)
    lowest = np.inf
    for _ in range(16):
        world.step(1)
        lowest = min(lowest, bodies(world)[:, 2].min())
    x = bodies(world)
    after = np.sqrt(x[:, 9] ** 2 + 2 * G * (x[:, 2] - radius))  # at the ground, from the energy
    np.testing.assert_allclose(after / speed, e, atol=2e-3)
    assert lowest > radius - 1e-6
    # where it is after the bounce: the time in flight since the impact is known too
    since = 16 * 0.005 - (0.02 + 0.005 * (np.arange(PHASES) + 0.5) / PHASES)
    np.testing.assert_allclose(x[:, 2], radius + e * speed * since - 0.5 * G * since**2, atol=2e-3)


@pytest.mark.parametrize("k", [1, 4])
def test_contact_views_tell_impulse_and_time_of_the_impact(k):
    s = scene().add_contact_sensor("ball/ball", ["ground"])
    world = MujocoWorld(s, PHASES)
    touch = world.contact_sensor("ball/ball", ["ground"])
    world.bodies(["ball/base"]).set_state(None, states((0, 0, R), (0, 0, -6.0)))
    wanted = 0.02 + 0.005 * (np.arange(PHASES) + 0.5) / PHASES
    seen = np.full(PHASES, np.inf)
    total = np.zeros(PHASES)
    for i in range(0, 8, k):
        world.step(k)
        seen = np.minimum(seen, touch.when[:, 0].numpy() + 0.005 * i)
        total += touch.impulse[:, 0].numpy()
    np.testing.assert_allclose(seen, wanted, atol=1e-4)
    np.testing.assert_allclose(total, KG * 6.0 * 1.8, rtol=5e-3)


def test_friction_turns_a_ball_as_an_impulse_does():
    """Oblique, with enough friction to stick: the contact point stands still after it; v_x keeps 5/7."""
    world = MujocoWorld(scene(mu=2.0), PHASES)
    world.bodies(["ball/base"]).set_state(None, states((0, 0, R), (3.0, 0, -6.0)))
    world.step(10)
    x = bodies(world)
    np.testing.assert_allclose(x[:, 7], 3.0 * 5 / 7, rtol=1e-6)
    np.testing.assert_allclose(x[:, 11], 3.0 * 5 / 7 / R, rtol=1e-6)
    slides = MujocoWorld(scene(mu=0.1), PHASES)
    slides.bodies(["ball/base"]).set_state(None, states((0, 0, R), (6.0, 0, -6.0)))
    slides.step(10)
    np.testing.assert_allclose(bodies(slides)[:, 7], 6.0 - 0.1 * 1.8 * 6.0, atol=1e-3)  # mu (1 + e) v_z


def test_a_ball_comes_to_rest_and_rolls():
    world = MujocoWorld(scene(e=0.6, mu=0.4, dt=0.002), 1)
    view = world.bodies(["ball/base"])
    state = torch.zeros(1, 1, 13)
    state[..., 2], state[..., 3], state[..., 7] = 0.3, 1.0, 1.0
    view.set_state(None, state)
    world.step(2000)
    x = bodies(world)[0]
    assert abs(x[2] - R) < 1e-6 and abs(x[9]) < 1e-6
    assert x[7] == pytest.approx(5 / 7, rel=0.02)
    assert x[11] == pytest.approx(x[7] / R, rel=1e-3)


def with_drone() -> Scene:
    def part() -> mujoco.MjSpec:
        return quadrotor_spec(
            mass=IRIS.mass, inertia=(0.0347563, 0.0458929, 0.08), rotor_positions=IRIS.rotor_positions,
            rotor_directions=IRIS.directions, propeller_radius=IRIS.propeller_radius, body_radius=IRIS.body_radius,
            body_height=IRIS.body_height, look=IRIS.look, visual=False, racket_radius=0.2, racket_height=None,
        )  # fmt: skip

    s = scene()
    s.add(part, "drone", pos=(0, 0, 3))
    s.extension(Aeronautics).drones["drone"] = IRIS
    return s.add_contact_sensor("ball/ball", ["drone/racket", "ground"])


def test_a_ball_bounces_off_a_racket_by_momentum_and_restitution():
    """Beside the centre, so that the drone turns: momenta stay, and the contact velocity becomes -e times itself."""
    world = MujocoWorld(with_drone(), PHASES)
    world.params.set("gravity", [], torch.zeros(PHASES, 3))
    touch = world.contact_sensor("ball/ball", ["drone/racket"])
    top = float(world.model.geom("drone/racket").pos[2] + world.model.geom("drone/racket").size[1])
    start = states((0.12, 0.05, 3 + top + R), (0, 0, -5.0))
    start[:, 0, 7:10] = torch.tensor([0, 0, -5.0])
    late = torch.tensor(0.02 + 0.005 * (np.arange(PHASES) + 0.5) / PHASES)
    start[:, 0, 2] = 3 + top + R + 5.0 * late
    start[:, 0, :2] = torch.tensor([0.12, 0.05])
    world.bodies(["ball/base"]).set_state(None, start)
    world.step(8)
    b, d = bodies(world), bodies(world, "drone/base")
    np.testing.assert_allclose(KG * b[:, 9] + IRIS.mass * d[:, 9], -5.0 * KG, rtol=1e-9)
    r = np.array([0.12, 0.05])
    inertia = world.model.body_inertia[world.model.body("drone/base").id]
    rates = d[:, 10:12]  # turned by little
    approach = b[:, 9] - (d[:, 9] + rates[:, 0] * r[1] - rates[:, 1] * r[0])
    np.testing.assert_allclose(approach, 0.8 * 5.0, rtol=2e-3)
    impulse = KG * (b[:, 9] + 5.0)
    np.testing.assert_allclose(rates, np.outer(impulse, [-r[1], r[0]]) / inertia[:2], rtol=5e-3)
    np.testing.assert_allclose(touch.impulse[:, 0], impulse, rtol=1e-5)


def test_a_solid_net_stops_a_fast_ball():
    """10 m/s is 5 cm a step; the net is thinner."""

    def base() -> mujoco.MjSpec:
        return court(18.0, 9.0, 2.43, 1.0, solid_net=True)

    world = MujocoWorld(scene(base=base, radius=0.04), PHASES)
    start = torch.zeros(PHASES, 1, 13)
    start[..., 0] = -0.5 - 0.05 * torch.arange(PHASES)[:, None] / PHASES
    start[..., 2], start[..., 3], start[..., 7] = 2.0, 1.0, 10.0
    world.bodies(["ball/base"]).set_state(None, start)
    world.step(20)
    x = bodies(world)
    assert (x[:, 0] < -0.04).all()
    np.testing.assert_allclose(x[:, 7], -8.0, rtol=1e-3)


def test_results_do_not_depend_on_the_number_of_worlds():
    def run(n: int) -> np.ndarray:
        world = MujocoWorld(scene(mu=0.3), n)
        start = states((0, 0, R), (2.0, 1.0, -7.0), rate=(3.0, 5.0, -20.0))[:n]
        world.bodies(["ball/base"]).set_state(None, start)
        world.step(60)
        return bodies(world)

    many = run(PHASES)
    for n in (1, 15, 17):
        np.testing.assert_array_equal(run(n), many[:n])


def test_mass_and_restitution_of_single_worlds_count():
    s = with_drone()
    world = MujocoWorld(s, 2)
    solref = world.params.nominal("solref", ["ball/ball"]).repeat(2, 1, 1)
    bouncy = ball(R, KG, restitution=0.5).geoms[0].solref
    solref[1, 0] = torch.tensor(np.array(bouncy[:2]))
    world.params.set("solref", ["ball/ball"], solref)
    world.params.set("mass", ["ball/base"], torch.tensor([[KG], [10 * KG]]))
    start = torch.zeros(2, 1, 13)
    start[..., 0], start[..., 2], start[..., 3], start[..., 9] = 3.0, 0.5, 1.0, -4.0
    world.bodies(["ball/base"]).set_state(None, start)
    touch = world.contact_sensor("ball/ball", ["ground"])
    world.step(40)
    x = bodies(world)
    fall = math.sqrt(16 + 2 * G * (0.5 - R))
    after = np.sqrt(x[:, 9] ** 2 + 2 * G * (x[:, 2] - R))
    np.testing.assert_allclose(after / fall, [0.8, 0.5], atol=3e-3)
    np.testing.assert_allclose(touch.impulse[:, 0], [KG * fall * 1.8, 10 * KG * fall * 1.5], rtol=5e-3)


def test_other_scenes_keep_the_engines_contacts():
    """A ball without bounce, and one beside a body of another kind, collide as MuJoCo has it."""
    dead = Scene(ground, dt=0.002).add(lambda: ball(R, KG, restitution=0.0), "ball", pos=(0, 0, 1))
    mixed = scene().add(lambda: box([0.2, 0.2, 0.2], 1.0), "box", pos=(1, 0, 0.1))
    for s in (dead, mixed):
        world = MujocoWorld(s, 1)
        assert world.model.geom("ball/ball").contype != 0
        world.step(400)
        assert bodies(world)[0, 2] > 0.0
    assert MujocoWorld(scene(), 1).model.geom("ball/ball").contype == 0


def test_what_other_views_derive_is_that_of_the_bounced_ball():
    s = with_drone()
    world = MujocoWorld(s, 1)
    world.sensors("drone/imu_quat")  # needs MuJoCo's derived values
    derived = world.batch.bind("xpos")
    start = torch.zeros(1, 1, 13)
    start[..., 0], start[..., 2], start[..., 3], start[..., 9] = 3.0, R + 0.01, 1.0, -8.0
    world.bodies(["ball/base"]).set_state(None, start)
    world.step(1)
    assert bodies(world)[0, 9] > 0
    ball_id = world.model.body("ball/base").id
    np.testing.assert_allclose(derived[0, ball_id], bodies(world)[0, :3], atol=1e-12)
