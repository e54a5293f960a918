"""The World contract on the `rotor` engine: views, commands, resets, failures and errors."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch
from rotor_scenes import ACTUATORS, REALISTIC, bare_ground, exact, exacts, put, scene, world

from rookery.robots.drones.crazyflie import CRAZYFLIE_21 as C
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.engines.rotor.world import RotorWorld
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor import layout as at

BASE = ["drone_0/base"]


def test_the_state_that_is_written_is_read_in_its_worlds():
    w = world(20, drones=((0, 0, 1), (1, 0, 1)), balls=((2, 0, 1),))
    view = w.bodies(["ball_0/base", "drone_1/base"])
    both = w.bodies(["drone_0/base", "drone_1/base"])
    g = torch.Generator().manual_seed(0)
    ids = torch.tensor([0, 15, 16, 19])
    state = torch.randn(4, 2, 13, generator=g)
    before = view.state.clone()
    view.set_state(ids, state)
    got = view.state
    unit = state[..., 3:7] / state[..., 3:7].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(got[ids][..., 3:7], unit)
    torch.testing.assert_close(
        torch.cat((got[..., :3], got[..., 7:]), -1)[ids], torch.cat((state[..., :3], state[..., 7:]), -1)
    )
    others = np.setdiff1d(np.arange(20), ids)
    assert torch.equal(got[others], before[others])
    assert torch.equal(both.state[:, 1], got[:, 1])
    assert got.dtype == torch.float32
    torch.testing.assert_close(view.lin_vel, got[..., 7:10])


def test_a_new_world_is_the_scene_at_rest():
    w = world(17, drones=((0, 0, 1), (1, 2, 3)), balls=((2, 0, 1),))
    state = w.bodies(["drone_1/base", "ball_0/base"]).state
    assert torch.equal(state, torch.tensor([[1.0, 2, 3, 1, *[0] * 9], [2.0, 0, 1, 1, *[0] * 9]]).expand(17, 2, 13))
    assert (w.num_envs, w.dt, w.engine, w.device) == (17, 0.002, "rotor", torch.device("cpu"))


def test_a_reset_puts_its_worlds_back_and_no_others():
    w = world(20, balls=((2, 0, 1),), fx=REALISTIC)
    u = w.actuators([f"drone_0/{a}" for a in ACTUATORS])
    u.set_control(torch.full((20, 5), 0.1) * torch.tensor([1.0, 1, 1, 1, 0]))
    w.bodies(BASE).set_wrench(torch.tensor([0.4, 0, 0, 0, 0, 0]).expand(20, 1, 6))
    w.step(10)
    ids = torch.tensor([3, 18])
    late = exacts(w, "drone_0/base")
    w.reset(ids)
    now = exacts(w, "drone_0/base")
    others = np.setdiff1d(np.arange(20), ids)
    np.testing.assert_array_equal(now[others], late[others])
    np.testing.assert_array_equal(now[ids], np.tile([0, 0, 50, 1, *[0] * 9], (2, 1)))
    assert float(u.control[ids].abs().max()) == 0.0
    assert float(u.control[others, :4].min()) == pytest.approx(0.1)
    w.step(5)  # no thrust, no wrench: it falls
    assert exacts(w, "drone_0/base")[3, 9] == pytest.approx(-9.81 * 5 * w.dt, rel=1e-2)
    assert exacts(w, "drone_0/base")[3, 7] == 0.0
    assert exacts(w, "drone_0/base")[4, 9] > 0


def test_a_wrench_in_some_worlds_leaves_those_of_the_others():
    w = world(20)
    view = w.bodies(BASE)
    view.set_wrench(torch.tensor([0.4, 0, 0, 0, 0, 0]).expand(20, 1, 6))
    view.set_wrench(torch.tensor([[[-0.8, 0, 0, 0, 0, 0]], [[0.0, 0, 0, 0, 0, 0]]]), torch.tensor([3, 17]))
    w.step(1)
    speed = exacts(w, "drone_0/base")[:, 7]
    want = np.full(20, speed[0])
    want[[3, 17]] = -2.0 * speed[0], 0.0
    assert speed[0] > 0.0
    np.testing.assert_allclose(speed, want, rtol=1e-9)


def test_controls_of_some_actuators_leave_the_others():
    w = world(2, drones=((0, 0, 1), (1, 0, 1)))
    one = w.actuators(["drone_1/rotor_2", "drone_0/reaction"])
    every = w.actuators([f"drone_{d}/{a}" for d in (0, 1) for a in ACTUATORS])
    every.set_control(torch.arange(20.0).view(2, 10) * 1e-3)
    one.set_control(torch.tensor([[0.5, 0.6], [0.7, 0.8]]))
    expected = torch.arange(20.0).view(2, 10) * 1e-3
    expected[:, 6] = torch.tensor([0.5, 0.7])
    expected[:, 4] = torch.tensor([0.6, 0.8])
    torch.testing.assert_close(every.control, expected)
    w.step(1)
    torch.testing.assert_close(every.force, expected)
    torch.testing.assert_close(one.force, torch.tensor([[0.5, 0.6], [0.7, 0.8]]))


@pytest.mark.parametrize("order", ["rows first", "held first"])
def test_rows_for_some_actuators_and_held_controls_for_others(order):
    out = []
    for w in (RotorWorld(scene(drones=((0, 0, 1),)), 2, 1), MujocoWorld(scene(drones=((0, 0, 1),)), 2, 1)):
        left = w.actuators(["drone_0/rotor_1", "drone_0/rotor_2"])
        right = w.actuators(["drone_0/rotor_3", "drone_0/rotor_4"])
        rows = 0.05 + 0.02 * torch.rand(2, 4, 2, generator=torch.Generator().manual_seed(0))
        calls = [lambda: left.set_control(rows), lambda: right.set_control(torch.full((2, 2), 0.07))]  # noqa: B023
        for call in calls if order == "rows first" else calls[::-1]:
            call()
        w.step(4)
        torch.testing.assert_close(left.control, rows[:, -1])
        torch.testing.assert_close(right.control, torch.full((2, 2), 0.07))
        w.step(3)
        out.append(w.bodies(BASE).state.clone())
    torch.testing.assert_close(*out, rtol=1e-3, atol=1e-5)


def test_a_wrench_is_held_and_is_in_world_axes():
    w = world(2)
    put(w, "drone_0/base", quat=(math.cos(0.5), 0, 0, math.sin(0.5)))
    wrench = torch.zeros(2, 1, 6)
    wrench[1, 0] = torch.tensor([0.1, 0.2, 0.3, 1e-6, 2e-6, 0])
    w.bodies(BASE).set_wrench(wrench)
    for _ in range(10):
        w.step(2)
    x = exact(w, "drone_0/base", 1)
    np.testing.assert_allclose(x[7:10], np.array([0.1, 0.2, 0.3]) / C.mass * 0.04 - [0, 0, 9.81 * 0.04], atol=1e-6)
    c, s = math.cos(1.0), math.sin(1.0)
    turned = np.array([c * 1e-6 + s * 2e-6, -s * 1e-6 + c * 2e-6])
    np.testing.assert_allclose(x[10:12], turned / np.array(C.inertia[:2]) * 0.04, rtol=1e-4)
    np.testing.assert_allclose(exact(w, "drone_0/base", 0)[10:], 0, atol=1e-12)


@pytest.mark.parametrize("how", ["state", "wrench", "command", "far"])
def test_a_diverged_world_is_reset_and_counted_and_others_do_not_notice(how):
    n = 20
    bad = 17
    w, calm = (world(n, drones=((0, 0, 1),), balls=((1, 0, 1),), base=bare_ground, fx=REALISTIC) for _ in range(2))
    for x in (w, calm):
        m = x.multirotors(["drone_0"])
        m.start(None, torch.full((n, 1, 4), 0.8))
        m.command(1, torch.tensor([1.0, 0.0, 0.0, 0.3]).expand(n, 1, 4))
        x.step(5)
        if x is w:
            if how in ("state", "far"):
                row = torch.full((1, 1, 13), math.nan if how == "state" else 1e8)
                x.bodies(["ball_0/base"]).set_state(torch.tensor([bad]), row)
            elif how == "wrench":
                wrench = torch.zeros(n, 1, 6)
                wrench[bad] = 1e30
                x.bodies(BASE).set_wrench(wrench)
            else:
                rates = torch.tensor([1.0, 0.0, 0.0, 0.3]).repeat(n, 1, 1)
                rates[bad, 0, 2] = math.nan
                m.command(1, rates)
        x.step(5)
    assert w.failed.tolist() == [bad]
    assert w.failures == 1
    assert calm.failed.numel() == 0
    others = np.setdiff1d(np.arange(n), [bad])
    for body in ("drone_0/base", "ball_0/base"):
        np.testing.assert_array_equal(exacts(w, body)[others], exacts(calm, body)[others])
    np.testing.assert_array_equal(exact(w, "drone_0/base", bad), [0, 0, 1, 1, *[0] * 9])
    w.step(5)
    assert w.failed.numel() == 0
    assert w.failures == 1


def test_levels_of_the_cascade_are_commanded_natively():
    n = 4
    w = world(n, drones=((0, 0, 2),), fx=REALISTIC)
    m = w.multirotors(["drone_0"])
    m.start(None, torch.full((n, 1, 4), C.hover_speed))
    goal = torch.tensor([0.5, -0.4, 2.3])
    m.command(4, torch.cat((goal, torch.tensor([0.7]))).expand(n, 1, 4))
    w.step(3000)
    x = exact(w, "drone_0/base")
    np.testing.assert_allclose(x[:3], goal, atol=0.03)
    assert 2 * math.atan2(x[6], x[3]) == pytest.approx(0.7, abs=0.02)
    m.command(3, torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(n, 1, 4))
    w.step(1500)
    np.testing.assert_allclose(exact(w, "drone_0/base")[7:10], [1, 0, 0], atol=0.05)


def test_a_sensor_of_another_kind_and_joints_name_the_engine_that_has_them():
    w = world()
    with pytest.raises(RookeryError, match="engine 'rotor' has no joints: use engine 'mujoco'"):
        w.joints(["drone_0/root"])
    s = scene(base=bare_ground)
    s.add_contact_sensor("drone_0/collision", ["ground"])
    w = RotorWorld(s, 1, 1)
    names = [w.model.sensor(k).name for k in range(w.model.nsensor)]
    other = next(k for k in names if not k.startswith("drone_0/"))
    with pytest.raises(RookeryError, match="use engine 'mujoco'"):
        w.sensors(other)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.bodies(["drone_0/bsae"]), "did you mean 'drone_0/base'"),
        (lambda w: w.actuators(["drone_0/rotor1"]), "did you mean 'drone_0/rotor_1'"),
        (lambda w: w.sensors("drone_0/imu_gyr"), "did you mean 'drone_0/imu_gyro'"),
        (lambda w: w.contact_sensor("grund", ["drone_0/collision"]), "did you mean 'ground'"),
        (lambda w: w.contact_sensor("ground", ["drone_0/colision"]), "did you mean 'drone_0/collision'"),
        (lambda w: w.contact_sensor("ground", []), "name at least one"),
        (lambda w: w.multirotors(["drone_9"]), "drone_9/base"),
        (lambda w: w.bodies(BASE).set_state(None, torch.zeros(3, 1, 13)), r"states must be \[2, 1, 13\], got \[3, 1, 13\]"),
        (lambda w: w.bodies(BASE).set_state(torch.tensor([1]), torch.zeros(2, 1, 13)), r"states must be \[1, 1, 13\]"),
        (lambda w: w.bodies(BASE).set_wrench(torch.zeros(2, 6)), r"wrenches must be \[2, 1, 6\], got \[2, 6\]"),
        (lambda w: w.actuators(["drone_0/rotor_1"]).set_control(torch.zeros(2, 2)), r"controls must be \[2, 1\]"),
        (lambda w: w.multirotors(["drone_0"]).command(1, torch.zeros(9, 1, 4)), r"commands must be \[2, 1, 1, 4\]"),
        (lambda w: w.multirotors(["drone_0"]).start(None, torch.zeros(2, 4)), r"rotor speeds must be \[2, 1, 4\]"),
    ],
)  # fmt: skip
def test_wrong_names_and_shapes_are_refused(call, message):
    with pytest.raises(RookeryError, match=message):
        call(world(2, base=bare_ground))


def test_rows_for_another_number_of_steps_are_refused():
    w = world(2)
    w.multirotors(["drone_0"]).command(0, torch.zeros(2, 3, 1, 4))
    with pytest.raises(RookeryError, match=r"controls were given for 3 physics steps, but step\(4\) was called"):
        w.step(4)
    w.step(3)
    w.step(4)


def test_drones_without_any_ground_or_ball_and_balls_without_drones():
    for options in ({"drones": ((0, 0, 1),)}, {"drones": (), "balls": ((0, 0, 1),)}):
        w = world(3, **options)
        w.step(3)
        body = w.parts.bodies[0]
        assert exact(w, body)[9] == pytest.approx(-9.81 * 0.006)
        assert w.mj_data(0).body(body).xpos[2] < 1.0
        w.close()
    assert at.LANES == 16
    assert isinstance(w.model, mujoco.MjModel)
