"""Drones in a world: every action kind of every type, flown by the classical pilot, and what their declarations promise."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import rookery
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.drone import LEVELS, WORKSPACE, Drones, action_spec
from rookery.robots.drones.iris import IRIS
from rookery.robots.drones.kernels import MEMORY_SIZE
from rookery.sim.errors import RookeryError
from rookery.sim.vec_env import VecEnv

DRONES = {d.name: d for d in (CRAZYFLIE_21, IRIS)}
every_drone = pytest.mark.parametrize("drone", DRONES)
every_kind = pytest.mark.parametrize("kind", LEVELS)


def hover(n: int, drone: str, kind: str, **config: Any) -> VecEnv:
    return rookery.make("drone-hover", n, config={"drone": drone, "action": kind, **config})


def level(env: VecEnv, height: float = 2.0) -> torch.Tensor:
    """[N, A, 13]: at rest, drones side by side."""
    state = torch.zeros(env.num_envs, env.task.cfg.num_drones, 13)
    state[..., :3] = env.task.places
    state[..., 2], state[..., 3] = height, 1.0
    return state


def fly(env: VecEnv) -> dict[str, torch.Tensor]:
    """One whole episode of every world by the baseline; gives its record."""
    pilot = env.task.baseline()
    obs, _ = env.reset()
    for _ in range(env.max_episode_steps):
        obs, _, _, _, info = env.step(pilot(obs))
    return info.get("episode", {"ids": torch.zeros(0)})


@every_drone
@every_kind
def test_the_declaration(drone, kind):
    spec = action_spec(DRONES[drone], kind)
    assert spec.size == len(spec.units) == len(set(spec.names)) == 4
    assert all(low < high for low, high in zip(spec.low, spec.high, strict=True))
    assert all(-1 <= a <= 1 for a in spec.neutral)
    d, weight = DRONES[drone], 9.81 * DRONES[drone].mass
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
    with pytest.raises(RookeryError, match="num_drones must be at least 1"):
        hover(1, "iris", "ctbr", num_drones=0)


@every_drone
@every_kind
def test_commands_and_actions_are_inverse(drone, kind):
    d = hover(2, drone, kind).task.drones
    action = torch.linspace(-1, 1, 40).view(2, 5, 4)
    assert torch.allclose(d.normalised(d.physical(action)), action, atol=1e-6)
    assert torch.allclose(d.physical(torch.ones(4)), torch.tensor(d.spec.high))
    assert torch.allclose(d.physical(-torch.ones(4)), torch.tensor(d.spec.low))
    assert torch.equal(d.normalised(torch.tensor(d.spec.high) * 3 + 1), torch.ones(4))


@every_drone
@pytest.mark.parametrize("kind", ["rotor_thrust", "ctbr", "attitude", "velocity"])
def test_the_neutral_action_hovers(drone, kind):
    """From rest with the rotors at hover speed: within 1 cm after a second."""
    env = hover(2, drone, kind)
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


@every_drone
@every_kind
def test_the_pilot_hovers(drone, kind):
    """From +-1 m, +-0.5 m/s, tilts up to 30 degrees, any heading."""
    episode = fly(hover(32, drone, kind, episode_s=6.0))
    assert len(episode["ids"]) == 32
    assert episode["metrics"]["success"].mean() >= 0.95
    assert episode["metrics"]["error_m"].mean() < 0.05


@every_drone
@every_kind
def test_the_pilot_tracks_a_circle(drone, kind):
    config = {"drone": drone, "action": kind, "path": "circle", "episode_s": 8.0, "speed": 0.8}
    episode = fly(rookery.make("drone-track", 16, config=config))
    assert len(episode["ids"]) == 16
    assert episode["metrics"]["error_m"].mean() < 0.3
    assert episode["metrics"]["crash"].sum() == 0


@pytest.mark.parametrize("kind", ["ctbr", "position"])
def test_integrated_yaw_flies_as_well(kind):
    episode = fly(hover(16, "crazyflie21", kind, episode_s=6.0, integrated_yaw=True))
    assert episode["metrics"]["success"].mean() >= 0.95


def test_several_drones_fly_their_own_ways():
    episode = fly(hover(8, "crazyflie21", "ctbr", episode_s=6.0, num_drones=3))
    assert episode["metrics"]["success"].mean() >= 0.85


@every_kind
def test_actions_turn_drones_the_way_they_say(kind):
    """One component up at a time, from hover, in worlds of their own."""
    env = hover(4, "crazyflie21", kind)
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


@pytest.mark.parametrize("kind", ["rotor_thrust", "ctbr"])
def test_rows_of_actions_act_one_physics_step_each(kind):
    """A delay of 2 of 5 physics steps: a control step begins with the action of the one before."""
    config = {"action": kind}
    late = rookery.make("drone-hover", 1, fixed={"action_delay": 0.004}, config=config)
    fine = rookery.make("drone-hover", 1, config={**config, "control_dt": 0.002})
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


@every_drone
def test_reset_leaves_nothing_behind_in_those_worlds_and_others_alone(drone):
    env = hover(3, drone, "attitude", num_drones=2)
    env.reset()
    for _ in range(20):
        env.step(torch.full((3, 2, 4), 0.3))
    d, before = env.task.drones, {k: v.clone() for k, v in env.task.drones.state_dict().items()}
    state = level(env)[1:2]
    state[..., 7:] = 0.25
    d.reset(torch.tensor([1]), state)
    assert torch.allclose(d.bodies.state[1], state[0])
    assert torch.allclose(d.rotor_speed[1], torch.tensor(DRONES[drone].hover_speed))
    assert d.memory[1].abs().max() == d.setpoint[1].abs().max() == 0
    assert d.memory.shape == (3, 2, MEMORY_SIZE)
    for name, v in before.items():
        assert torch.equal(d.state_dict()[name][[0, 2]], v[[0, 2]])


@every_drone
def test_parameters_write_their_own_worlds(drone):
    env = hover(4, drone, "ctbr", num_drones=2)
    env.reset()
    d: Drones = env.task.drones
    parameters, ids = d.parameters(), torch.tensor([1, 3])
    factor = torch.tensor([1.5, 0.5])
    nominal_rotor = torch.tensor([1.0, 1.0, DRONES[drone].tau_up, DRONES[drone].tau_down])
    columns = {"thrust_coefficient": [0], "torque_coefficient": [1], "rotor_lag": [2, 3]}
    for name, p in parameters.items():
        assert p.low <= p.nominal <= p.high
        assert p.summary
        p.write(ids, factor)
        if name in columns:
            expected = nominal_rotor.expand(4, 2, 4).clone()
            for c in columns[name]:
                expected[ids, :, c] *= factor[:, None]
            assert torch.allclose(d.rotor_params, expected)
        else:
            bases = ["drone_0/base", "drone_1/base"]
            nominal = env.world.params.nominal(name, bases)
            expected = nominal.expand(4, *nominal.shape).clone()
            expected[ids] *= factor.view(-1, *[1] * nominal.dim())
            assert torch.allclose(env.world.params.get(name, bases), expected)
        p.write(ids, torch.full((2,), p.nominal))
    assert torch.allclose(d.rotor_params, nominal_rotor.expand(4, 2, 4))


def test_constants_are_those_of_their_sources():
    """rl-tools' crazyflie.h and VolleyBots' iris.yaml, as recorded in facts/drones.md."""
    assert CRAZYFLIE_21.mass == 0.0306
    assert 4 * CRAZYFLIE_21.max_thrust == pytest.approx(4 * (0.003525 + 0.014373 + 0.092230))
    assert CRAZYFLIE_21.tau_up == pytest.approx(0.05545)
    assert IRIS.mass == 1.52
    assert IRIS.max_thrust == pytest.approx(6.003, abs=1e-3)
    assert IRIS.thrust_to_weight == pytest.approx(1.61, abs=0.01)
    assert [round(math.hypot(x, y), 6) for x, y, _ in IRIS.rotor_positions] == [0.255539, 0.238537] * 2
    for d in DRONES.values():  # equal thrusts neither roll nor pitch it, equal speeds do not yaw it
        assert sum(p[0] for p in d.rotor_positions) == pytest.approx(0, abs=1e-9)
        assert sum(p[1] for p in d.rotor_positions) == pytest.approx(0, abs=1e-9)
        assert sum(d.directions) == 0
