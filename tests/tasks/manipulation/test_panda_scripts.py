"""The scripted experts of lift, stack, push-T, cabinet and handover do their tasks, without dipping into what they hold."""

from __future__ import annotations

import mujoco
import pytest
import torch
from sampled import slow_but

from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.tasks.manipulation.cabinet import Cabinet
from rookery.tasks.manipulation.handover import Handover
from rookery.tasks.manipulation.lift import Lift
from rookery.tasks.manipulation.push_t import PushT
from rookery.tasks.manipulation.stack import Stack

STARTS = 24


def episode(cls: type, n: int, seconds: float) -> tuple[VecEnv, dict[str, torch.Tensor], list[float]]:
    """The metrics of one episode, and the deepest contact of a finger pad with what it holds, in m, every tenth step."""
    task = cls(cls.Config(episode_s=seconds))
    env = VecEnv(task, make_world("mujoco", task.scene(), n), seed=5)
    obs, _ = env.reset()
    act = task.controller()
    depths = [0.0]
    data = mujoco.MjData(env.world.model)
    pads = {i for i in range(env.world.model.ngeom) if env.world.model.geom(i).name.endswith("_pad")}
    for k in range(env.max_episode_steps):
        if k % 10 == 9:
            contact = env.world.mj_data(0, data).contact
            depths += [-float(c.dist) for c in contact if pads & {int(c.geom1), int(c.geom2)}]
        obs, *_, info = env.step(act(obs))
    return env, info["episode"]["metrics"], depths


@pytest.mark.parametrize(
    ("cls", "seconds", "least"),
    slow_but(
        [(Lift, 3.5, 23)],
        [(Lift, 3.5, 23), (Stack, 4.5, 22), (Cabinet, 4.0, 22), (Handover, 5.5, 22)],
    ),
)
def test_the_script_does_it(cls, seconds, least):
    _, metrics, depths = episode(cls, STARTS, seconds)
    assert metrics["success"].sum() >= least
    assert max(depths) < 2e-3


@pytest.mark.slow
def test_the_script_covers_most_of_the_t():
    _, metrics, _ = episode(PushT, 4, 8.0)
    assert metrics["coverage"].mean() > 0.9
    assert metrics["coverage"].min() > 0.6
