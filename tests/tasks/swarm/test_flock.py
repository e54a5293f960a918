"""Flocks: what drones see of each other, how near they come, and how they share places out, against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import rookery
from rookery.sim.errors import RookeryError
from rookery.sim.rotations import from_axis_angle, multiply
from rookery.tasks.drones.kernels import COLLISION
from rookery.tasks.registry import find
from rookery.tasks.swarm import kernels

RNG = np.random.default_rng(0)


def states(worlds: int, drones: int) -> np.ndarray:
    return RNG.normal(size=(worlds, drones, 13)).astype(np.float32)


def look(state: np.ndarray, sight: float, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, b, _ = state.shape
    out = np.full((n, b, 3 * k), np.nan, np.float32), np.full((n, b, 3 * k), np.nan, np.float32)
    closeness = np.full((n, b, k), np.nan, np.float32)
    kernels.nearest(state, sight, *out, closeness)
    return *out, closeness


@pytest.mark.parametrize("drones", [1, 2, 3, 7])
def test_neighbors_against_a_sorted_list(drones):
    state = states(20, drones)
    sight = 1.8
    k = 3
    offset, velocity, closeness = (x.reshape(20, drones, k, -1) for x in look(state, sight, k))
    for w in range(20):
        for a in range(drones):
            gap = np.linalg.norm(state[w, :, :3] - state[w, a, :3], axis=-1)
            near = [b for b in np.argsort(gap) if b != a and gap[b] <= sight][:k]
            for j in range(k):
                here = state[w, near[j]] - state[w, a] if j < len(near) else np.zeros(13)
                assert np.allclose(offset[w, a, j], here[:3], atol=1e-6)
                assert np.allclose(velocity[w, a, j], here[7:10], atol=1e-6)
                want = 1 - gap[near[j]] / sight if j < len(near) else 0.0
                assert closeness[w, a, j, 0] == pytest.approx(want, abs=1e-5)


def test_the_order_of_the_others_does_not_matter():
    state = states(5, 6)
    shuffled = state[:, [0, 4, 2, 5, 1, 3]]
    for x, y in zip(look(state, 3.0, 3), look(shuffled, 3.0, 3), strict=True):
        assert np.array_equal(x[:, 0], y[:, 0])


def test_gaps_against_many_moments():
    before = RNG.normal(size=(50, 4, 3)).astype(np.float32)
    state = states(50, 4)
    gap = np.empty((50, 4), np.float32)
    kernels.gaps(before, state, 1.5, gap)
    least = np.full((50, 4), 1.5)
    for t in np.linspace(0, 1, 400):
        at = (1 - t) * before + t * state[..., :3]
        apart = np.linalg.norm(at[:, :, None] - at[:, None], axis=-1) + 9 * np.eye(4)
        least = np.minimum(least, apart.min(-1))
    assert np.allclose(gap, least, atol=5e-3)
    assert (gap <= least + 1e-5).all()


def test_assignment_is_nearest_pair_first():
    for count in (1, 2, 5, 8):
        state = states(30, count)
        slots = RNG.normal(size=(30, count, 3)).astype(np.float32)
        own = np.empty((30, count), np.int64)
        kernels.assign(state, slots, own)
        for w in range(30):
            cost = np.linalg.norm(state[w, :, None, :3] - slots[w], axis=-1)
            want = np.empty(count, int)
            for _ in range(count):
                a, s = np.unravel_index(cost.argmin(), cost.shape)
                want[a] = s
                cost[a] = math.inf
                cost[:, s] = math.inf
            assert own[w].tolist() == want.tolist()


def avoided(state: np.ndarray, velocity: np.ndarray, swirl: float, gain: float = 1.0) -> np.ndarray:
    out = velocity.astype(np.float32)
    kernels.avoid(state, 1.0, 0.2, gain, swirl, out)
    return out - velocity


def test_whoever_is_far_away_is_not_avoided():
    state = np.zeros((1, 2, 13), np.float32)
    state[0, 1, 0] = 1.01
    wanted = np.array([[[1.0, 0, 0], [-1.0, 0, 0]]])
    assert np.abs(avoided(state, wanted, 1.0)).max() < 1e-7


def test_drones_at_rest_push_each_other_away_equally():
    state = np.zeros((1, 2, 13), np.float32)
    state[0, 1, :3] = 0.3, 0.2, 0.1
    push = avoided(state, np.zeros((1, 2, 3)), 2.0)
    assert np.allclose(push[0, 0], -push[0, 1])
    assert push[0, 1] @ (0.3, 0.2, 0.1) > 0
    closer = state.copy()
    closer[0, 1, :3] *= 0.5
    assert np.linalg.norm(avoided(closer, np.zeros((1, 2, 3)), 2.0)) > np.linalg.norm(push)


def test_head_on_both_turn_right():
    state = np.zeros((1, 2, 13), np.float32)
    state[0, 1, 0] = 0.5
    state[0, 0, 7] = 1.0
    state[0, 1, 7] = -1.0
    turn = avoided(state, state[..., 7:10], 1.0, gain=0.0)
    assert turn[0, 0, 1] < -0.1  # flying along x, right is -y
    assert turn[0, 1, 1] > 0.1
    state[..., 7:10] *= -1  # flying apart
    assert np.abs(avoided(state, state[..., 7:10], 1.0, gain=0.0)).max() < 1e-7


@pytest.mark.parametrize("task", ["drone-formation", "drone-swap", "drone-race", "drone-downwash"])
def test_observations_have_the_same_size_for_any_number_of_drones(task):
    few, many = (rookery.make(task, 2, config={"num_drones": n}) for n in (4, 8))
    assert few.groups["drone"].observation == many.groups["drone"].observation
    assert many.groups["drone"].count == 2 * few.groups["drone"].count
    obs, _ = many.reset(seed=0)
    assert torch.isfinite(obs["drone"]).all()


@pytest.mark.parametrize("task", ["drone-formation", "drone-swap", "drone-downwash"])
def test_observations_do_not_tell_the_heading(task):
    """A whole world turned about z looks the same to every drone."""
    env = rookery.make(task, 8)
    env.reset(seed=0)
    t = env.task
    angle = 1.1
    before = {k: v.clone() for k, v in t.observe()["drone"].items()}
    turn = torch.tensor([[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]])
    state = t.drones.bodies.state.clone()
    state[..., :3] = state[..., :3] @ turn.T
    state[..., 7:10] = state[..., 7:10] @ turn.T
    state[..., 3:7] = multiply(
        from_axis_angle(torch.tensor([0.0, 0, 1]), torch.tensor(angle)).expand(8, 1, 4), state[..., 3:7]
    )
    t.drones.bodies.set_state(torch.arange(8), state)
    for name in ("target", "velocity", "centre", "slots"):
        if hasattr(t, name):
            getattr(t, name).copy_(getattr(t, name) @ turn.T)
    for name, value in t.observe()["drone"].items():
        assert torch.allclose(value, before[name], atol=1e-4), name


def test_drones_cannot_pass_through_each_other_between_two_steps():
    env = rookery.make(
        "drone-swap", 2, config={"num_drones": 2, "start_tilt": 0.0, "start_speed": 0.0, "start_spin": 0.0}
    )
    env.reset(seed=0)
    t = env.task
    t.before[0] = t.drones.bodies.pos[0].flip(0)  # as if they had changed places in one step
    action = torch.tensor(env.groups["drone"].action.neutral).float().expand(2, 2, 4)
    _, reward, terminated, _, info = env.step({"drone": action})
    assert terminated.tolist() == [True, False]
    assert t.causes[int(info["episode"]["cause"][0]) - 1] == "collision"
    assert info["episode"]["metrics"]["gap_m"][0] < 0.02
    assert (reward["drone"][0] < -10).all()
    assert (reward["drone"][1] > -10).all()


def test_proximity_is_charged_from_safe_m_on():
    env = rookery.make("drone-swap", 3, config={"num_drones": 2})
    env.reset(seed=0)
    env.task.gap.copy_(torch.tensor([[0.0], [0.2], [0.5]]).expand(3, 2))
    charged = env.task.rewards()["drone"]["proximity"]
    assert torch.allclose(charged[:, 0], torch.tensor([1.0, 0.25, 0.0]))


@pytest.mark.parametrize(
    ("task", "config", "message"),
    [
        ("drone-swap", {"num_drones": 0}, "num_drones must be from 1 to 200"),
        ("drone-swap", {"num_drones": 1}, "needs at least 2 drones"),
        ("drone-swap", {"neighbours": 0}, "at least 1 neighbor"),
        ("drone-swap", {"safe_m": 0.1}, "safe_m must lie between"),
        ("drone-swap", {"safe_m": 3.0}, "safe_m must lie between"),
    ],
)
def test_flocks_that_cannot_be(task, config, message):
    with pytest.raises(RookeryError, match=message):
        rookery.make(task, 1, config=config)


def test_every_contact_of_the_engine_is_a_collision(monkeypatch):
    """Two drones fly at each other, squarely and grazing: wherever the engine has a contact, the episode ends by a collision in
    that control step. (On `rotor`, whose drones are spheres: on mujoco they are cylinders, whose edges reach farther.)"""
    kind = find("drone-swap").load()
    plain = kind.scene

    def watched(self):
        scene = plain(self)
        scene.add_contact_sensor(f"{self.names[0]}/collision", [f"{self.names[1]}/collision"])
        return scene

    monkeypatch.setattr(kind, "scene", watched)
    n = 512
    env = rookery.make("drone-swap", n, engine="rotor", config={"num_drones": 2}, seed=0)
    env.reset()
    t = env.task
    sensor = env.world.contact_sensor(f"{t.names[0]}/collision", [f"{t.names[1]}/collision"])
    generator = torch.Generator().manual_seed(0)
    state = t.drones.bodies.state.clone()
    state[:, 1, :3] = state[:, 0, :3] + torch.tensor([0.3, 0.0, 0.0])
    state[:, 1, 1] += 2.0 * t.drone.body_radius * torch.rand(n, generator=generator)
    state[..., 3:7] = torch.tensor([1.0, 0.0, 0.0, 0.0])
    state[..., 7:] = 0.0
    state[:, 0, 7] = 0.3 + 2.0 * torch.rand(n, generator=generator)
    state[:, 1, 8] = 2.0 * torch.rand(n, generator=generator) - 1.0
    state[..., 10:13] = 4.0 * torch.rand(n, 2, 3, generator=generator) - 2.0
    env.world.bodies([f"{name}/base" for name in t.names]).set_state(None, state)
    t.before.copy_(state[..., :3])
    met = torch.zeros(n, dtype=torch.bool)
    hover = {"drone": torch.tensor(t.action.neutral).expand(n, 2, -1).clone()}
    for _ in range(60):
        _, _, terminated, _, info = env.step(hover)
        assert not torch.isfinite(sensor.when)[~terminated].any()  # no contact without the end of the episode
        if terminated.any():
            met[info["episode"]["ids"][info["episode"]["cause"] == COLLISION]] = True
    assert met.float().mean() > 0.3
