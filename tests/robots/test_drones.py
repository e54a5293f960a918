"""Drones in a world: every action kind of every type under the classical controller, and what declarations promise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sampled import slow_but

import rookery
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.drone import LEVELS, WORKSPACE, Drones, action_spec
from rookery.robots.drones.kernels import MEMORY_SIZE
from rookery.robots.drones.table import DRONES
from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor import layout
from rookery.sim.multirotor.parameters import DroneParameters
from rookery.sim.world import World
from rookery.tasks.drones.hover import Hover, HoverConfig

every_drone = pytest.mark.parametrize("drone", DRONES)
every_kind = pytest.mark.parametrize("kind", LEVELS)
every_engine = pytest.mark.parametrize("engine", ["rotor", "mujoco"])  # controllers and rotors inside, and from outside


def hover(n: int, drone: str, kind: str, engine: str = "rotor", **config: Any) -> VecEnv:
    return rookery.make("drone-hover", n, engine=engine, config={"drone": drone, "action": kind, **config})


def level(env: VecEnv, height: float = 2.0) -> torch.Tensor:
    """[N, A, 13]: at rest, drones side by side."""
    state = torch.zeros(env.num_envs, env.task.cfg.num_drones, 13)
    state[..., :3] = env.task.places
    state[..., 2] = height
    state[..., 3] = 1.0
    return state


def fly(env: VecEnv) -> dict[str, torch.Tensor]:
    """One whole episode of every world by the baseline; gives its record."""
    controller = env.task.controller()
    obs, _ = env.reset()
    for _ in range(env.max_episode_steps):
        obs, _, _, _, info = env.step(controller(obs))
    return info.get("episode", {"ids": torch.zeros(0)})


@every_drone
@every_kind
def test_the_declaration(drone, kind):
    spec = action_spec(DRONES[drone], kind)
    assert spec.size == len(spec.units) == len(set(spec.names)) == 4
    assert all(low < high for low, high in zip(spec.low, spec.high, strict=True))
    assert all(-1 <= a <= 1 for a in spec.neutral)
    d = DRONES[drone]
    weight = 9.81 * DRONES[drone].mass
    physical = [lo + (a + 1) / 2 * (hi - lo) for a, lo, hi in zip(spec.neutral, spec.low, spec.high, strict=True)]
    if kind == "rotor_thrust":
        assert sum(physical) == pytest.approx(weight)
        assert spec.high == (pytest.approx(d.max_thrust),) * 4
    elif kind in ("ctbr", "attitude"):
        assert physical == pytest.approx([0, 0, 0, weight], abs=1e-9)
        assert spec.high[3] == pytest.approx(4 * d.max_thrust)
    else:
        assert physical[:2] == [0, 0]
    if kind == "position":
        assert (spec.low[:3], spec.high[:3]) == WORKSPACE


def test_unknown_kinds_and_drones():
    with pytest.raises(RookeryError, match="unknown action kind 'ctrb': did you mean 'ctbr'"):
        hover(1, "iris", "ctrb")
    with pytest.raises(RookeryError, match="unknown drone 'irsi': did you mean 'iris'"):
        hover(1, "irsi", "ctbr")
    with pytest.raises(RookeryError, match="num_drones must be from 1 to 200"):
        hover(1, "iris", "ctbr", num_drones=0)


@every_drone
@every_kind
def test_commands_and_actions_are_inverse(drone, kind):
    d = hover(2, drone, kind).task.drones
    action = torch.linspace(-1, 1, 40).view(2, 5, 4)
    assert torch.allclose(d.normalized(d.physical(action)), action, atol=1e-6)
    assert torch.allclose(d.physical(torch.ones(4)), torch.tensor(d.spec.high))
    assert torch.allclose(d.physical(-torch.ones(4)), torch.tensor(d.spec.low))
    assert torch.equal(d.normalized(torch.tensor(d.spec.high) * 3 + 1), torch.ones(4))


@every_engine
@every_drone
@pytest.mark.parametrize("kind", ["rotor_thrust", "ctbr", "attitude", "velocity"])
def test_the_neutral_action_hovers(drone, kind, engine):
    """From rest with the rotors at hover speed, far from ground effect: within 1 cm after a second."""
    env = hover(2, drone, kind, engine, effects="none")
    env.reset()
    env.task.drones.reset(torch.arange(2), level(env))
    neutral = torch.tensor(env.groups["drone"].action.neutral, dtype=torch.float32).expand(2, 1, 4)
    for _ in range(100):
        env.step(neutral)
        bodies = env.task.drones.bodies
        assert (bodies.pos[:, 0] - level(env)[:, 0, :3]).norm(dim=-1).max() < 0.01
    assert bodies.ang_vel.abs().max() < 0.02
    thrust = env.world.actuators([f"drone_0/rotor_{i}" for i in (1, 2, 3, 4)]).force.sum(-1)
    assert thrust.tolist() == pytest.approx([9.81 * DRONES[drone].mass] * 2, rel=1e-3)


FLOWN = [(kind, "rotor", drone) for kind in LEVELS for drone in DRONES]
FLOWN += [(kind, "mujoco", drone) for kind in LEVELS for drone in ("crazyflie21", "iris")]
QUICK = [
    *(f for f in FLOWN if f[1] == "rotor" and (f[0] == "ctbr" or f[2] == "crazyflie21")), ("rotor_thrust", "mujoco", "iris"),
]  # fmt: skip
every_flight = pytest.mark.parametrize(("kind", "engine", "drone"), slow_but(QUICK, FLOWN))


@every_flight
def test_the_pilot_hovers(drone, kind, engine):
    """From +-1 m, +-0.5 m/s, tilts up to 30 degrees, any heading. The larger drones take their time."""
    large = DRONES[drone].mass > 0.1
    episode = fly(hover(32, drone, kind, engine, episode_s=8.0 if large else 6.0))
    assert len(episode["ids"]) == 32
    assert episode["metrics"]["success"].mean() >= 0.95
    assert episode["metrics"]["error_m"].mean() < (0.025 if large else 0.05)


@every_flight
def test_the_pilot_tracks_a_circle(drone, kind, engine):
    config = {"drone": drone, "action": kind, "path": "circle", "episode_s": 8.0, "speed": 0.8}
    episode = fly(rookery.make("drone-track", 16, engine=engine, config=config))
    assert len(episode["ids"]) == 16
    assert episode["metrics"]["error_m"].mean() < 0.3
    assert episode["metrics"]["crash"].sum() == 0


@every_engine
@pytest.mark.parametrize("kind", ["ctbr", "position"])
def test_integrated_yaw_flies_as_well(kind, engine):
    episode = fly(hover(16, "crazyflie21", kind, engine, episode_s=6.0, integrated_yaw=True))
    assert episode["metrics"]["success"].mean() >= 0.95


@every_engine
def test_several_drones_fly_their_own_ways(engine):
    episode = fly(hover(8, "crazyflie21", "ctbr", engine, episode_s=6.0, num_drones=3))
    assert episode["metrics"]["success"].mean() >= 0.85


@every_engine
@every_kind
def test_actions_turn_drones_the_way_they_say(kind, engine):
    """One component up at a time, from hover, in worlds of their own."""
    env = hover(4, "crazyflie21", kind, engine)
    env.reset()
    env.task.drones.reset(torch.arange(4), level(env, 1.5 if kind == "position" else 2.0))  # in the middle of WORKSPACE
    action = torch.tensor(env.groups["drone"].action.neutral, dtype=torch.float32).repeat(4, 1)[:, None]
    for i in range(4):
        action[i, 0, i] += 0.2
    for _ in range(30):
        env.step(action)
    b = env.task.drones.bodies
    if kind == "rotor_thrust":
        x, y = torch.tensor(CRAZYFLIE_21.rotor_positions)[:, :2].T
        assert torch.equal(b.ang_vel[:, 0, 0].sign(), y.sign())
        assert torch.equal(b.ang_vel[:, 0, 1].sign(), -x.sign())
        assert torch.equal(b.ang_vel[:, 0, 2].sign(), torch.tensor(CRAZYFLIE_21.directions).float())
    elif kind == "ctbr":
        wanted = 0.2 * torch.tensor(CRAZYFLIE_21.max_rate)
        assert torch.allclose(b.ang_vel[:3, 0].diagonal(), wanted, rtol=0.4)
        assert b.lin_vel[3, 0, 2] > 0.2
    elif kind == "attitude":
        tilt = 2 * b.quat[:2, 0, 1:3].diagonal()
        assert torch.allclose(tilt, torch.full((2,), 0.2 * CRAZYFLIE_21.max_tilt), rtol=0.4)
        assert b.ang_vel[2, 0, 2] > 0.3
        assert b.lin_vel[3, 0, 2] > 0.2
    else:
        assert (b.lin_vel[:3, 0].diagonal() > 0.1).all()
        assert b.ang_vel[3, 0, 2] > 0.1


@every_engine
@pytest.mark.parametrize("kind", ["rotor_thrust", "ctbr"])
def test_rows_of_actions_act_one_physics_step_each(kind, engine):
    """A delay of 2 of 5 physics steps: a control step begins with the action of the one before."""
    config = {"action": kind, "effects": "none"}  # the air on mujoco is renewed at control steps
    late = rookery.make("drone-hover", 1, engine=engine, fixed={"action_delay": 0.004}, config=config)
    fine = rookery.make("drone-hover", 1, engine=engine, config={**config, "control_dt": 0.002})
    for env in (late, fine):
        env.reset()
        env.task.drones.reset(torch.arange(1), level(env))
    neutral = torch.tensor(late.groups["drone"].action.neutral, dtype=torch.float32).expand(1, 1, 4)
    actions = [neutral + 0.2 * torch.randn(1, 1, 4, generator=torch.Generator().manual_seed(i)) for i in range(20)]
    every = [neutral] * 2 + [a for a in actions for _ in range(5)]
    for i, a in enumerate(actions):
        late.step(a)
        for row in every[5 * i : 5 * i + 5]:
            fine.step(row)
        assert torch.allclose(late.task.drones.bodies.state, fine.task.drones.bodies.state, atol=2e-5)


@every_engine
@every_drone
def test_reset_leaves_nothing_behind_in_those_worlds_and_others_alone(drone, engine):
    """What was reset flies on as in a world that never flew before."""
    env, fresh = (hover(3, drone, "attitude", engine, num_drones=2) for _ in range(2))
    env.reset()
    for _ in range(20):
        env.step(torch.full((3, 2, 4), 0.3))
    d = env.task.drones
    speeds = d.rotor_speed.clone()
    before = {k: v.clone() for k, v in d.state_dict().items()}
    others = d.bodies.state[[0, 2]].clone()
    state = level(env)[1:2]
    state[..., 7:] = 0.25
    d.reset(torch.tensor([1]), state)
    assert torch.allclose(d.bodies.state[1], state[0])
    assert torch.allclose(d.rotor_speed[1], torch.tensor(DRONES[drone].hover_speed))
    assert torch.equal(d.bodies.state[[0, 2]], others)
    assert torch.equal(d.rotor_speed[[0, 2]], speeds[[0, 2]])
    for name, v in before.items():
        assert torch.equal(d.state_dict()[name][[0, 2]], v[[0, 2]])
    if engine == "mujoco":
        assert d.memory[1].abs().max() == d.setpoint[1].abs().max() == 0
        assert d.memory.shape == (3, 2, MEMORY_SIZE)
    fresh.task.drones.reset(torch.tensor([1]), state)
    for drones in (d, fresh.task.drones):
        for _ in range(20):
            drones.apply(torch.full((3, 2, 4), 0.1))
            drones.world.step(5)
    assert torch.equal(d.bodies.state[1], fresh.task.drones.bodies.state[1])


@every_engine
@every_drone
def test_parameters_write_their_own_worlds(drone, engine):
    env = hover(4, drone, "ctbr", engine, num_drones=2)
    env.reset()
    d: Drones = env.task.drones
    parameters = d.parameters()
    ids = torch.tensor([1, 3])
    factor = torch.tensor([1.5, 0.5])
    factors = {"mass", "inertia", "thrust_coefficient", "torque_coefficient", "rotor_lag", "drag"} & set(parameters)
    assert len(factors) >= 5
    for name in sorted(factors):
        p = parameters[name]
        assert p.low <= p.nominal <= p.high
        assert p.summary
        p.write(ids, factor)
        if name in ("mass", "inertia"):
            bases = ["drone_0/base", "drone_1/base"]
            nominal = env.world.params.nominal(name, bases)
            expected = nominal.expand(4, *nominal.shape).clone()
            expected[ids] *= factor.view(-1, *[1] * nominal.dim())
            assert torch.allclose(env.world.params.get(name, bases), expected)
        else:
            expected = rotor_constants(DRONES[drone]).expand(4, 2, 7).clone()
            for c in {"thrust_coefficient": [0], "torque_coefficient": [1], "rotor_lag": [2, 3], "drag": [4, 5, 6]}[
                name
            ]:
                expected[ids, :, c] *= factor[:, None]
            columns = slice(0, 4 if d.native is None else 7)
            assert torch.allclose(rotors(d)[..., columns], expected[..., columns], rtol=1e-4)
        p.write(ids, torch.full((2,), p.nominal))
    nominal = rotor_constants(DRONES[drone]).expand(4, 2, 7)
    columns = slice(0, 4 if d.native is None else 7)
    assert torch.allclose(rotors(d)[..., columns], nominal[..., columns], rtol=1e-4)


def rotor_constants(d: DroneParameters) -> torch.Tensor:
    """[7]: factors on thrust and torque, lags up and down (s), drag of the body (kg/s)."""
    return torch.tensor([1.0, 1.0, d.tau_up, d.tau_down, *d.body_drag])


def rotors(d: Drones) -> torch.Tensor:
    """[N, A, 4 or 7]: the same as they are in the world."""
    if d.native is None:
        assert (d.rotor_params == d.rotor_params[:, :, :1]).all()
        return d.rotor_params[:, :, 0]
    members = d.native.members.tolist()
    factors = d.world.read_varied(members, layout.THRUST_FACTOR, 16)
    assert (factors.unflatten(-1, (4, 4)) == factors[..., ::4, None]).all()
    factors = factors[..., ::4]
    lag = -0.5 * d.world.dt / factors[..., 2:].log()
    return torch.cat((factors[..., :2], lag, d.world.read_varied(members, layout.BODY_DRAG, 3)), dim=-1).float()


@pytest.mark.parametrize("kinds", [("ctbr", "velocity"), ("rotor_thrust", "attitude"), ("attitude", "rotor_thrust")])
def test_groups_of_drones_share_a_world(kinds):
    """Two Drones in one world, of whatever kinds, fly as each does in a world of its own."""

    def world(engine: str) -> World:
        scene = Hover(HoverConfig(num_drones=2, effects="none")).scene()
        return make_world(engine, scene, 2)

    start = level(hover(2, "crazyflie21", "ctbr", num_drones=2))
    start[..., 7:10] = torch.tensor([0.5, -0.2, 0.1])
    start[..., 10:13] = torch.tensor([0.5, 1.0, -0.5])
    action = 0.2 * torch.rand(20, 2, 2, 4, generator=torch.Generator().manual_seed(0)) - 0.1
    for engine in ("mujoco", "pybullet"):
        shared = world(engine)
        together = [Drones(shared, (f"drone_{i}",), CRAZYFLIE_21, kind) for i, kind in enumerate(kinds)]
        alone = [Drones(world(engine), (f"drone_{i}",), CRAZYFLIE_21, kind) for i, kind in enumerate(kinds)]
        for drones in (*together, *alone):
            drones.physics_steps = 5
            i = int(drones.names[0][-1])
            drones.reset(torch.arange(2), start[:, i : i + 1])
        for a in action:
            for i in (0, 1):
                for drones in (together[i], alone[i]):
                    drones.apply(torch.tensor(drones.spec.neutral) + a[:, i : i + 1])
            for w in (shared, alone[0].world, alone[1].world):
                w.step(5)
        for i in (0, 1):
            assert torch.allclose(together[i].bodies.state, alone[i].bodies.state, atol=1e-5)
            assert (together[i].bodies.state - start[:, i : i + 1]).norm(dim=-1).min() > 0.05
