"""What randomization may change in robots: every draw is a robot that exists, and acts as it should."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

import rookery
from rookery.sim.multirotor import layout

every_engine = pytest.mark.parametrize("engine", ["rotor", "mujoco"])


def hovering(engine: str, n: int = 3, effects: str = "none"):
    """Drones at rest in the air, rotors at hover, per-rotor thrust commands."""
    env = rookery.make("drone-hover", num_envs=n, engine=engine, config={"action": "rotor_thrust", "effects": effects})
    env.reset()
    rest(env)
    return env


def rest(env) -> None:
    state = torch.zeros(env.num_envs, 1, 13)
    state[..., 2] = 2.0
    state[..., 3] = 1.0
    env.task.drones.reset(torch.arange(env.num_envs), state)
    env.world.forward()


def fly(env, steps: int = 1):
    neutral = torch.tensor(env.groups["drone"].action.neutral).expand(env.num_envs, 1, 4)
    for _ in range(steps):
        env.step(neutral)
    return env.task.drones.bodies


def write(env, name: str, values, world: int = 1) -> None:
    env.randomization.parameters[name].write(torch.tensor([world]), torch.as_tensor(values, dtype=torch.float32)[None])


@every_engine
@pytest.mark.parametrize("rotor", range(4))
def test_a_weak_rotor_tips_the_drone_towards_itself(engine, rotor):
    env = hovering(engine)
    factors = torch.ones(4)
    factors[rotor] = 0.9
    write(env, "thrust_coefficient", factors)
    rates = fly(env).ang_vel[:, 0]
    x, y, _ = env.task.drone.rotor_positions[rotor]
    # the missing force -f e_z at (x, y) is the torque (-y f, x f)
    assert rates[1, 0].item() * -y > 0
    assert rates[1, 1].item() * x > 0
    assert rates[0].abs().max() < 1e-4


@every_engine
@pytest.mark.parametrize("rotor", range(4))
def test_more_reaction_torque_of_one_rotor_turns_the_drone_as_that_rotor_pushes(engine, rotor):
    env = hovering(engine)
    factors = torch.ones(4)
    factors[rotor] = 2.0
    write(env, "torque_coefficient", factors)
    assert fly(env).ang_vel[1, 0, 2].item() * env.task.drone.directions[rotor] > 0


@every_engine
def test_each_rotor_has_its_own_lag(engine):
    env = hovering(engine)
    write(env, "rotor_lag", [0.5, 1.0, 2.0, 4.0])
    stop = -torch.ones(3, 1, 4)
    env.step(stop)
    speed = env.task.drones.rotor_speed[1, 0]
    assert (speed.diff() > 0).all()
    down = env.task.drone.tau_down * torch.tensor([0.5, 1.0, 2.0, 4.0])
    want = env.task.drone.hover_speed * torch.exp(-env.control_dt / down)
    torch.testing.assert_close(speed, want, rtol=1e-3, atol=1e-4)


@every_engine
def test_a_shifted_centre_of_mass_tips_the_drone_towards_it(engine):
    env = hovering(engine)
    write(env, "com_x", 0.004)
    write(env, "com_y", 0.003, world=2)
    rates = fly(env).ang_vel[:, 0]
    weight = env.task.drone.mass * 9.81
    ix, iy, _ = env.task.drone.inertia
    t = env.control_dt
    assert rates[1, 1].item() == pytest.approx(0.004 * weight / iy * t, rel=0.02)
    assert rates[2, 0].item() == pytest.approx(-0.003 * weight / ix * t, rel=0.02)


@every_engine
def test_a_load_adds_mass_and_inertia_as_computed_by_hand(engine):
    env = hovering(engine)
    load = 0.2 * env.task.drone.mass
    env.randomization.parameters["mass"].write(torch.tensor([1]), torch.tensor([1.1]))
    write(env, "load", load)
    mass, h = 1.1 * env.task.drone.mass, 0.5 * env.task.drone.body_height
    p = env.world.params
    base = ["drone_0/base"]
    assert p.get("mass", base)[1, 0].item() == pytest.approx(mass + load, rel=1e-6)
    both = mass * load / (mass + load) * h * h
    want = torch.tensor(env.task.drone.inertia) + torch.tensor([both, both, 0.0])
    torch.testing.assert_close(p.get("inertia", base)[1, 0].sort().values, want.sort().values, rtol=1e-5, atol=0.0)
    assert torch.allclose(p.get("inertia", base)[0, 0], torch.tensor(env.task.drone.inertia))
    if engine == "mujoco":
        assert p.get("com", base)[1, 0].tolist() == pytest.approx([0.0, 0.0, -load / (mass + load) * h])
    v = fly(env, 5).lin_vel[:, 0, 2]
    assert v[1].item() == pytest.approx(
        9.81 * (env.task.drone.mass / (mass + load) - 1.0) * 5 * env.control_dt, rel=0.01
    )


def test_mass_and_load_do_not_depend_on_the_order_of_writes():
    env = hovering("rotor")
    values = {"mass": 1.2, "inertia": 1.3, "load": 0.1 * env.task.drone.mass}
    for world, order in enumerate((list(values), list(values)[::-1])):
        for name in order:
            env.randomization.parameters[name].write(torch.tensor([world]), torch.tensor([values[name]]))
    rows = env.world.read_varied([0], layout.MASS, 14)[:2, 0]
    torch.testing.assert_close(rows[0], rows[1], rtol=0.0, atol=0.0)
    full, inverse = rows[0, 2:8], rows[0, 8:14]
    assert [a * b for a, b in zip(full[:3].tolist(), inverse[:3].tolist(), strict=True)] == pytest.approx([1.0] * 3)


def test_wind_blows_in_its_world_alone_and_its_gusts_are_those_of_its_strength():
    env = rookery.make("drone-hover", num_envs=400, engine="rotor", config={"effects": "realistic"})
    env.reset()
    for name, value in (("wind_speed", 4.0), ("wind_direction", np.pi / 2)):
        env.randomization.parameters[name].write(torch.arange(200), torch.full((200,), value))
    air = []
    for _ in range(10):
        env.step(torch.zeros(400, 1, 4))
        lanes = torch.as_tensor(env.world.worlds).view(-1, layout.WORLD, layout.LANES)[:, layout.AIR : layout.AIR + 3]
        air.append(lanes.transpose(1, 2).reshape(-1, 3)[:400])
    windy, calm = torch.stack(air)[:, :200], torch.stack(air)[:, 200:]
    assert windy[..., 1].mean().item() == pytest.approx(4.0, abs=0.4)
    assert windy[..., 0].mean().abs() < 0.4
    assert windy[-1].std(0).min() > 0.2
    assert (calm == 0.0).all()
    saved = env.state_dict()
    again = rookery.make("drone-hover", num_envs=400, engine="rotor", config={"effects": "realistic"})
    again.reset()
    again.load_state_dict(saved)
    a, b = (e.step(torch.zeros(400, 1, 4))[0]["drone"] for e in (env, again))
    assert torch.equal(a, b)


def test_a_tired_battery_slows_the_rotors():
    env = rookery.make(
        "drone-hover", num_envs=2, engine="rotor", config={"action": "rotor_thrust", "effects": "realistic"}
    )
    env.reset()
    env.randomization.parameters["battery_charge"].write(torch.tensor([1]), torch.tensor([0.1]))
    rest(env)
    for _ in range(20):
        env.step(torch.ones(2, 1, 4))
    speed = env.task.drones.rotor_speed[:, 0].mean(-1)
    assert speed[1] < 0.97 * speed[0]


def test_ground_effect_is_a_factor_on_the_drones_own():
    env = rookery.make("drone-hover", num_envs=2, engine="rotor", config={"effects": "realistic"})
    env.reset()
    env.randomization.parameters["ground_effect"].write(torch.tensor([1]), torch.tensor([0.25]))
    gain = env.world.read_varied([0], layout.GROUND_GAIN, 1)[:, 0, 0]
    assert gain[0].item() == pytest.approx(env.task.drone.ground_effect_gain)
    assert gain[1].item() == pytest.approx(0.25 * env.task.drone.ground_effect_gain)


# The Go2


@pytest.fixture(scope="module")
def go2():
    env = rookery.make("go2-velocity", num_envs=16, randomize="all", seed=2)
    env.reset()
    return env


def test_every_drawn_go2_exists(go2):
    """Moments of inertia are positive and each is at most the sum of the others."""
    p = go2.world.params
    m = go2.world.model
    bodies = [m.body(b).name for b in range(1, m.nbody) if m.body(b).name.startswith("go2/")]
    for _ in range(5):
        moments = p.get("inertia", bodies).double()
        assert (moments > 0).all()
        assert (moments.sum(-1, keepdim=True) - 2.0 * moments > -1e-9).all()
        assert (p.get("mass", bodies) > 0).all()
        go2.reset()


def test_a_payload_moves_the_centre_of_mass_and_adds_inertia():
    env = rookery.make("go2-velocity", num_envs=2)
    env.reset()
    base = ["go2/base"]
    p = env.world.params
    mass, com = p.nominal("mass", base).item(), p.nominal("com", base)[0].double().numpy()
    write(env, "payload", 2.0)
    place = np.array([0.0, 0.0, 0.057 + 0.06])
    assert p.get("mass", base)[1, 0].item() == pytest.approx(mass + 2.0)
    want = (mass * com + 2.0 * place) / (mass + 2.0)
    assert p.get("com", base)[1, 0].tolist() == pytest.approx(want.tolist(), abs=1e-6)

    def about(point, i):
        """Inertia [3, 3] of the trunk in world i about a point, from what the engine has."""
        axes = matrix_of(p.get("inertia_axes", base)[i, 0].double().numpy())
        moments = p.get("inertia", base)[i, 0].double().numpy()
        m = p.get("mass", base)[i, 0].item()
        d = p.get("com", base)[i, 0].double().numpy() - point
        return axes @ np.diag(moments) @ axes.T + m * (d @ d * np.eye(3) - np.outer(d, d))

    ball = 0.4 * 2.0 * 0.06**2 * np.eye(3)
    np.testing.assert_allclose(about(place, 1), about(place, 0) + ball, atol=1e-6)
    write(env, "payload", -1.0)
    assert p.get("mass", base)[1, 0].item() == pytest.approx(mass - 1.0)
    assert p.get("com", base)[1, 0].tolist() == pytest.approx(com.tolist(), abs=1e-6)


@pytest.mark.parametrize("task", ["go2-velocity", "drone-hover"])
def test_mass_centre_and_inertia_do_not_depend_on_the_order_of_writes(task):
    """A load that is drawn once and a mass that each episode draws anew are written one after the other."""
    env = rookery.make(task, num_envs=2, engine="mujoco")
    env.reset()
    load, mass, body = (
        ("payload", "trunk_mass", "go2/base") if task == "go2-velocity" else ("load", "mass", "drone_0/base")
    )
    weight = env.world.params.nominal("mass", [body]).item()
    values = {load: 0.3 * weight, mass: 1.2, "com_x": 0.004}
    for world, order in enumerate((("com_x", load, mass), (mass, load, "com_x"))):
        for name in order:
            write(env, name, values[name], world)
    for field in ("mass", "com", "inertia"):
        one, other = env.world.params.get(field, [body])
        torch.testing.assert_close(one, other)


def matrix_of(quat):
    w, x, y, z = quat
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("name", "field"), [("kp", "kp"), ("kd", "kd"), ("armature", "armature"), ("joint_damping", "damping")]
)
def test_joints_differ_one_by_one(name, field):
    env = rookery.make("go2-velocity", num_envs=2)
    names = env.task.robot.leg_names
    factors = torch.linspace(0.5, 2.0, 12)
    write(env, name, factors)
    got = env.world.params.get(field, names)
    torch.testing.assert_close(got[1], env.world.params.nominal(field, names) * factors)
    torch.testing.assert_close(got[0], env.world.params.nominal(field, names))


def torque_at(env, speed: float):
    """[N] N m that motor FL_hip gives at a joint speed when its target is far away."""
    robot = env.task.robot
    joints = torch.zeros(env.num_envs, 12)
    vel = torch.zeros(env.num_envs, 12)
    joints[:] = robot.home
    vel[:, 0] = speed
    robot.joints.set_state(None, joints, vel)
    target = joints.clone()
    target[:, 0] += 3.0
    robot.actuators.set_control(target)
    env.world.step(1)
    return robot.actuators.force[:, 0]


def test_strength_and_speed_move_the_ends_of_the_motors_line():
    env = rookery.make("go2-velocity", num_envs=4)
    env.reset()
    motor = torch.ones(12)
    write(env, "motor_strength", 0.5 * motor, world=1)
    write(env, "motor_speed", 0.8 * motor, world=2)
    write(env, "motor_strength", 0.5 * motor, world=3)
    write(env, "motor_speed", 0.8 * motor, world=3)
    at_rest = torque_at(env, 0.0)
    assert (at_rest / at_rest[0]).tolist() == pytest.approx([1.0, 0.5, 1.0, 0.5], rel=1e-3)
    top = 30.1  # rad/s, of the hip's motor (Unitree's Go2 description)
    fast = torque_at(env, 0.79 * top)
    assert fast[0] > 0.15 * at_rest[0]
    assert fast[2] < 0.05 * at_rest[0]
    assert (fast[3] / fast[2]).item() == pytest.approx(0.5, rel=0.05)


def test_encoders_read_their_offset_and_servos_follow_what_is_read():
    env = rookery.make("go2-velocity", num_envs=2, config={"push_s": 0.0, "start_joints": 0.0})
    env.reset()
    offset = torch.zeros(12)
    offset[3] = 0.1
    write(env, "encoder_offset", offset)
    robot = env.task.robot
    robot.refresh()
    assert (robot.measured[1] - robot.pos[1])[3].item() == pytest.approx(0.1)
    robot.command(robot.home.expand(2, 12))
    sent = robot.actuators.control
    assert (sent[1] - sent[0])[3].item() == pytest.approx(-0.1)
    saved = env.state_dict()
    env.load_state_dict(saved)
    assert torch.equal(robot.offset[1], offset)


# Arms and the hand


@pytest.mark.parametrize(("task", "group"), [("table-push", "arm"), ("hand-reorient", "hand")])
def test_servos_of_arms_and_hands_differ_joint_by_joint(task, group):
    env = rookery.make(task, num_envs=2)
    env.reset()
    p = env.world.params
    owner = env.task.hand if group == "hand" else next(iter(env.task.arms.values()))
    names = owner.joint_names[: 16 if group == "hand" else 7]
    parameters = env.randomization.parameters
    assert parameters["kp"].components == tuple(n.split("/")[1] for n in names)
    factors = torch.linspace(0.8, 1.2, len(names))
    write(env, "kp", factors)
    for field in ("gain", "bias_position"):
        torch.testing.assert_close(p.get(field, names)[1], p.nominal(field, names) * factors)
    write(env, "kd", factors)
    torch.testing.assert_close(p.get("bias_velocity", names)[1], p.nominal("bias_velocity", names) * factors)
    write(env, "motor_strength", factors)
    torch.testing.assert_close(p.get("force_range", names)[1], p.nominal("force_range", names) * factors[:, None])
    write(env, "joint_friction", 0.1 * factors)
    torch.testing.assert_close(
        p.get("frictionloss", names)[1], p.nominal("frictionloss", names) + 0.1 * factors, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_dry_friction_of_knees_brakes_knees_alone(engine):
    """Without gravity, servos and damping, friction is all that brakes turning knees: M^-1 times its torques."""
    rate = {}
    for torque in (0.0, 0.6):
        env = rookery.make("go2-velocity", engine=engine, num_envs=1, randomize="none")
        env.reset()
        robot, p = env.task.robot, env.world.params
        p.set("gravity", (), torch.zeros(1, 3))
        for field in ("kp", "kd", "damping"):
            names = robot.leg_names
            p.set(field, names, torch.zeros_like(p.nominal(field, names))[None])
        env.randomization.parameters["knee_friction"].write(torch.tensor([0]), torch.tensor([torque]))
        state = torch.zeros(1, 1, 13)
        state[..., 2:4] = 1.0
        robot.base.set_state(None, state)
        speed = torch.zeros(1, 12)
        speed[:, 2::3] = 1.0
        robot.joints.set_state(None, robot.home[None], speed)
        env.world.forward()
        env.world.step(4)
        rate[torque] = (robot.joints.vel[0] - speed[0]) / (4 * env.world.dt)
    braked = rate[0.6] - rate[0.0]
    model = env.world.model
    data = mujoco.MjData(model)
    data.qpos[7:19] = robot.home.numpy()
    mujoco.mj_forward(model, data)
    mass = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, mass)
    push = np.zeros(model.nv)
    push[8::3] = -0.6
    expected = np.linalg.solve(mass, push)[6:]
    np.testing.assert_allclose(braked.numpy(), expected, rtol=0.1, atol=0.03 * np.abs(expected).max())


@pytest.mark.parametrize(
    "task", ["drone-hover", "go2-velocity", "go2arm-reach", "table-push", "hand-reorient", "volley-1v1"]
)
def test_everything_can_be_drawn_at_once(task):
    env = rookery.make(task, num_envs=4, randomize="all")
    obs, _ = env.reset()
    for _ in range(5):
        obs, *_ = env.step({g: torch.zeros(4, s.count, s.action.size) for g, s in env.groups.items()})
    assert all(torch.isfinite(o).all() for o in obs.values())
    assert any(":" in name for name in env.randomization.names)
