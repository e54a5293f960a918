"""Both engines against closed forms: mass, inertia, contact, friction, bounce, rotors, joints, sensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import mujoco
import numpy as np
import pytest
import torch
from sampled import slow_but

from rookery.sim.engines import make_world
from rookery.sim.engines.pybullet.contact import restitution
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene
from rookery.sim.world import Bodies, World

G = 9.81
FLOOR = '<geom name="floor" type="plane" size="5 5 1" friction="{mu} 0.005 0.0001"/>'
BOX = """<body name="box" pos="0 0 {z}"><freejoint/>
    <geom name="box" type="box" size="0.1 0.1 0.05" mass="0.5" friction="{mu} 0.005 0.0001"/></body>"""
# a quadrotor's body: four rotors at (+-0.1, +-0.1), each with its reaction torque, and unequal moments of inertia
DRONE = """<body name="drone" pos="0 0 1"><freejoint/>
    <inertial pos="0.01 -0.005 0.02" mass="0.8" diaginertia="0.004 0.006 0.009"/>
    <geom type="box" size="0.05 0.05 0.02"/>
    <site name="r1" pos="0.1 -0.1 0.02"/><site name="r2" pos="-0.1 -0.1 0.02"/>
    <site name="r3" pos="-0.1 0.1 0.02"/><site name="r4" pos="0.1 0.1 0.02"/><site name="imu" pos="0.02 0 0"/></body>"""
ROTORS = "".join(
    f'<general name="{n}" site="{n}" gear="0 0 1 0 0 {0.02 * s}" ctrlrange="0 10"/>'
    for n, s in (("r1", 1), ("r2", -1), ("r3", 1), ("r4", -1))
)
PENDULUM = """<body name="rod" pos="0 0 2"><joint name="hinge" axis="0 1 0"/>
    <inertial pos="0 0 -0.5" mass="0.7" diaginertia="0.05 0.06 0.01"/></body>"""

Make = Callable[..., World]


@pytest.fixture(params=["mujoco", "pybullet"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """``make(world_xml, actuators_xml, n=1, dt=0.002, sensors=..)``: a world of the engine under test."""
    worlds: list[World] = []

    def build(bodies: str, actuators: str = "", sensors: str = "", n: int = 1, dt: float = 0.002) -> World:
        rest = f"<actuator>{actuators}</actuator><sensor>{sensors}</sensor>"
        xml = f"<mujoco><worldbody>{bodies}</worldbody>{rest}</mujoco>"
        worlds.append(make_world(request.param, Scene(lambda: mujoco.MjSpec.from_string(xml), dt=dt), n))
        return worlds[-1]

    yield build
    for w in worlds:
        w.close()


def run(world: World, seconds: float) -> None:
    world.step(round(seconds / world.dt))


def com_velocity(drone: Bodies) -> np.ndarray:
    """[N, 3] m/s of the drone's centre of mass, while it is level."""
    turning = np.cross(drone.ang_vel[:, 0].double().numpy(), [0.01, -0.005, 0.02])
    return np.asarray(drone.lin_vel[:, 0].double().numpy() + turning)


def test_box_falls_and_rests_on_the_floor(make: Make) -> None:
    world = make(FLOOR.format(mu=1) + BOX.format(z=1.05, mu=1))
    box = world.bodies(["box"])
    t = 0.3
    run(world, t)
    assert box.pos[0, 0, 2].item() == pytest.approx(1.05 - G * t * t / 2, abs=G * world.dt * t)
    assert box.lin_vel[0, 0, 2].item() == pytest.approx(-G * t, rel=1e-5)
    run(world, 2.0)
    assert abs(box.pos[0, 0, 2].item() - 0.05) < 1e-3
    assert box.pos[0, 0, :2].norm() < 2e-3
    assert box.lin_vel.norm() < 1e-3
    assert box.quat[0, 0, 0].abs() > 1 - 1e-5


@pytest.mark.parametrize(("mu_floor", "mu_box", "mu"), [(0.3, 0.1, 0.3), (0.2, 0.5, 0.5)])
def test_sliding_box_stops_after_v2_over_2_mu_g(make: Make, mu_floor: float, mu_box: float, mu: float) -> None:
    """The pair's friction is the larger of the two, as in MuJoCo; Bullet alone would multiply them."""
    world = make(FLOOR.format(mu=mu_floor) + BOX.format(z=0.05, mu=mu_box))
    box = world.bodies(["box"])
    run(world, 0.4)
    start = box.state.clone()
    v = 1.5
    start[..., 7] = v
    box.set_state(None, start)
    run(world, 2.0)
    assert (box.pos - start[..., :3])[0, 0, 0].item() == pytest.approx(v * v / (2 * mu * G), rel=0.03)
    assert (box.pos - start[..., :3])[0, 0, 1].abs() < 1e-3


def period(theta: float, mass: float, length: float, inertia: float) -> float:
    """Period of a rigid pendulum of amplitude theta, by the arithmetic-geometric mean."""
    a, b = 1.0, math.cos(theta / 2)
    while abs(a - b) > 1e-14:
        a, b = (a + b) / 2, math.sqrt(a * b)
    return 2 * math.pi / a * math.sqrt(inertia / (mass * G * length))


@pytest.mark.parametrize("theta", slow_but([2.5], [0.05, 2.5]))
def test_pendulum_has_its_period_and_keeps_its_energy(make: Make, theta: float) -> None:
    world = make(PENDULUM, dt=0.001)
    hinge = world.joints(["hinge"])
    inertia = 0.06 + 0.7 * 0.25
    hinge.set_state(None, torch.tensor([[theta]]), torch.tensor([[0.0]]))
    world.forward()
    zeros = []
    before = theta
    for i in range(6000):
        world.step()
        q = hinge.pos.item()
        if before > 0 >= q:
            zeros.append((i + before / (before - q)) * world.dt)
        before = q
    assert np.diff(zeros).mean() == pytest.approx(period(theta, 0.7, 0.5, inertia), rel=2e-3)
    energy = inertia * hinge.vel.item() ** 2 / 2 - 0.7 * G * 0.5 * math.cos(hinge.pos.item())
    scale = 0.7 * G * 0.5 * (1 - math.cos(theta))
    assert abs(energy + 0.7 * G * 0.5 * math.cos(theta)) < 0.01 * scale


@pytest.mark.parametrize("damping", slow_but([40], [20, 40, 100]))
def test_ball_bounces_to_e_squared_of_its_height(make: Make, damping: int) -> None:
    """Contacts of stiffness 1e4 1/s^2 with three dampings: e = 0.74, 0.57 and 0.30."""
    contact = f'solref="-10000 -{damping}" solimp="0.95 0.95 0.001"'
    floor = f'<geom type="plane" size="1 1 1" {contact}/>'
    world = make(
        floor + f'<body name="ball" pos="0 0 0.8"><freejoint/><geom size="0.05" mass="0.3" {contact}/></body>',
        dt=0.0005,
    )
    ball = world.bodies(["ball"])
    heights = []
    speeds = []
    for _ in range(1800):
        world.step()
        heights.append(ball.pos[0, 0, 2].item() - 0.05)
        speeds.append(ball.lin_vel[0, 0, 2].item())
    rising = int(np.argmax(np.array(speeds) > 0))
    e = restitution((-10000.0, -float(damping)))
    assert max(speeds) / -min(speeds) == pytest.approx(e, rel=0.02)
    # MuJoCo's soft ball leaves from below the floor's surface, so it rises a little less above it
    assert max(heights[rising:]) / 0.75 == pytest.approx(e * e, abs=0.02)


def test_four_rotors_give_their_thrust_and_torque(make: Make) -> None:
    world = make(DRONE, ROTORS)
    drone = world.bodies(["drone"])
    rotors = world.actuators(["r1", "r2", "r3", "r4"])
    force = np.array([1.0, 1.5, 2.5, 2.0])
    rotors.set_control(torch.tensor(force, dtype=torch.float32)[None])
    k = 5
    world.step(k)
    at = np.array([[0.1, -0.1, 0.02], [-0.1, -0.1, 0.02], [-0.1, 0.1, 0.02], [0.1, 0.1, 0.02]]) - [0.01, -0.005, 0.02]
    torque = np.cross(at, np.stack((0 * force, 0 * force, force), 1)).sum(0)
    torque[2] += 0.02 * (force @ [1, -1, 1, -1])
    turn = torque / [0.004, 0.006, 0.009] * k * world.dt
    assert drone.ang_vel[0, 0].tolist() == pytest.approx(turn.tolist(), rel=1e-3, abs=3e-4)
    assert com_velocity(drone)[0, 2] == pytest.approx((force.sum() / 0.8 - G) * k * world.dt, abs=1e-4)
    assert rotors.force[0].tolist() == pytest.approx(force.tolist())


def test_free_spin_keeps_its_angular_momentum(make: Make) -> None:
    world = make(DRONE)
    world.params.set("gravity", (), torch.zeros(1, 3))
    drone = world.bodies(["drone"])
    state = drone.state.clone()
    state[0, 0, 10:13] = torch.tensor([0.5, 4.0, 0.3])  # near the middle axis: it tumbles
    drone.set_state(None, state)
    world.forward()
    inertia = np.array([0.004, 0.006, 0.009])

    def momentum() -> np.ndarray:
        rot = np.zeros(9)
        mujoco.mju_quat2Mat(rot, drone.quat[0, 0].double().numpy())
        return rot.reshape(3, 3) @ (inertia * drone.ang_vel[0, 0].double().numpy())

    before = momentum()
    run(world, 1.0)
    assert np.linalg.norm(momentum() - before) < 0.02 * np.linalg.norm(before)


def test_mass_and_inertia_read_back(make: Make) -> None:
    world = make(DRONE, n=2)
    assert world.params.get("mass", ["drone"]).tolist() == [[pytest.approx(0.8)]] * 2
    assert world.params.get("inertia", ["drone"])[1, 0].tolist() == pytest.approx([0.004, 0.006, 0.009])
    assert world.params.nominal("inertia", ["drone"]).shape == (1, 3)
    assert world.params.get("gravity").shape == (2, 3)


def test_parameters_act_in_their_own_world_only(make: Make) -> None:
    world = make(DRONE, ROTORS, n=2)
    drone = world.bodies(["drone"])
    rotors = world.actuators(["r1", "r2", "r3", "r4"])
    one = torch.tensor([1])
    world.params.set("gravity", (), torch.tensor([[0.0, 0.0, -4.0]]), one)
    world.params.set("mass", ["drone"], torch.tensor([[1.6]]), one)
    world.params.set("inertia", ["drone"], torch.tensor([[[0.008, 0.012, 0.018]]]), one)
    world.params.set("gain", ["r1"], torch.tensor([[0.5]]), one)
    rotors.set_control(torch.tensor([[2.0, 2.0, 2.0, 2.0]]).repeat(2, 1))
    world.forward()
    world.step(5)
    t = 5 * world.dt
    assert rotors.force[:, 0].tolist() == pytest.approx([2.0, 1.0])
    assert com_velocity(drone)[:, 2].tolist() == pytest.approx([(8 / 0.8 - G) * t, (7 / 1.6 - 4) * t], rel=2e-3)
    # world 0: only the offset of the centre of mass turns it; world 1: rotor 1 lacks 1 N as well
    torque = 8 * -0.005 * -1, (7 * 0.005) + 1 * 0.1
    assert drone.ang_vel[:, 0, 0].tolist() == pytest.approx([torque[0] / 0.004 * t, torque[1] / 0.008 * t], rel=5e-3)


def test_friction_and_joint_damping_can_be_written(make: Make) -> None:
    world = make(FLOOR.format(mu=0.1) + BOX.format(z=0.05, mu=0.1) + PENDULUM, n=2)
    world.params.set("friction", ["floor", "box"], torch.tensor([[[0.6, 0.005, 1e-4]] * 2]), torch.tensor([1]))
    world.params.set("damping", ["hinge"], torch.tensor([[0.4]]), torch.tensor([1]))
    world.params.set("gravity", (), torch.tensor([[0.0, 0.0, -G]] * 2))
    box = world.bodies(["box"])
    hinge = world.joints(["hinge"])
    run(world, 0.4)
    start = box.state.clone()
    start[..., 7] = 1.0
    box.set_state(None, start)
    hinge.set_state(None, torch.zeros(2, 1), torch.full((2, 1), 1e-3))
    run(world, 1.5)
    moved = (box.pos - start[..., :3])[:, 0, 0]
    assert moved.tolist() == pytest.approx([1 / (2 * 0.1 * G), 1 / (2 * 0.6 * G)], rel=0.04)
    inertia = 0.06 + 0.7 * 0.25
    decay = math.exp(-0.4 / inertia / 2 * 1.5)  # of the amplitude of small swings
    omega = math.sqrt(0.7 * G * 0.5 / inertia)
    size = (hinge.pos.square() + (hinge.vel / omega).square()).sqrt().flatten() * omega / 1e-3
    assert size[0].item() == pytest.approx(1.0, rel=0.02)
    assert size[1].item() == pytest.approx(decay, rel=0.15)


def test_controls_in_rows_act_one_physics_step_each(make: Make) -> None:
    world = make(DRONE, ROTORS, n=2)
    drone = world.bodies(["drone"])
    rotors = world.actuators(["r1", "r2", "r3", "r4"])
    rows = torch.zeros(2, 4, 4)
    rows[1, 0] = 3.0
    rows[1, 3] = 1.0
    rotors.set_control(rows)
    world.step(4)
    down = com_velocity(drone)[:, 2]
    assert down[1] - down[0] == pytest.approx(16.0 / 0.8 * world.dt, rel=1e-3)
    assert rotors.control[1].tolist() == [1.0] * 4  # the last row is held
    rotors.set_control(rows)
    with pytest.raises(RookeryError, match="one row each"):
        world.step(3)
    with pytest.raises(RookeryError, match="controls must be"):
        rotors.set_control(torch.zeros(3, 4))


def test_inner_loop_sees_the_state_of_every_physics_step(make: Make) -> None:
    world = make(DRONE, ROTORS)
    drone = world.bodies(["drone"])
    rotors = world.actuators(["r1", "r2", "r3", "r4"])
    seen = []

    def loop(i: int) -> None:
        seen.append((i, drone.lin_vel[0, 0, 2].item()))
        rotors.set_control(torch.full((1, 4), 0.8 * G / 4 if i >= 2 else 0.0))

    world.inner_loops = (loop,)
    world.step(4)
    assert [i for i, _ in seen] == [0, 1, 2, 3]
    assert [v for _, v in seen] == pytest.approx([0, -G * world.dt, -2 * G * world.dt, -2 * G * world.dt], abs=1e-3)


def test_inner_loops_work_side_by_side_and_beside_rows(make: Make) -> None:
    """Two loops for a rotor each and rows for the other two: as when all four are set before every physics step."""
    controls = 4.0 * torch.rand(2, 6, 4, generator=torch.Generator().manual_seed(0))
    names = ["r1", "r2", "r3", "r4"]
    together = make(DRONE, ROTORS, n=2)
    apart = make(DRONE, ROTORS, n=2)
    called: list[tuple[str, int]] = []

    def loop_of(name: str, column: int) -> Callable[[int], None]:
        rotor = together.actuators([name])

        def loop(i: int) -> None:
            called.append((name, i))
            rotor.set_control(controls[:, i, column, None])

        return loop

    rows = together.actuators(names[2:])
    every = apart.actuators(names)
    together.inner_loops = (loop_of("r1", 0), loop_of("r2", 1))
    for again in range(2):
        rows.set_control(controls[:, :, 2:])
        together.step(6)
        for i in range(6):
            every.set_control(controls[:, i])
            apart.step()
        assert torch.equal(together.bodies(["drone"]).state, apart.bodies(["drone"]).state)
        assert torch.equal(together.actuators(names).control, controls[:, -1])
        assert called[12 * again :] == [(name, i) for i in range(6) for name in ("r1", "r2")]
    rows.set_control(controls[:, :, 2:])
    with pytest.raises(RookeryError, match="one row each"):
        together.step(3)


def test_wrench_pushes_at_the_centre_of_mass(make: Make) -> None:
    world = make(DRONE + PENDULUM)
    world.params.set("gravity", (), torch.zeros(1, 3))
    both = world.bodies(["drone", "rod"])
    wrench = torch.zeros(1, 2, 6)
    wrench[0, 0, 1] = 0.4
    wrench[0, 0, 3] = 0.004
    wrench[0, 1, 0] = 1.0
    both.set_wrench(wrench)
    world.step(10)
    t = 10 * world.dt
    drone = world.bodies(["drone"])
    hinge = world.joints(["hinge"])
    assert drone.ang_vel[0, 0].tolist() == pytest.approx([t, 0, 0], rel=1e-3, abs=1e-4)
    assert com_velocity(drone)[0].tolist() == pytest.approx([0, 0.5 * t, 0], rel=1e-3, abs=1e-4)
    assert hinge.vel.item() == pytest.approx(-0.5 / (0.06 + 0.7 * 0.25) * t, rel=2e-3)
    world.reset()
    world.step(10)
    assert drone.lin_vel.abs().max() < 1e-6  # reset took the wrench away


def test_a_wrench_in_some_worlds_leaves_those_of_the_others(make: Make) -> None:
    world = make(DRONE, n=3)
    world.params.set("gravity", (), torch.zeros(3, 3))
    drone = world.bodies(["drone"])
    wrench = torch.zeros(3, 1, 6)
    wrench[:, 0, 1] = torch.tensor([0.4, 0.2, 0.1])
    drone.set_wrench(wrench)
    drone.set_wrench(torch.tensor([[[0.0, -0.8, 0, 0, 0, 0]], [[0.0, 0.0, 0, 0, 0, 0]]]), torch.tensor([0, 2]))
    world.step(10)
    per_newton = 10 * world.dt / 0.8
    assert com_velocity(drone)[:, 1].tolist() == pytest.approx([-0.8 * per_newton, 0.2 * per_newton, 0.0], rel=1e-3)


def test_contact_and_touch_sensors_carry_the_weight(make: Make) -> None:
    sensors = """<contact name="net" body1="box" data="found force" reduce="netforce"/>
        <contact name="pair" geom1="floor" geom2="box" data="found normal" reduce="mindist"/>
        <touch name="feel" site="skin"/>"""
    box = BOX.format(z=0.2, mu=1).replace("</body>", '<site name="skin" type="box" size="0.12 0.12 0.06"/></body>')
    world = make(FLOOR.format(mu=1) + box, sensors=sensors)
    net, pair, feel = (world.sensors(n) for n in ("net", "pair", "feel"))
    world.step()
    assert net.data.abs().max() == pair.data.abs().max() == feel.data.abs().max() == 0
    run(world, 1.5)
    assert net.data[0, 0] >= 3
    # the force is the box's on the floor: MuJoCo's normal points from the first object to the second
    assert net.data[0, 1:].tolist() == pytest.approx([0, 0, -0.5 * G], abs=0.02 * G)
    assert pair.data[0, 1:].tolist() == pytest.approx([0, 0, 1], abs=1e-3)
    assert feel.data.item() == pytest.approx(0.5 * G, rel=0.02)


def test_inertial_sensors(make: Make) -> None:
    sensors = """<gyro name="gyro" site="imu"/><accelerometer name="acc" site="imu"/><framequat name="q" objtype="body"
        objname="drone"/><velocimeter name="v" site="imu"/>"""
    world = make(DRONE, ROTORS, sensors)
    gyro, acc, quat = (world.sensors(n) for n in ("gyro", "acc", "q"))
    drone = world.bodies(["drone"])
    rotors = world.actuators(["r1", "r2", "r3", "r4"])
    world.step(3)
    if world.engine == "pybullet":  # MuJoCo computes accelerations in the step itself, one step late
        assert acc.data[0].tolist() == pytest.approx([0, 0, 0], abs=1e-3)
    rotors.set_control(torch.tensor([[2.1, 1.9, 1.9, 2.1]]))
    world.step(20)
    assert gyro.data[0].tolist() == pytest.approx(drone.ang_vel[0, 0].tolist(), abs=1e-5)
    assert quat.data[0].tolist() == pytest.approx(drone.quat[0, 0].tolist(), abs=1e-6)
    assert acc.data[0, 2].item() == pytest.approx(8.0 / 0.8, rel=0.05)


def test_diverged_world_is_put_back_and_the_others_never_notice(make: Make) -> None:
    results = []
    for broken in (False, True):
        world = make(FLOOR.format(mu=1) + BOX.format(z=0.5, mu=1), n=3)
        box = world.bodies(["box"])
        one = torch.tensor([1])
        world.step(5)
        if broken:
            wrench = torch.zeros(3, 1, 6)
            wrench[1, 0, 2] = float("nan")
            box.set_wrench(wrench)
        world.step(5)
        assert world.failed.tolist() == ([1] if broken else [])
        box.set_wrench(torch.zeros(3, 1, 6))
        if broken:
            assert box.state[1, 0, :3].tolist() == pytest.approx([0, 0, 0.5])
            huge = box.state[one].clone()
            huge[..., 7:13] = 1e12
            box.set_state(one, huge)
        world.step(5)
        assert world.failed.tolist() == ([1] if broken else [])
        world.step(400)
        assert not len(world.failed)
        assert world.failures == (2 if broken else 0)
        assert torch.isfinite(box.state).all()
        assert box.pos[1, 0, 2].item() == pytest.approx(0.05, abs=1e-3)
        results.append(box.state[[0, 2]].clone())
    assert torch.equal(results[0], results[1])


def test_unknown_names_offer_the_nearest(make: Make) -> None:
    world = make(DRONE, ROTORS, '<gyro name="gyro" site="imu"/>')
    with pytest.raises(RookeryError, match="unknown body 'dron': did you mean 'drone'"):
        world.bodies(["dron"])
    with pytest.raises(RookeryError, match="unknown actuator 'r5'"):
        world.actuators(["r5"])
    with pytest.raises(RookeryError, match="unknown sensor 'gyr': did you mean 'gyro'"):
        world.sensors("gyr")
    with pytest.raises(RookeryError, match="unknown joint"):
        world.joints(["hinge"])
    with pytest.raises(RookeryError, match="unknown parameter field 'mas': did you mean 'mass'"):
        world.params.get("mas", ["drone"])


def test_poses_are_refused_for_bodies_that_are_not_free(make: Make) -> None:
    rod = make(PENDULUM).bodies(["rod"])
    with pytest.raises(RookeryError, match="not all free"):
        rod.set_state(None, rod.state)


def test_snapshot_continues_where_it_was(make: Make) -> None:
    world = make(FLOOR.format(mu=0.5) + DRONE + PENDULUM, ROTORS, n=2)
    drone = world.bodies(["drone"])
    hinge = world.joints(["hinge"])
    rotors = world.actuators(["r1", "r2", "r3", "r4"])
    world.params.set("mass", ["drone"], torch.tensor([[0.7], [0.9]]))
    hinge.set_state(None, torch.tensor([[1.0], [2.0]]))
    rotors.set_control(torch.tensor([[2.0, 2.1, 2.0, 1.9]]).repeat(2, 1))
    world.step(50)
    saved = world.snapshot()
    world.step(50)
    after = drone.state.clone(), hinge.pos.clone()
    world.params.set("mass", ["drone"], torch.tensor([[5.0], [5.0]]))
    world.reset()
    world.step(7)
    world.restore(saved)
    world.step(50)
    assert torch.allclose(drone.state, after[0], atol=0 if world.engine == "mujoco" else 1e-6)
    assert torch.allclose(hinge.pos, after[1], atol=0 if world.engine == "mujoco" else 1e-6)
    with pytest.raises(RookeryError, match="num_envs"):
        make(FLOOR.format(mu=0.5) + DRONE + PENDULUM, ROTORS, n=3).restore(saved)


def test_mj_data_shows_the_world(make: Make) -> None:
    world = make(DRONE + PENDULUM, n=2)
    world.joints(["hinge"]).set_state(torch.tensor([1]), torch.tensor([[0.7]]), torch.tensor([[0.0]]))
    world.forward()
    data = world.mj_data(1)
    assert data.joint("hinge").qpos[0] == pytest.approx(0.7, abs=1e-6)
    assert data.body("rod").xmat.reshape(3, 3)[0, 0] == pytest.approx(math.cos(0.7), abs=1e-6)
    assert world.mj_data(0, data).joint("hinge").qpos[0] == pytest.approx(0.0)
