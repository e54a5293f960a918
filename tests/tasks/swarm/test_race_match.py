"""Races of two teams: who wins, by states that are set."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rookery
from rookery.policies.multiagent.match import match
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.tasks.swarm.race_match import RaceMatch


def made(n: int, **config: Any) -> tuple[VecEnv, RaceMatch]:
    env = rookery.make("drone-race-match", n, config=config)
    env.reset()
    return env, env.unwrapped.task


def winners(task: RaceMatch) -> list[str | None]:
    red, blue = task.wins()
    assert not (red & blue).any()
    return ["red" if r else "blue" if b else None for r, b in zip(red.tolist(), blue.tolist(), strict=True)]


def test_the_first_through_all_gates_wins_to_a_fraction_of_a_step() -> None:
    _, task = made(4)
    enough = task.cfg.laps * len(task.gates) + 1
    task.steps[:] = 100
    task.when[:] = -1.0
    task.passed[0] = torch.tensor([enough, enough - 1])
    task.passed[1] = torch.tensor([enough - 2, enough])
    task.passed[2] = torch.tensor([enough, enough])
    task.when[:3] = torch.tensor([[0.5, -1.0], [-1.0, 0.2], [0.7, 0.3]])
    assert winners(task) == ["red", "blue", "blue", None]
    finished = 1 + task.causes.index("finished")
    assert task.terminated().tolist() == [finished] * 3 + [0]
    figures = task.metrics()
    assert figures["completed"].tolist() == [1.0, 1.0, 1.0, 0.0]
    expected = [(99.0 + share) * task.cfg.control_dt for share in (0.5, 0.2, 0.3)]
    assert figures["finish_s"].tolist() == pytest.approx([*expected, task.cfg.episode_s])
    win = task.rewards()["drone"]["win"]
    assert win.tolist() == [[1.0, -1.0], [-1.0, 1.0], [-1.0, 1.0], [0.0, 0.0]]


def test_who_crashes_loses_and_a_collision_nobody_wins() -> None:
    _, task = made(4, num_drones=4)
    task.crashed[0, 2] = task.crashed[1, 3] = True
    task.crashed[2, :2] = True
    assert winners(task) == ["blue", "red", None, None]
    assert [t["drone"] for t in task.teams().values()] == [(0, 2), (1, 3)]
    enough = task.cfg.laps * len(task.gates) + 1
    task.passed[0, 2], task.when[0, 2] = enough, 0.5
    assert winners(task)[0] == "blue", "not who crashes behind the last gate"


def test_when_the_time_is_up_the_leader_wins() -> None:
    _, task = made(3)
    task.steps[:] = task.max_steps
    task.passed[:] = torch.tensor([[3, 2], [2, 2], [1, 2]])
    task.target[1, 0] = task.drones.bodies.pos[1, 0] + torch.tensor([0.1, 0.0, 0.0])
    task.target[1, 1] = task.drones.bodies.pos[1, 1] + torch.tensor([0.5, 0.0, 0.0])
    assert winners(task) == ["red", "red", "blue"]
    task.steps[:] = task.max_steps - 1
    assert winners(task) == [None] * 3


@pytest.mark.slow
def test_the_script_against_itself_wins_as_often_from_either_side() -> None:
    env = rookery.make("drone-race-match", 32, starts=16)
    a, b = env.controller(), env.controller()
    played = match(env, a, b, 32)
    assert torch.equal(played.outcome[0], -played.outcome[1]), "the same starts from both sides"
    assert played.total.a == played.total.b > 8 and played.metrics["completed"] > 0.5
    env.close()


def test_in_a_pursuit_each_starts_before_a_gate_of_its_own_with_the_same_way() -> None:
    _, task = made(32, start="anywhere")
    first = task.following
    assert len(first[:, 0].unique()) == len(task.gates)
    assert (first[:, 1] == (first[:, 0] + 1) % len(task.gates)).all()
    off = (task.gates[first] - task.drones.bodies.pos).norm(dim=-1)
    assert (off.max() - off.min()) < 2.0 * 3.0**0.5 * task.cfg.start_box_m + 1e-4
    assert (task._ahead().amax(1) - task._ahead().amin(1)).max() < 0.5  # gates


@pytest.mark.parametrize(
    ("config", "said"),
    [({"num_drones": 1}, "has 2 to 4 drones"), ({"num_drones": 5}, "2 to 4")],
)  # fmt: skip
def test_races_that_cannot_be_are_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(RookeryError, match=said):
        rookery.make("drone-race-match", 1, config=config)
