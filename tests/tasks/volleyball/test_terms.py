"""Observations of all volleyball tasks, rewards of matches and training terms of pairs, on states set by hand.

The oracle is NumPy on the numbers that were set, with SciPy's rotations; it reads nothing of the task.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from drift import without_drift
from scipy.spatial.transform import Rotation
from volley_table import make

import rookery
from rookery.tasks.volleyball.back_and_forth import VolleyBackAndForth
from rookery.tasks.volleyball.base import VolleyTask
from rookery.tasks.volleyball.bump_and_pass import VolleyBumpAndPass
from rookery.tasks.volleyball.competitive import Match, Volley1v1, Volley3v3, Volley6v6
from rookery.tasks.volleyball.hit import VolleyHit
from rookery.tasks.volleyball.set_and_spike import VolleySetAndSpikeEasy
from rookery.tasks.volleyball.set_and_spike_hard import VolleySetAndSpikeHard
from rookery.tasks.volleyball.solo_bump import VolleySoloBump

N = 3
G = 9.81  # m/s^2
NEAR_3 = [(3.0, -1.5, 2.0), (3.0, 1.5, 2.0), (6.0, 0.0, 2.0)]
NEAR_6 = [(3.0, -3.0, 2.0), (3.0, 0.0, 2.0), (3.0, 3.0, 2.0), (6.0, -3.0, 2.0), (9.0, 0.0, 2.0), (6.0, 3.0, 2.0)]
PLACES = {
    VolleyBackAndForth: [(4.5, 0.0, 2.0)],
    VolleyHit: [(4.5, 0.0, 2.0)],
    VolleySoloBump: [(4.5, 0.0, 2.0)],
    VolleyBumpAndPass: [(4.5, -2.5, 2.0), (4.5, 2.5, 2.0)],
    VolleySetAndSpikeEasy: [(2.0, -2.5, 2.5), (2.0, 2.5, 3.5)],
    VolleySetAndSpikeHard: [(2.0, -2.5, 2.5), (2.0, 2.5, 3.5)],
    Volley1v1: [(1.5, 0.0, 2.0), (-1.5, 0.0, 2.0)],
    Volley3v3: [*NEAR_3, *((-x, -y, z) for x, y, z in NEAR_3)],
    Volley6v6: [*NEAR_6, *((-x, -y, z) for x, y, z in NEAR_6)],
}
"""m, world: the drones' anchors; those of the far side are the near ones turned by half a circle."""
PAIRS = (VolleyBumpAndPass, VolleySetAndSpikeEasy, VolleySetAndSpikeHard)
MATCHES = (Volley1v1, Volley3v3, Volley6v6)
TURN = {Volley1v1: (0, 1, 1), Volley3v3: (1, 0, 1), Volley6v6: (1, 0, 1)}


class Scene:
    """A task with drones and ball drawn once, near the anchors."""

    def __init__(self, cls: type[VolleyTask]) -> None:
        draw = np.random.default_rng(13)
        self.cls = cls
        self.env = make(cls, N)
        self.env.reset()
        task: Any = self.env.task
        self.task = task
        self.places = np.array(PLACES[cls])
        a = self.count = len(self.places)
        self.pos = self.places + draw.uniform(-0.6, 0.6, (N, a, 3))
        self.turn = Rotation.random(N * a, rng=1)
        self.velocity, self.rates = draw.uniform(-2.0, 2.0, (2, N, a, 3))
        self.rotors = draw.uniform(0.1, 0.9, (N, a, 4))
        quat = self.quat = self.turn.as_quat(scalar_first=True).reshape(N, a, 4)
        state = np.concatenate((self.pos, quat, self.velocity, self.rates), axis=-1)
        task.drones.bodies.set_state(None, torch.from_numpy(state).float())
        self.ball = draw.uniform(-1.0, 1.0, (N, 3)) + np.array([4.0, 0.5, 4.5])
        self.fall = np.array([[1.0, -0.7, 6.0], [-2.0, 0.5, -3.0], [0.4, 1.2, 1.0]])  # m/s
        if task.has_ball:
            ball = np.concatenate((self.ball, np.tile([1.0, 0, 0, 0], (N, 1)), self.fall, np.zeros((N, 3))), axis=-1)
            task.ball.set_state(None, torch.from_numpy(ball).float()[:, None])
            task.referee.turn.copy_(torch.tensor(TURN.get(cls, (0, 1, 1)[:N])))
            self.used = np.array([[(i + w) % 3 == 0 for i in range(a)] for w in range(N)])
            task.referee.used.copy_(torch.from_numpy(self.used))
        task.load_state_dict(task.state_dict())
        task.drones.rotor_speed.copy_(torch.from_numpy(self.rotors))

    @property
    def far(self) -> np.ndarray:
        """[A] whether a drone sees the court turned."""
        return (self.places[:, 0] < 0) if self.cls in MATCHES else np.zeros(self.count, bool)

    def seen(self, world: np.ndarray) -> np.ndarray:
        """Vectors [N, A, 3] as each drone's side has them."""
        return np.where(self.far[:, None], world * [-1.0, -1.0, 1.0], world)

    def observations(self) -> dict[str, np.ndarray]:
        n, a = N, self.count
        quat = self.quat.copy()
        w, x, y, z = np.moveaxis(quat, -1, 0)
        quat = np.where(self.far[:, None], np.stack((-z, -y, x, w), -1), quat)  # times (0, 0, 0, 1) from the left
        quat *= np.where(quat[..., :1] < 0, -1.0, 1.0)
        axes = self.turn.as_matrix().reshape(n, a, 3, 3)
        number = np.tile(np.eye(a), (n, 1, 1))
        out = {
            "position": self.seen(self.pos),
            "quaternion": quat,
            "linear_velocity": self.seen(self.velocity),
            "angular_velocity": self.seen(np.einsum("naij,naj->nai", axes, self.rates)),
            "heading": self.seen(axes[..., 0]),
            "up": self.seen(axes[..., 2]),
            "throttle": 2.0 * self.rotors - 1.0,
        }
        if self.cls is VolleyBackAndForth:
            return out | {"to_target": np.array([9.0, 4.5, 2.0]) - self.pos}
        out |= {
            "from_anchor": self.seen(self.pos - self.places),
            "from_ball": self.seen(self.pos - self.ball[:, None]),
            "ball_velocity": self.seen(np.tile(self.fall[:, None], (1, a, 1))),
        }
        turn = np.array(TURN.get(self.cls, (0, 1, 1)))
        if self.cls in PAIRS:
            own = np.eye(2)[turn]
            out |= {
                "to_other": self.pos[:, ::-1] - self.pos,
                "turn": np.tile(own[:, None], (1, 2, 1)),
                "number": number,
            }
        if self.cls in MATCHES:
            own = turn[:, None] == self.far
            out["turn"] = np.stack((own, ~own), -1)
        if self.cls is Volley1v1:
            out["from_opponent"] = self.seen(self.pos - self.pos[:, ::-1])
        elif self.cls in MATCHES:
            half = a // 2
            out["number"] = np.tile(np.eye(half), (n, 2, 1))
            out["already_hit"] = np.stack((~self.used, self.used), -1)
            order = np.concatenate((self.pos[:, half:], self.pos[:, :half]), axis=1)
            sides = [self.pos] * half + [order] * half
            out["positions"] = np.stack(
                [
                    (s * ([-1, -1, 1] if far else [1, 1, 1])).reshape(n, -1)
                    for s, far in zip(sides, self.far, strict=True)
                ],
                1,
            )
        return out


@pytest.fixture(scope="module")
def scenes() -> dict[type, Scene]:
    return {}


def scene_of(cls: type[VolleyTask], scenes: dict[type, Scene]) -> Scene:
    if cls not in scenes:
        scenes[cls] = Scene(cls)
    return scenes[cls]


@pytest.mark.parametrize("cls", PLACES)
def test_observation_terms(cls, scenes):
    scene = scene_of(cls, scenes)
    expected, got = scene.observations(), scene.task.observe()["drone"]
    assert set(got) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=2e-5, err_msg=name)


def expected_of_match(scene: Scene, hit: np.ndarray, loser: np.ndarray) -> dict[str, np.ndarray]:
    """Reward terms [N, A] of a match in which `hit` [N, A] is legal and the side `loser` [N] loses the point, -1 for none."""
    a, half = scene.count, scene.count // 2
    teams = a > 2
    side = np.arange(a) // half
    off = scene.pos - scene.ball[:, None]
    away = np.linalg.norm(off if teams else off[..., :2], axis=-1)
    may = np.array(TURN[scene.cls])[:, None] == side
    may = may & ~scene.used if teams else may
    ours = np.stack([hit[:, :half].any(1), hit[:, half:].any(1)], 1)[:, side]
    out = {
        "win": np.where(loser[:, None] < 0, 0.0, np.where(loser[:, None] == side, -1.0, 1.0)),
        "hit": ours.astype(float),
        "near_ball": may / (1.0 + away),
        "crash": (scene.pos[..., 2] < 0.3).astype(float),
    }
    if teams:
        gap = np.linalg.norm(scene.pos[:, :, None] - scene.pos[:, None], axis=-1)
        close = (gap < 0.8) & (side[:, None] == side) & ~np.eye(a, dtype=bool)
        near = 1.0 / (1.0 + np.linalg.norm(scene.pos - scene.places, axis=-1))
        return out | {"near_anchor": near, "too_close": close.any(-1).astype(float)}
    x, y, z = np.moveaxis(np.abs(scene.pos), -1, 0)
    edge = np.minimum(np.minimum(x, 3.0 - x), 1.5 - y)  # m, of a court of 6 m by 3 m
    return out | {"misplaced": ((edge < 0.5) | (np.abs(z - 2.0) > 1.0)).astype(float)}


@pytest.mark.parametrize("cls", MATCHES)
def test_rewards_of_matches(cls: type[Match]):
    scene = Scene(cls)
    a, half = scene.count, scene.count // 2
    scene.pos[0, 0, 2] = 0.29  # too low
    scene.pos[1, 0, 2] = 0.31
    scene.pos[1, half] = (
        (-0.49, 0.0, 2.0) if a == 2 else scene.pos[1, half + 1] + [0.5, 0.5, 0.3]
    )  # at the net; 77 cm apart
    scene.pos[2, 0] = (0.51, 0.99, 2.99) if a == 2 else scene.pos[2, 1] + [0.5, 0.5, 0.4]  # 81 cm apart
    scene.pos[2, a - 1, 1] = -1.01
    state = scene.task.drones.bodies.state.clone()
    state[..., :3] = torch.from_numpy(scene.pos)
    scene.task.drones.bodies.set_state(None, state)
    hit = np.zeros((N, a), bool)
    hit[0, 0] = hit[2, half] = True
    loser = np.array([-1, 0, 1])
    scene.task.referee.hit_now.copy_(torch.from_numpy(hit))
    scene.task.referee.loser.copy_(torch.from_numpy(loser))
    expected, got = expected_of_match(scene, hit, loser), scene.task.rewards()["drone"]
    assert set(got) == set(expected) == set(scene.task.cfg.reward)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
        assert np.ptp(value) > 0, f"the states do not tell faults of {name}"


def test_metrics_of_a_match():
    """Crossings, hits, and 0.02 s a control step; the near side wins where the far one loses, however long the rally was.
    Of two drones the first is near."""
    task = Scene(Volley1v1).task
    for name, value in (("crossings", (1, 2, 3)), ("total", (4, 0, 2)), ("loser", (0, 1, -1)), ("clock", (50, 100, 0)),
                        ("server", (0, 1, 1))):  # fmt: skip
        getattr(task.referee, name).copy_(torch.tensor(value))
    assert {name: value.tolist() for name, value in without_drift(task.metrics()).items()} == {
        "success": [0.0, 1.0, 0.0], "near_wins": [0.0, 1.0, 0.0], "far_wins": [1.0, 0.0, 0.0], "hits": [4.0, 0.0, 2.0],
        "crossings": [1.0, 2.0, 3.0], "seconds": [1.0, 2.0, 0.0], "near_serves": [1.0, 0.0, 0.0],
        "far_serves": [0.0, 1.0, 1.0],
    }  # fmt: skip


@pytest.mark.parametrize("cls", PAIRS)
def test_training_terms_of_pairs(cls, scenes):
    """Where the ball comes down to the racket (half a body over the drone, and the ball's radius of 10 cm), without drag."""
    scene = Scene(cls)
    scene.ball[1, 2] = 3.0
    state = scene.task.ball.state.clone()
    state[:, 0, :3] = torch.from_numpy(scene.ball)
    scene.task.ball.set_state(None, state)
    hit = np.array([[1, 0], [0, 1], [0, 1]])
    scene.task.referee.hit_now.copy_(torch.from_numpy(hit))
    turn = np.eye(2)[[0, 1, 1]]
    level = scene.pos[..., 2] + 0.1 + 0.5 * scene.task.drone.body_height
    drop = scene.ball[:, None, 2] - level
    up = scene.fall[:, None, 2]
    time = np.where(drop > 0, up + np.sqrt(up**2 + 2 * G * np.maximum(drop, 0.0)), 0.0) / G  # under the racket: now
    down = scene.ball[:, None, :2] + time[..., None] * scene.fall[:, None, :2]
    apex = scene.ball[:, None, 2] + np.maximum(up, 0.0) ** 2 / (2 * G)
    miss = np.linalg.norm(down - scene.places[:, :2], axis=-1)[:, ::-1]
    expected = {
        "under_landing": turn / (1.0 + np.linalg.norm(scene.pos[..., :2] - down, axis=-1)),
        "at_anchor": (1.0 - turn) / (1.0 + np.linalg.norm(scene.pos - scene.places, axis=-1)),
        "ball_height": np.clip(scene.ball[:, None, 2] - np.maximum(scene.pos[..., 2], 1.0), 0.0, 2.0),
        "pass_aim": hit * np.exp(-0.5 * miss) / (1.0 + np.exp(-(apex - 4.3) / 0.5)),
    }
    got = scene.task.rewards()["drone"]
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


def test_closeness_falls_with_the_square_of_the_distance():
    scene = Scene(VolleyBackAndForth)
    for buffer, value in ((scene.task.in_row, (0.0, 3.0, 4.0)), (scene.task.distance, (0.5, 0.2, 3.0))):
        buffer.copy_(torch.tensor(value))
    got = scene.task.rewards()["drone"]
    assert got["staying"][:, 0].tolist() == [0.0, 3.0, 4.0]
    assert got["closeness"][:, 0].tolist() == pytest.approx([50 / 1.25, 47 / 1.04, 46 / 10])


def test_the_ball_comes_down_where_and_when_it_is_said_to():
    """`to_landing` and `landing_in`, which `observe_landing` adds: a ball 2 m over the racket, thrown up with 3 m/s."""
    env = make(VolleyHit, 1, observe_landing=True)
    env.reset()
    task = env.task
    racket = float(task.drones.bodies.pos[0, 0, 2]) + 0.1 + 0.5 * task.drone.body_height
    state = task.ball.state.clone()
    state[0, 0, :3] = torch.tensor([4.0, 0.5, racket + 2.0])
    state[0, 0, 7:10] = torch.tensor([-1.0, 0.7, 3.0])
    task.ball.set_state(None, state)
    time = (3.0 + math.sqrt(9.0 + 4.0 * G)) / G
    got = task.observe()["drone"]
    assert float(got["landing_in"]) == pytest.approx(time, rel=1e-4)
    x, y = task.drones.bodies.pos[0, 0, :2].tolist()
    assert got["to_landing"][0, 0].tolist() == pytest.approx([4.0 - time - x, 0.5 + 0.7 * time - y], abs=1e-4)


@pytest.mark.parametrize(
    "task",
    ["volley-back-and-forth", "volley-hit", "volley-solo-bump", "volley-bump-and-pass", "volley-3v3", "volley-skill"],
)
def test_the_last_action_is_seen_as_it_was_given_however_late_it_acts(task):
    fixed = {"action_delay": 0.03, "observation_delay": 0.02, "action_dropout": 0.5}
    env = rookery.make(task, 3, config={"observe_action": True}, randomize="none", fixed=fixed)
    obs, _ = env.reset(seed=0)
    group = env.groups["drone"]
    place = group.slices()["last_action"]
    neutral = torch.tensor(group.action.neutral)
    assert torch.allclose(obs["drone"][..., place], neutral.expand(3, group.count, 4))
    rng = torch.Generator().manual_seed(0)
    for _ in range(4):
        action = neutral + 0.1 * torch.randn(3, group.count, 4, generator=rng)
        obs, _, terminated, truncated, _ = env.step({"drone": action})
        assert not (terminated | truncated).any()
        assert torch.equal(obs["drone"][..., place], action.clamp(-1.0, 1.0))
