"""Free flight of the `rotor` engine against MuJoCo and against closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch
from rotor_scenes import ACTUATORS, NONE, angle, exact, fields, matrix, momenta, put, scene, world

from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.drone import LEVELS, Drones
from rookery.robots.drones.iris import IRIS
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.engines.rotor.world import RotorWorld
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.aero import ground_effect
from rookery.sim.multirotor.effects import PRESETS
from rookery.sim.multirotor.wind import STATE, scales

C = CRAZYFLIE_21
PHYSICAL_IRIS = replace(
    IRIS, inertia=(0.0347563, 0.0458929, 0.08), published_inertia_unphysical=False, racket_radius=0.0
)
FULL = (2.4e-5, 3.1e-5, 4.3e-5, 4e-6, -3e-6, 5e-6)  # kg m^2, with products of inertia


def random_states(n: int, seed: int = 1) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    state = torch.zeros(n, 1, 13)
    state[..., 2] = 1.0
    q = torch.randn(n, 1, 4, generator=g)
    state[..., 3:7] = q / q.norm(dim=-1, keepdim=True)
    state[..., 7:10] = torch.randn(n, 1, 3, generator=g)
    state[..., 10:13] = 3.0 * torch.randn(n, 1, 3, generator=g)
    return state


def engines(n: int, **options):
    return RotorWorld(scene(drones=((0, 0, 1),), **options), n, 1), MujocoWorld(
        scene(drones=((0, 0, 1),), **options), n, 1
    )


def agree(a: torch.Tensor, b: torch.Tensor) -> None:
    """Final states [N, 1, 13]: within 1 mm and 0.1 degree; velocities and rates likewise."""
    a, b = a.double().numpy(), b.double().numpy()
    assert np.abs(a - b)[..., :3].max() < 1e-3
    assert angle(a[..., 3:7], b[..., 3:7]).max() < 0.1
    assert np.abs(a - b)[..., 7:10].max() < 2e-3
    assert np.abs(a - b)[..., 10:13].max() < 1e-3 * np.abs(b[..., 10:13]).max() + 1e-3


@pytest.mark.parametrize("case", ["plain", "full inertia", "parameters", "wrench", "gravity"])
def test_a_second_of_random_rotor_forces_is_that_of_mujoco(case):
    n = 12
    out = []
    for w in engines(n, inertia=FULL if case == "full inertia" else None):
        g = torch.Generator().manual_seed(0)
        bodies = w.bodies(["drone_0/base"])
        u = w.actuators([f"drone_0/{a}" for a in ACTUATORS])
        bodies.set_state(None, random_states(n))
        if case == "parameters":
            factor = 0.5 + torch.rand(n, 1, generator=g)
            w.params.set("mass", ["drone_0/base"], w.params.nominal("mass", ["drone_0/base"]) * factor)
            moments = w.params.nominal("inertia", ["drone_0/base"]) * (0.7 + 0.4 * torch.rand(n, 1, 3, generator=g))
            w.params.set("inertia", ["drone_0/base"], moments)
        if case == "wrench":
            scale = torch.tensor([0.1, 0.1, 0.1, 6e-5, 6e-5, 6e-5])
            bodies.set_wrench(torch.randn(n, 1, 6, generator=g) * scale)
        if case == "gravity":
            w.params.set("gravity", [], torch.randn(n, 3, generator=g) * 5.0)
        for _ in range(100):
            thrust = C.mass * 9.81 / 4 * (0.5 + torch.rand(n, 5, 5, generator=g))
            thrust[..., 4] = 2e-4 * torch.randn(n, 5, generator=g)
            # rotors of a side together, so that it turns at some 10 rad/s and not at 100
            thrust[..., 1:4] += 0.9 * (thrust[..., :1] - thrust[..., 1:4])
            u.set_control(thrust)
            w.step(5)
        out.append(bodies.state.clone())
    assert 1.0 < float(out[0][..., 10:13].abs().max()) < 80.0
    agree(*out)


@pytest.mark.parametrize("drone", [C, PHYSICAL_IRIS], ids=["crazyflie", "iris"])
@pytest.mark.parametrize("kind", LEVELS)
def test_a_second_of_random_actions_is_that_of_mujoco(drone, kind):
    n = 6
    out = []
    speeds = []
    for w in engines(n, drone=drone):
        g = torch.Generator().manual_seed(0)
        drones = Drones(w, ["drone_0"], drone, kind)
        drones.physics_steps = 5
        state = random_states(n)
        state[..., 3:7] = torch.tensor([1.0, 0.0, 0.0, 0.0])
        state[..., 7:13] *= 0.3
        drones.reset(torch.arange(n), state)
        drones.native is None or drones.native.vary(None, thrust=torch.ones(n))
        for _ in range(100):
            drones.apply(torch.rand(n, 1, 4, generator=g) * 2 - 1)
            w.step(5)
        out.append(drones.bodies.state.clone())
        speeds.append(drones.rotor_speed.clone())
    agree(*out)
    torch.testing.assert_close(*speeds, rtol=0, atol=2e-3)


def test_an_arc_without_air_is_exact_at_any_step():
    w = world(drones=(), balls=((0, 0, 1),), dt=0.02)
    put(w, "ball_0/base", pos=(1, 2, 3), vel=(3, -2, 5), rate=(0, 0, 2))
    w.step(50)
    x = exact(w, "ball_0/base")
    np.testing.assert_allclose(x[:3], [4, 0, 3 + 5 - 0.5 * 9.81], rtol=0, atol=1e-12)
    np.testing.assert_allclose(x[7:10], [3, -2, 5 - 9.81], rtol=0, atol=1e-12)
    np.testing.assert_allclose(x[3:7], [math.cos(1), 0, 0, math.sin(1)], atol=1e-9)


def test_thrust_of_the_weight_hovers_and_more_of_it_climbs():
    w = world(2)
    m = w.multirotors(["drone_0"])
    m.start(None, torch.full((2, 1, 4), C.hover_speed))
    thrust = C.mass * 9.81 / 4 * torch.tensor([1.0, 1.2], dtype=torch.float64)
    m.command(0, thrust[:, None, None].expand(2, 1, 4))
    w.step(500)
    x = exact(w, "drone_0/base")
    np.testing.assert_allclose(x[[2, 9]], [50, 0], atol=1e-8)
    assert np.abs(x[[0, 1, 4, 5, 6]]).max() < 1e-12
    # the higher thrust sets in with the rotors' lag
    assert 0 < 0.5 * 0.2 * 9.81 - (exact(w, "drone_0/base", 1)[2] - 50) < 0.2 * 9.81 * 2 * C.tau_up


@pytest.mark.parametrize("command", [0.9, 0.2])
def test_rotors_follow_their_commands_with_the_lag_up_or_down(command):
    w = world()
    m = w.multirotors(["drone_0"])
    m.start(None, torch.full((1, 1, 4), 0.5))
    t0, t1, t2 = C.thrust_curve
    m.command(0, torch.full((1, 1, 4), t0 + command * (t1 + command * t2), dtype=torch.float64))
    w.step(30)
    tau = C.tau_up if command > 0.5 else C.tau_down
    u = command + (0.5 - command) * math.exp(-30 * w.dt / tau)
    np.testing.assert_allclose(fields(w, "drone_0/base", at.SPEED, 4), u, rtol=1e-9)
    u = command + (0.5 - command) * math.exp(-29.5 * w.dt / tau)  # forces are those of the middle of the step
    force = w.actuators([f"drone_0/{a}" for a in ACTUATORS]).force[0].numpy()
    np.testing.assert_allclose(force[:4], t0 + u * (t1 + u * t2), rtol=1e-6)
    assert abs(force[4]) < 1e-9  # two rotors turn each way


def test_one_rotor_turns_the_body_by_its_place_and_its_reaction():
    w = world()
    m = w.multirotors(["drone_0"])
    m.start(None, torch.tensor([[[0.5, 0.0, 0.0, 0.0]]]))
    thrust = C.thrust_curve[0] + 0.5 * (C.thrust_curve[1] + 0.5 * C.thrust_curve[2])
    m.command(0, torch.tensor([[[thrust, 0.0, 0.0, 0.0]]], dtype=torch.float64))
    w.step(1)
    x, y, _ = C.rotor_positions[0]
    idle = C.thrust_curve[0]  # rotors that stand still: the curve at 0
    fx = [np.array([px, py]) * f for (px, py, _), f in zip(C.rotor_positions, (thrust, idle, idle, idle), strict=True)]
    torque = np.array([sum(f[1] for f in fx), -sum(f[0] for f in fx)])
    np.testing.assert_allclose(exact(w, "drone_0/base")[10:12], torque / np.array(C.inertia[:2]) * w.dt, rtol=1e-3)
    assert y * torque[0] > 0 > x * torque[1]
    _, q1, q2 = C.torque_curve
    q = 0.5 * q1 + 0.25 * q2  # more than a rotor at rest gives
    assert exact(w, "drone_0/base")[12] == pytest.approx(C.directions[0] * q / C.inertia[2] * w.dt, rel=1e-3)


def test_a_free_spin_keeps_its_energy_and_angular_momentum():
    w = world(inertia=FULL)
    w.params.set("gravity", [], torch.zeros(1, 3))
    put(w, "drone_0/base", rate=(9.0, -4.0, 6.0))
    _, spin, energy = momenta(w)
    w.step(500)
    _, later, e = momenta(w)
    assert abs(e / energy - 1) < 2e-4
    assert np.linalg.norm(later - spin) < 1e-3 * np.linalg.norm(spin)
    assert np.linalg.norm(exact(w, "drone_0/base")[10:13] - [9, -4, 6]) > 0.5  # it tumbles


def test_drag_goes_to_the_terminal_speed_and_felt_acceleration_to_that_of_the_air():
    w = world(fx=replace(NONE, body_drag=True), drone=replace(C, body_drag=(0.02, 0.03, 0.05)))
    r = matrix([math.cos(0.6), math.sin(0.6), 0, 0])
    put(w, "drone_0/base", quat=(math.cos(0.6), math.sin(0.6), 0, 0), vel=(3, -2, 5))
    w.step(1000)
    x = exact(w, "drone_0/base")
    drag = np.array([0.02, 0.03, 0.05])
    terminal = r.T @ [0, 0, -9.81 * C.mass] / drag
    start = r.T @ [3, -2, 5]
    left = np.exp(-drag / C.mass * 2.0)
    np.testing.assert_allclose(r.T @ x[7:10], terminal + left * (start - terminal), rtol=2e-3)
    felt = w.sensors("drone_0/imu_acc").data[0].numpy()
    np.testing.assert_allclose(felt, -drag / C.mass * (r.T @ x[7:10]), rtol=2e-3)


def test_rotor_drag_grows_with_the_speed_of_the_rotors_and_wind_carries_along():
    fx = replace(NONE, rotor_drag=True, wind_speed=3.0, wind_direction=0.5)
    w = world(fx=fx)
    m = w.multirotors(["drone_0"])
    m.start(None, torch.full((1, 1, 4), C.hover_speed))
    m.command(0, torch.full((1, 1, 4), C.mass * 9.81 / 4, dtype=torch.float64))
    w.step(500)
    rate = C.rotor_drag[0] * 4 * C.hover_speed * C.max_rotor_speed / C.mass
    wind = 3.0 * np.array([math.cos(0.5), math.sin(0.5), 0.0])
    np.testing.assert_allclose(exact(w, "drone_0/base")[7:10], wind * (1 - math.exp(-rate)), rtol=1e-3, atol=1e-6)


def test_a_ball_falls_at_its_terminal_speed_and_curves_by_its_spin():
    w = world(drones=(), balls=((0, 0, 0),), fx=PRESETS["realistic"])
    put(w, "ball_0/base", vel=(0, 0, -18))
    w.step(4000)
    k = 0.5 * 1.225 * 0.47 * math.pi * 0.04**2 / 0.047
    assert exact(w, "ball_0/base")[9] == pytest.approx(-math.sqrt(9.81 / k), rel=1e-4)
    w.params.set("gravity", [], torch.zeros(1, 3))
    put(w, "ball_0/base", vel=(10, 0, 0), rate=(0, 50, 0), quat=(math.sqrt(0.5), math.sqrt(0.5), 0, 0))  # about world z
    w.step(1)
    lift = 0.5 * 1.225 * math.pi * 0.04**3 / 0.047 * 50 * 10
    v = exact(w, "ball_0/base")[7:10]
    np.testing.assert_allclose(v - [10, 0, 0], np.array([-k * 100, lift, 0]) * w.dt, rtol=2e-3, atol=1e-6)


def test_a_wrench_pushes_and_turns_a_ball():
    w = world(drones=(), balls=((0, 0, 0),))
    w.bodies(["ball_0/base"]).set_wrench(torch.tensor([[[0.01, -0.02, 0.047 * 9.81, 0, 1e-4, 0]]]))
    put(w, "ball_0/base", quat=(math.cos(0.5), math.sin(0.5), 0, 0))
    w.step(100)
    x = exact(w, "ball_0/base")
    spin = matrix(x[3:7]) @ x[10:13]
    np.testing.assert_allclose(spin, [0, 1e-4 * 0.2 / (0.4 * 0.047 * 0.04**2), 0], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(x[7:10], np.array([0.01, -0.02, 0]) / 0.047 * 0.2, atol=1e-6)


def test_spinning_rotors_make_a_turning_body_precess():
    fx = replace(NONE, gyroscopic=True, rotor_lag=False)
    drone = replace(C, directions=(1, 1, 1, 1), torque_curve=(0.0, 0.0, 0.0), thrust_curve=(0.0, 0.0, 1e-9))
    w = world(drone=drone, fx=fx)
    w.params.set("gravity", [], torch.zeros(1, 3))
    m = w.multirotors(["drone_0"])
    m.start(None, torch.ones(1, 1, 4))
    m.command(0, torch.full((1, 1, 4), 1e-9, dtype=torch.float64))
    put(w, "drone_0/base", rate=(1.0, 0, 0))
    # directions of 1: reaction along +z, so the rotors turn about -z with this angular momentum
    h = -4 * C.rotor_inertia * C.max_rotor_speed
    w.step(1)
    x = exact(w, "drone_0/base")
    assert x[11] == pytest.approx(h / C.inertia[1] * w.dt, rel=0.02)
    _, spin, _ = momenta(w)
    start = np.array([C.inertia[0], 0, h])
    w.step(200)
    x = exact(w, "drone_0/base")
    _, spin, _ = momenta(w)
    total = spin + matrix(x[3:7]) @ [0, 0, h]
    np.testing.assert_allclose(total, start, atol=2e-3 * np.linalg.norm(start))


@pytest.mark.parametrize("height", [0.005, 0.02, 0.2])
def test_ground_raises_the_thrust(height):
    w = world(fx=replace(NONE, ground_effect=True), drone=replace(C, ground_effect_gain=3.0))
    u = w.actuators([f"drone_0/{a}" for a in ACTUATORS])
    u.set_control(torch.tensor([[0.05, 0.05, 0.05, 0.05, 0.0]], dtype=torch.float64))
    put(w, "drone_0/base", pos=(0, 0, height))
    w.step(1)
    gain = float(ground_effect(height, C.propeller_radius, 3.0))
    assert gain > 1.001
    assert exact(w, "drone_0/base")[9] / w.dt + 9.81 == pytest.approx(4 * 0.05 * gain / C.mass, rel=1e-6)
    put(w, "drone_0/base", pos=(0, 0, height), quat=(0, 1, 0, 0))  # upside down it blows upwards
    w.step(1)
    assert exact(w, "drone_0/base")[9] / w.dt + 9.81 == pytest.approx(-4 * 0.05 / C.mass, rel=1e-6)


def test_ground_levels_a_tilted_drone_by_its_lower_rotors():
    w = world(fx=replace(NONE, ground_effect=True), drone=replace(C, ground_effect_gain=3.0))
    w.actuators([f"drone_0/{a}" for a in ACTUATORS]).set_control(
        torch.tensor([[0.05, 0.05, 0.05, 0.05, 0.0]], dtype=torch.float64)
    )
    q = np.array([math.cos(0.2), math.sin(0.2), 0.1, 0])
    q /= np.linalg.norm(q)
    put(w, "drone_0/base", pos=(0, 0, 0.04), quat=q)
    w.step(1)
    r = matrix(q)
    force = 0.0
    torque = np.zeros(3)
    for place in np.array(C.rotor_positions):
        f = 0.05 * float(ground_effect(0.04 + (r @ place)[2], C.propeller_radius, 3.0 * r[2, 2]))
        force += f
        torque += np.cross(place, [0, 0, f])
    x = exact(w, "drone_0/base")
    assert np.abs(torque[:2]).min() > 1e-5
    np.testing.assert_allclose(x[10:12] / w.dt, torque[:2] / C.inertia[:2], rtol=1e-3)
    np.testing.assert_allclose(x[7:10] / w.dt + [0, 0, 9.81], r[:, 2] * force / C.mass, rtol=1e-3)


@pytest.mark.parametrize("model", ["volleybots", "gym-pybullet-drones", "realistic"])
def test_a_wake_pushes_the_lower_drone_along_itself_and_no_other(model):
    w = world(drones=((0, 0, 0.5), (0.0, 0, 0.0), (0, 0, 1.2)), fx=replace(NONE, downwash=model))
    tilt = (math.cos(0.1), 0.0, math.sin(0.1), 0.0)
    axis = matrix(tilt) @ [0, 0, 1]
    for i, far in enumerate((0.0, -0.8, 0.7)):
        put(w, f"drone_{i}/base", pos=far * axis + [0, 0.01 * i, 0], quat=tilt if i == 0 else (1, 0, 0, 0))
    u = w.actuators([f"drone_0/{a}" for a in ACTUATORS])
    u.set_control(torch.full((1, 5), C.mass * 9.81 / 4) * torch.tensor([1, 1, 1, 1, 0]))
    w.step(2)
    first = fields(w, "drone_1/base", at.WAKE, 3)
    w.step(1)
    np.testing.assert_allclose(fields(w, "drone_1/base", at.WAKE, 3), first, rtol=0.01, atol=1e-9)
    wakes = [fields(w, f"drone_{i}/base", at.WAKE, 3) for i in range(3)]
    assert np.abs(wakes[0]).max() == np.abs(wakes[2]).max() == 0.0
    force = -wakes[1] @ axis
    assert 0.005 * C.mass * 9.81 < force < C.mass * 9.81
    np.testing.assert_allclose(wakes[1], -force * axis, atol=1e-12)
    accelerations = [exact(w, f"drone_{i}/base")[7:10] for i in (1, 2)]
    np.testing.assert_allclose(accelerations[0] - accelerations[1], 3 * wakes[1] / C.mass * w.dt, rtol=0.02, atol=1e-5)


def air(w: RotorWorld) -> np.ndarray:
    """[N, 3] m/s."""
    lanes = w.worlds.reshape(-1, at.WORLD, at.LANES)[:, at.AIR : at.AIR + 3]
    return lanes.transpose(0, 2, 1).reshape(-1, 3)[: w.num_envs].copy()


def test_gusts_have_the_variance_of_the_standard_and_blow_around_the_mean_wind():
    n = 1500
    w = world(n, fx=replace(NONE, gusts=True, wind_speed=6.0, wind_direction=math.pi / 2))
    values = []
    for _ in range(3):
        w.step(1)
        values.append(air(w))
    _, _, across, up = scales(50.0, 6.0)
    np.testing.assert_allclose(values[0].mean(axis=0), [0, 6, 0], atol=4 * across / math.sqrt(n))
    np.testing.assert_allclose(values[0].std(axis=0), [across, across, up], rtol=0.08)
    # new noise at every step
    changes = np.diff(values, axis=0)
    assert 0 < np.abs(changes).max() < across
    for axis in range(3):
        assert abs(np.corrcoef(changes[0, :, axis], changes[1, :, axis])[0, 1]) < 0.1


def test_gusts_blow_along_the_wind_and_to_its_left():
    w = world(2, fx=replace(NONE, gusts=True, wind_speed=6.0, wind_direction=0.7))
    w.step(1)
    _, _, across, vertical = scales(50.0, 6.0)
    root3 = math.sqrt(3.0)
    for i in range(2):
        x = w.wind.gust.reshape(STATE, at.LANES)[:, i]
        along, left = across * x[0], across * (root3 * x[1] + (1 - root3) * x[2])
        up = vertical * (root3 * x[3] + (1 - root3) * x[4])
        c, s = math.cos(0.7), math.sin(0.7)
        expected = [(6 + along) * c - left * s, (6 + along) * s + left * c, up]
        np.testing.assert_allclose(air(w)[i], expected, rtol=1e-12)


def test_a_battery_slows_the_rotors_the_more_the_emptier_it_is():
    w = world(3, fx=replace(NONE, battery=True))
    m = w.multirotors(["drone_0"])
    m.start(None, torch.full((3, 1, 4), 1.0))
    row = w.bodies_lanes[0, 0]
    row[at.CHARGE * at.LANES : at.CHARGE * at.LANES + 3] = [1.0, 0.5, 0.0]
    m.command(0, torch.full((3, 1, 4), C.max_thrust, dtype=torch.float64))
    w.step(1000)
    u = m.rotor_speed[:, 0, 0]
    assert 0.99 > u[0] > u[1] > u[2] > 0.3
    charge = row[at.CHARGE * at.LANES : at.CHARGE * at.LANES + 3]
    assert charge[2] == 0.0
    b = C.battery
    shaft = 4 * sum(c * float(u[0]) ** k for k, c in enumerate(C.torque_curve)) * float(u[0]) * C.max_rotor_speed
    volts = b.reference * float(u[0])  # what the rotors' speed says of the voltage
    assert 1.0 - charge[0] == pytest.approx((shaft / b.efficiency + b.idle) / volts * 2.0 / b.capacity, rel=0.1)


def test_the_scene_for_films_is_where_the_engine_is():
    w = world(3, drones=((0, 0, 1), (1, 0, 1)), balls=((0, 1, 1),))
    bodies = w.bodies(["drone_1/base", "ball_0/base"])
    state = random_states(6).reshape(3, 2, 13)
    bodies.set_state(None, state)
    data = w.mj_data(2)
    for j, name in enumerate(bodies.names):
        np.testing.assert_allclose(data.body(name).xpos, state[2, j, :3], atol=1e-6)
        np.testing.assert_allclose(data.body(name).xmat.reshape(3, 3), matrix(state[2, j, 3:7].numpy()), atol=1e-6)
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(w.model, data, mujoco.mjtObj.mjOBJ_BODY, data.body(name).id, velocity, 1)
        np.testing.assert_allclose(velocity[:3], state[2, j, 10:13], atol=1e-5)


def test_sensors_are_those_of_mujoco():
    out = []
    for w in engines(4):
        w.bodies(["drone_0/base"]).set_state(None, random_states(4))
        sensors = [w.sensors(f"drone_0/{s}") for s in ("imu_gyro", "imu_acc", "imu_quat")]
        w.actuators([f"drone_0/{a}" for a in ACTUATORS]).set_control(
            torch.full((4, 5), 0.05) * torch.tensor([1, 1, 1, 1, 0])
        )
        w.step(1)
        out.append([s.data.clone() for s in sensors])
    for a, b in zip(*out, strict=True):
        torch.testing.assert_close(a, b, rtol=0.01, atol=1e-3)
