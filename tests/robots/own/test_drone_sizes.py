"""Drones of 1 g to 10 kg: hovering earns more than every crash, though rewards are in meters and radians.

No term of the drone tasks is in newtons or watts: places and distances are the room's, actions are shares of what the drone can
do, and spin costs little beside a crash. So nothing follows the drone's size; this is the test that it need not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from own_files import write_scaled
from sampled import slow_but
from torch import Tensor

import rookery

N = 8
KG = 0.5  # of the template
Act = Callable[[Any, dict[str, Tensor], int], Tensor]


def off(env: Any, obs: dict[str, Tensor], step: int) -> Tensor:
    """No thrust."""
    return torch.tensor([-1.0, 0.0, 0.0, 0.0]).expand(N, 1, 4)


def rise(env: Any, obs: dict[str, Tensor], step: int) -> Tensor:
    """All thrust, until it is out of bounds."""
    return torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(N, 1, 4)


def tumble(env: Any, obs: dict[str, Tensor], step: int) -> Tensor:
    """Thrust as of hover, rolling as fast as it may."""
    return torch.tensor([0.0, 1.0, 0.0, 0.0]).expand(N, 1, 4)


def total(file: str, act: Act | None) -> Tensor:
    """[N] return of 4 s of drone-hover; `act` None: the classical controller."""
    env = rookery.make("drone-hover", N, seed=0, config={"drone": file, "action": "ctbr", "episode_s": 4.0})
    obs, _ = env.reset()
    controller = env.unwrapped.task.controller() if act is None else None
    out, goes_on = torch.zeros(N), torch.ones(N)
    for step in range(env.max_episode_steps):
        action = {"drone": act(env, obs, step)} if controller is None else controller(obs)
        obs, reward, terminated, _, _ = env.step(action)
        out += goes_on * reward["drone"][:, 0]
        goes_on *= (~terminated).float()
    env.close()
    assert act is not None or goes_on.all(), "it does not hover"
    return out


@pytest.mark.parametrize("mass_kg", slow_but([0.001, 10.0], [0.001, 0.03, 0.5, 10.0]))
def test_hovering_earns_more_than_crashing(mass_kg, tmp_path):
    file = str(write_scaled(tmp_path, (mass_kg / KG) ** (1.0 / 3.0), template="quadrotor"))
    hovers = total(file, None)
    assert (hovers > 0.0).all()
    for crash in (off, rise, tumble):
        crashes = total(file, crash)
        assert (hovers > crashes + 20.0).all(), crash.__name__
