"""Robots of any size and weight: the same motion earns the same, commands follow the legs, and nobody is paid for falling."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pybullet_data
import pytest
import torch
from own_files import write_scaled
from sampled import slow_but
from torch import Tensor

import rookery
from rookery.robots.quadrupeds.go2 import GO2
from rookery.robots.quadrupeds.scale import Scale, scale_of

PUBLIC = Path(pybullet_data.getDataPath())
CALM: dict[str, Any] = {"push_s": 0.0, "start_joints": 0.0, "start_yaw": 0.0, "resample_s": 1000.0}
N = 4
STATES = 24


def test_a_go2_is_of_its_own_size():
    assert scale_of(GO2) == Scale(1.0, 1.0)
    one = scale_of(GO2)
    assert (one.velocity, one.rate, one.torque, one.power) == (1.0, 1.0, 1.0, 1.0)


# Dynamic similarity


def moving_alike(robot: str, length: float, mass: float) -> Any:
    """go2-velocity's task with robots in states that are alike but for their units, which stand here in full.

    Args:
        length, mass: of the robot, in those of the one at 1.
    """
    time = length**0.5
    env = rookery.make("go2-velocity", STATES, config={**CALM, "robot": robot})
    env.reset(seed=0)
    task = env.task
    # measured, it has the feet sink in by a length that the physics step gives, not their size
    task.model = task.robot.model = dataclasses.replace(task.model, stand_height=0.28 * length)
    task._standing_knees = task.robot.standing_knees()
    draw = np.random.default_rng(7)

    def some(spread: float, *shape: int) -> Tensor:
        return torch.from_numpy(spread * draw.uniform(-1.0, 1.0, shape)).float()

    state = torch.zeros(STATES, 13)
    state[:, :3] = length * (some(0.06, STATES, 3) + torch.tensor([0.0, 0.0, 0.28]))
    turn = torch.cat((torch.ones(STATES, 1), some(0.15, STATES, 3)), dim=1)
    state[:, 3:7] = turn / turn.norm(dim=1, keepdim=True)
    state[:, 7:10] = length / time * some(0.5, STATES, 3)
    state[:, 10:13] = some(1.0, STATES, 3) / time
    joints = task.robot.home + some(0.1, STATES, 12)
    task.robot.base.set_state(None, state[:, None])
    task.robot.joints.set_state(None, joints, some(2.0, STATES, 12) / time)
    env.world.forward()
    units = torch.tensor([length / time, length / time, 1.0 / time])
    task.command.copy_(units * (some(0.3, STATES, 3) + torch.tensor([0.3, 0.0, 0.0])))
    task.phase.copy_(some(0.5, STATES) + 0.5)
    task.robot.force.copy_(mass * length * some(10.0, STATES, 12))
    task.last_action.copy_(some(1.0, STATES, 12))
    task.refresh()
    task.contact.copy_(task.clearance < 0.01 * length)
    task.slip.copy_((length / time) ** 2 * (some(0.5, STATES) + 0.5))
    task.knees.mul_(0.5)  # as of robots that kneel
    task.undesired.fill_(1.0)
    task.colliding.fill_(1.0)
    return task


@pytest.mark.parametrize("length", [0.3, 0.5, 2.2])
def test_what_moves_alike_earns_the_same(length, tmp_path):
    """States of a robot and of one `length` times as long, drawn alike, in their own units."""
    one = moving_alike(str(write_scaled(tmp_path, 1.0)), 1.0, 1.0)
    other = moving_alike(str(write_scaled(tmp_path, length)), length, length**3)
    expected, got = one.rewards()["robot"], other.rewards()["robot"]
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
    walking = set(expected) - {"termination", "alive", "stand_still"}
    assert [n for n in walking if float(expected[n].abs().max()) < 1e-3] == [], (
        "the states do not tell these terms' faults"
    )


@pytest.mark.parametrize("length", [0.3, 1.0, 2.2])
def test_starts_and_contacts_follow_the_legs(length, tmp_path):
    """A Go2 starts 30 mm above its height, and a foot of its within 4 mm of the ground is on it; its legs are 0.426 m long."""
    unit = 0.37 / 0.426 * length
    env = rookery.make("go2-velocity", 2, config={**CALM, "robot": str(write_scaled(tmp_path, length))})
    env.reset(seed=0)
    task = env.task
    state = task.robot.base.state.clone()
    start = state[:, 0, 2] - task.model.stand_height
    torch.testing.assert_close(start, torch.full((2,), 0.03 * unit), rtol=0.0, atol=2e-4)
    task.refresh()
    state[:, 0, 2] -= task.clearance.mean(1)
    state[:, 0, 2] += unit * torch.tensor([0.0035, 0.0045])
    task.robot.base.set_state(None, state)
    env.world.forward()
    task.advance()
    assert task.contact.all(1).tolist() == [True, False] and not task.contact[1].any()


@pytest.mark.parametrize("length", [0.5, 2.2])
def test_commands_gait_and_pushes_follow_the_legs(length, tmp_path):
    """Beside those of the same robot at its own length."""

    def drawn(file: Path) -> tuple[Any, Tensor, Tensor]:
        env = rookery.make("go2-velocity", 256, config={**CALM, "robot": str(file), "stand_share": 0.0, "push_s": 0.1})
        env.reset(seed=1)
        task = env.task
        before = task.robot.base.lin_vel.clone()
        task.next_push.zero_()
        task._push()
        return task, task.command.clone(), (task.robot.base.lin_vel - before)[:, 0, :2].norm(dim=1)

    (one, command, push), (other, commands, pushes) = (drawn(write_scaled(tmp_path, s)) for s in (1.0, length))
    time = length**0.5
    torch.testing.assert_close(commands, command * torch.tensor([length / time, length / time, 1.0 / time]))
    torch.testing.assert_close(pushes, push * length / time)
    assert float(push.max()) > 0.3
    clocks = [task.groups()["robot"].observation[3].clock.frequency for task in (one, other)]
    assert clocks[1] == pytest.approx(clocks[0] / time)
    (ranges,) = other.commands()
    assert float(commands[:, 0].max()) <= ranges.high[0] <= 1.02 * float(commands[:, 0].max())
    for task, factor in ((one, 1.0), (other, length / time)):
        task.command.fill_(0.99 * factor)
        task.clip_command()
        assert float(task.command[0, 0]) == pytest.approx(0.99 * factor)
        task.command.fill_(9.0 * factor)
        task.clip_command()
        assert 3.0 * factor < float(task.command[0, 0]) < 4.0 * factor


# Standing earns more than falling

Act = Callable[[Any, Tensor, int], Tensor]


def stand(task: Any, neutral: Tensor, step: int) -> Tensor:
    return neutral


def limp(task: Any, neutral: Tensor, step: int) -> Tensor:
    """Targets where the joints are: servos that only damp."""
    return task.robot.normalized(task.robot.pos)[:, None]


def fold(task: Any, neutral: Tensor, step: int) -> Tensor:
    """Thighs forward and knees bent as far as actions go."""
    out = neutral.clone()
    out[..., 1::3] = -torch.tensor(task.model.home[2::3]).sign()
    out[..., 2::3] = torch.tensor(task.model.home[2::3]).sign()
    return out


def tip(task: Any, neutral: Tensor, step: int) -> Tensor:
    """Left legs stretched, right ones folded."""
    out = fold(task, neutral, step)
    out[..., 0:3] = -out[..., 0:3]
    out[..., 6:9] = -out[..., 6:9]
    return out


def thrown(task: Any, neutral: Tensor, step: int) -> Tensor:
    """A blow to the side that no robot stands."""
    if step == 25:
        state = task.robot.base.state.clone()
        size = task.model.stand_height
        state[:, 0, 8] += 3.0 * (9.81 * size) ** 0.5
        state[:, 0, 10] -= 3.0 * (9.81 / size) ** 0.5
        task.robot.base.set_state(None, state)
    return neutral


def leap(task: Any, neutral: Tensor, step: int) -> Tensor:
    """Folded, then all legs stretched at once, and limp in the air."""
    if step < 10:
        return fold(task, neutral, step)
    return -fold(task, neutral, step) if step < 20 else limp(task, neutral, step)


FALLS: tuple[Act, ...] = (limp, fold, tip, thrown, leap)
SECONDS = 4.0


def returns(robot: str, act: Act, **config: Any) -> Tensor:
    """[N] of episodes that end where the robot falls."""
    env = rookery.make("go2-velocity", N, seed=0, config={**CALM, "robot": robot, **config})
    env.reset()
    task = env.task
    neutral = torch.tensor(env.groups["robot"].action.neutral).expand(N, 1, -1)
    total, goes_on = torch.zeros(N), torch.ones(N)
    for step in range(round(SECONDS / task.cfg.control_dt)):
        _, reward, terminated, _, _ = env.step({"robot": act(task, neutral, step)})
        total += goes_on * reward["robot"][:, 0]
        goes_on *= (~terminated).float()
    env.close()
    assert act is not stand or goes_on.all(), "it does not stand"
    return total


SIZES = [(0.5, 0.125), (1.0, 1.0), (2.2, 10.0)]  # length and mass
ROBOTS = ["go2", *SIZES, "a1/a1.urdf", "laikago/laikago_toes_zup.urdf", "quadruped/vision60.urdf"]


TOLD_TO_STAND = {"stand_share": 1.0}
USUAL = {"stand_share": 0.1, "resample_s": 1.0}


QUICK = ("go2",)


@pytest.fixture(
    scope="module", params=[r if r in QUICK else pytest.param(r, marks=pytest.mark.slow) for r in ROBOTS], ids=str
)
def robot(request, tmp_path_factory) -> str:
    if isinstance(request.param, tuple):
        return str(write_scaled(tmp_path_factory.mktemp("scaled"), *request.param))
    return request.param if request.param == "go2" else str(PUBLIC / request.param)


@pytest.fixture(scope="module")
def standing(robot) -> tuple[Tensor, Tensor]:
    """Returns of standing, told to stand and told what the task usually tells."""
    return returns(robot, stand, **TOLD_TO_STAND), returns(robot, stand, **USUAL)


@pytest.mark.parametrize("fall", slow_but([thrown], FALLS))
def test_standing_earns_more_than_falling(robot, standing, fall):
    """Told to stand, in every world; with the task's own commands, in the mean."""
    told, usual = standing
    assert (told > 0.9 * told.max()).all() and (told > returns(robot, fall, **TOLD_TO_STAND)).all()
    assert usual.mean() > returns(robot, fall, **USUAL).mean() + 50.0
