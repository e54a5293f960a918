"""Delays of whole environments against loops by hand whose control step is one physics step and that know no delay.

What is measured at a moment acts on the motors observation delay + action delay later, to the physics step, on every engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import rookery
from rookery.sim.envs.delays import ControlDelay
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.randomization.batch import Batch

STEPS = 9  # control steps
FAMILIES = {  # task, config
    "drone, rotors": ("drone-hover", {"action": "rotor_thrust"}),
    "drone, rates": ("drone-hover", {"action": "ctbr"}),
    "volleyball": ("volley-solo-bump", {}),
    "quadruped": ("go2-velocity", {}),
    "quadruped with an arm": ("go2arm-reach", {}),
}
CASES = [
    *[(family, engine) for family in ("drone, rotors", "drone, rates", "volleyball") for engine in ("rotor", "mujoco")],
    ("drone, rates", "pybullet"),
    ("quadruped", "mujoco"),
    ("quadruped", "pybullet"),
    ("quadruped with an arm", "mujoco"),
]


def make(family: str, engine: str, n: int, **config: Any) -> VecEnv:
    task, own = FAMILIES[family]
    env = rookery.make(task, n, engine=engine, config={**own, **config}, seed=1, starts=1).unwrapped
    assert isinstance(env, VecEnv)
    return env


def delayed(env: VecEnv, observation: list[int], action: list[int], actions_only: bool = False) -> Tensor:
    """Begin an episode with these delays, in physics steps; the first observation [N, A, O] of the first group."""
    ids = torch.arange(env.num_envs)
    values = {"observation_delay": observation, "action_delay": action}
    batch = Batch.of({k: (np.array(v) * env.world.dt).astype(np.float32) for k, v in values.items()})
    env.reset()
    for p in env._pipelines.values():
        p.configure(ids.numpy(), batch)
    for d in env._delays.values():
        d.configure(ids.numpy(), batch)
        d.reset(ids.numpy())
    out = {g: torch.empty(env.num_envs, s.count, s.observation_size) for g, s in env.groups.items()}
    for g, p in env._pipelines.items():
        p.restart(ids, env._terms[g], out[g])
    return first(out)


def first(groups: dict[str, Tensor]) -> Tensor:
    return next(iter(groups.values()))


def policy(env: VecEnv, obs: Tensor) -> Tensor:
    """Actions [N, A, D] that follow from the newest values of what is measured alone."""
    group = next(iter(env.groups.values()))
    measured = torch.cat(
        [obs[..., s] for t, s in zip(group.observation, group.slices().values(), strict=True) if not t.local], -1
    )
    weights = torch.linspace(-1.0, 1.0, measured.shape[-1] * group.action.size).view(measured.shape[-1], -1)
    return torch.tensor(group.action.rest) + 0.2 * torch.tanh(measured @ weights)


def state(env: VecEnv) -> Tensor:
    """[N, S] the motion of all robots."""
    robots = getattr(env.task, "drones", None)
    if robots is not None:
        return robots.bodies.state.clone().flatten(1)
    robot = env.task.robot
    return torch.cat((robot.base.state.flatten(1), robot.joints.pos, robot.joints.vel), 1).clone()


@pytest.mark.parametrize(("family", "engine"), CASES)
def test_what_is_measured_acts_after_both_delays_to_the_physics_step(family, engine):
    late = make(family, engine, 6)
    k = late._k
    observation = [0, 0, 1, k - 1, k + 1, 2 * k]
    action = [0, 1, 2, 1, k + 2, 0]
    group = next(iter(late.groups))
    obs = delayed(late, observation, action)
    found = []
    for _ in range(STEPS):
        obs = first(late.step({group: policy(late, obs)})[0])
        found.append(state(late))
    by_hand = make(family, engine, 6, control_dt=late.world.dt)
    assert by_hand._k == 1
    obs = first(by_hand.reset()[0])
    rest = torch.tensor(by_hand.groups[group].action.rest)
    answers: list[Tensor] = []  # to what was measured at the beginnings of control steps
    for t in range(STEPS * k):
        if t % k == 0:
            answers.append(policy(by_hand, obs))
        now = []
        for i in range(6):
            at = (t - observation[i] - action[i]) // k
            begun = t >= observation[i] % k + action[i]  # the first measurement stands for those before it
            now.append(answers[max(at, 0)][i] if begun else rest.expand_as(answers[0][i]))
        obs = first(by_hand.step({group: torch.stack(now)})[0])
        if t % k == k - 1:
            torch.testing.assert_close(found[t // k], state(by_hand), rtol=1e-5, atol=2e-6)
    moved = found[-1][1:] - found[-1][:1]
    assert moved.abs().amax(1).min() > 1e-4, "every delay shows"


@pytest.mark.parametrize(
    ("family", "engine"), [("drone, rates", "rotor"), ("drone, rotors", "mujoco"), ("quadruped", "mujoco")]
)
def test_no_delay_beside_delays_is_bit_equal_to_no_delay_at_all(family, engine):
    ends = []
    for delays in ([0, 0, 0], [0, 3, 7]):
        env = make(family, engine, 3)
        obs = delayed(env, delays, delays[::-1] if not any(delays) else [0, 2, 0])
        for _ in range(STEPS):
            obs = first(env.step({next(iter(env.groups)): policy(env, obs)})[0])
        ends.append(state(env))
    assert torch.equal(ends[0][0], ends[1][0]) and not torch.equal(ends[0][1], ends[1][1])


ARMS = [
    ("table-reach", "joint_position", "mujoco"), ("table-reach", "joint_velocity", "mujoco"),
    ("table-reach", "joint_torque", "mujoco"), ("panda-lift", "cartesian", "mujoco"),
    ("panda-lift", "impedance", "mujoco"), ("hand-reorient", None, "mujoco"),
]  # fmt: skip


@pytest.mark.parametrize(("task", "kind", "engine"), ARMS)
def test_a_step_change_reaches_an_arms_drives_at_the_physics_step_that_the_delay_says(task, kind, engine):
    """Odd worlds get another action from control step 3 on: their joints move otherwise than their even neighbors' from the
    physics step on in which it arrives, and not before."""
    config = {} if kind is None else {"action": kind}
    n, change, total = 14, 3, 7
    env = rookery.make(task, n, engine=engine, config=config, seed=1, starts=1).unwrapped
    k = env._k
    delays = np.repeat([0, 1, 2, k - 1, k, k + 1, 2 * k + 1], 2).tolist()
    group = next(iter(env.groups))
    delayed(env, [0] * n, delays)
    drives = env.task.hand.actuators if kind is None else env.task.robot.actuators
    joints = env.task.hand.joints if kind is None else env.task.robot.joints
    seen = []
    env.world.inner_loops = (
        *env.world.inner_loops,
        lambda i: seen.append((drives.control.clone(), joints.vel.clone())),
    )
    spec = env.groups[group].action
    for s in range(total):
        action = torch.tensor(spec.rest).repeat(n, 1, 1)
        action[1::2] += 0.3 * (s >= change)
        env.step({group: action.clamp(-1.0, 1.0)})
    control, speed = (torch.stack(x) for x in zip(*seen, strict=True))  # [physics steps, N, ...]
    for i in range(0, n, 2):
        commanded = (control[:, i] != control[:, i + 1]).any(1).nonzero()[0].item()
        moved = (speed[:, i] != speed[:, i + 1]).any(1).nonzero()[0].item()
        assert commanded == change * k + delays[i]
        assert moved == commanded + 1  # speeds are those before the physics step
        if i and kind != "impedance":  # what is sent is the same, later
            shift = delays[i]
            assert torch.equal(control[shift:, i + 1], control[: len(control) - shift, 1])


def test_jittered_controls_are_the_latest_that_have_arrived_and_the_last_is_held():
    n, k, steps = 40, 5, 30
    delay = ControlDelay(n, k, 2, 0.002)
    delay.reset(torch.arange(n), torch.full((n, 2), -1.0))
    rng = np.random.default_rng(0)
    late = rng.integers(0, 3 * k, (steps, n))
    for s in range(steps):
        meant = torch.arange(s * k, s * k + k, dtype=torch.float64)[None, :, None].expand(n, k, 2)
        got = delay.push(meant, torch.from_numpy(late[s]))
        for i in range(n):
            for j in range(k):
                now = s * k + j
                arrived = [t * k + r for t in range(s + 1) for r in range(k) if t * k + r + late[t, i] <= now]
                assert (got[i, j] == max(arrived, default=-1)).all()


def test_saved_controls_go_on():
    a, b = (ControlDelay(3, 4, 2, 0.005) for _ in range(2))
    for s in range(20):
        rows, late = torch.full((3, 2), float(s)), torch.tensor([0, 5, 11])
        out = a.push(rows, late)
        if s > 9:
            assert torch.equal(out, b.push(rows, late))
        if s == 9:
            b.load_state_dict(a.state_dict())


@pytest.mark.parametrize(
    ("task", "step"), [("drone-hover", 0.002), ("table-reach", 0.0125 / 3), ("go2-velocity", 0.005)]
)
def test_the_contract_names_delays_that_can_occur(task, step):
    """Drawn over many episodes, nothing lies outside, and the ends are whole physics steps."""
    env = rookery.make(task, 512, randomize="default", seed=3).unwrapped
    env.reset()
    named = env.deployment().randomized
    (delay,) = env._delays.values()
    (pipeline,) = env._pipelines.values()
    for name, steps in (("action_delay", delay.delay), ("observation_delay", pipeline.extra)):
        low, high = named[name]
        assert [steps.min() * step, steps.max() * step] == pytest.approx([low, high], abs=1e-6)
        assert high > 0 and len(steps.unique()) == round((high - low) / step) + 1
