"""Episodes begin alike whatever noise, delays and randomization are on: a robustness sweep compares the same starts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rookery
from rookery.sim.env import Env
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Randomization, Range

# config that makes episodes short, so that several begin
TASKS = {
    "drone-hover": {"episode_s": 0.05},
    "drone-track": {"episode_s": 0.05},
    "table-reach": {"episode_s": 0.1},
    "go2-velocity": {"episode_s": 0.1},
    "go2arm-reach": {"episode_s": 0.1},
    "volley-1v1": {"episode_s": 0.1},
}
NOISE = {"observation_noise": 1.0, "observation_bias": 1.0}
DELAYS = {"observation_delay": 0.02, "action_delay": 0.02}


def starts(env: Env, steps: int = 16, seed: int | None = None, size: float = 0.0) -> list[torch.Tensor]:
    """States and raw observations with which episodes begin, by world, [episodes, ...]. Actions are neutral, or random of that
    size, so that episodes can go differently."""
    env.reset(seed)
    found: list[list[torch.Tensor]] = [[] for _ in range(env.num_envs)]
    noise = torch.Generator().manual_seed(0)

    def note(worlds: list[int]) -> None:
        terms = [v for values in env.unwrapped.task.observe().values() for v in values.values()]
        for i in worlds:
            data = env.mj_data(i)
            parts = [torch.tensor([*data.qpos, *data.qvel, *data.mocap_pos.flatten()], dtype=torch.float64)]
            found[i].append(torch.cat([*parts, *(v[i].flatten().double() for v in terms)]))

    note(list(range(env.num_envs)))
    for _ in range(steps):
        actions = {}
        for g, s in env.groups.items():
            neutral = torch.tensor(s.action.neutral).expand(env.num_envs, s.count, -1)
            actions[g] = neutral + size * torch.randn(neutral.shape, generator=noise)
        _, _, terminated, truncated, _ = env.step(actions)
        note((terminated | truncated).nonzero().flatten().tolist())
    assert min(map(len, found)) > 1
    return [torch.stack(x) for x in found]


def begin_alike(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x[: len(y)], y[: len(x)]) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("fixed", [NOISE, DELAYS], ids=["noise", "delays"])
def test_noise_and_delays_leave_the_starts_alone(task: str, fixed: dict[str, float]) -> None:
    plain = starts(rookery.make(task, 3, config=TASKS[task], seed=5))
    assert begin_alike(plain, starts(rookery.make(task, 3, config=TASKS[task], seed=5, fixed=fixed)))
    assert not begin_alike(plain, starts(rookery.make(task, 3, config=TASKS[task], seed=6, fixed=fixed)))


@pytest.mark.parametrize("task", ["drone-hover", "go2-velocity"])
def test_noise_draws_nothing_from_the_stream_of_the_task(task: str) -> None:
    """Commands and gusts in the middle of an episode come from that stream too."""
    counters = []
    for fixed in ({}, NOISE):
        env = rookery.make(task, 2, seed=5, fixed=fixed)
        env.reset()
        actions = {g: torch.tensor(s.action.neutral).expand(env.num_envs, s.count, -1) for g, s in env.groups.items()}
        for _ in range(4):
            env.step(actions)
        assert isinstance(env, VecEnv)
        counters.append(env.rng.counter.clone())
    assert torch.equal(*counters)


@pytest.mark.parametrize("task", ["table-reach", "volley-1v1", "drone-hover"])
def test_randomization_leaves_the_starts_alone(task: str) -> None:
    """As far as its parameters are not part of the state: positions of bodies and joints."""

    def poses(**options: Any) -> list[torch.Tensor]:
        env = rookery.make(task, 3, config=TASKS[task], seed=5, **options)
        found = []
        for _ in range(3):  # three episodes
            env.reset()
            data = [env.mj_data(i) for i in range(3)]
            found.append(torch.tensor([[*d.qpos, *d.qvel] for d in data]))
        return found

    assert all(torch.equal(a, b) for a, b in zip(poses(), poses(randomize="default"), strict=True))


@pytest.mark.parametrize("task", TASKS)
def test_an_episode_begins_alike_whatever_went_before(task: str) -> None:
    """Episode k of a world has the same start after other actions; pushes and commands within an episode do not shift it."""
    config = {**TASKS[task], "episode_s": 0.2}
    a = starts(rookery.make(task, 3, config=config, seed=5), 60)
    b = starts(rookery.make(task, 3, config=config, seed=5), 60, size=0.7)
    assert begin_alike(a, b)


@pytest.mark.parametrize("randomize", ["none", "default"])
@pytest.mark.parametrize("task", TASKS)
def test_make_and_reset_with_the_same_seed_begin_alike(task: str, randomize: str) -> None:
    made = rookery.make(task, 3, config=TASKS[task], seed=5, randomize=randomize)
    other = rookery.make(task, 3, config=TASKS[task], seed=6, randomize=randomize)
    first = made.reset()[0]
    again = other.reset(5)[0]
    assert all(torch.equal(first[g], again[g]) for g in first)
    neutral = {g: torch.tensor(s.action.neutral).expand(3, s.count, -1) for g, s in made.groups.items()}
    for _ in range(12):
        x, y = made.step(neutral)[0], other.step(neutral)[0]
        assert all(torch.equal(x[g], y[g]) for g in x)


def test_a_parameter_does_not_depend_on_which_others_are_drawn() -> None:
    written: dict[str, torch.Tensor] = {}

    def parameter(name: str) -> Parameter:
        return Parameter(name, "1", 0, 0, 1, lambda ids, v: written.__setitem__(name, v.clone()))

    parameters = {name: parameter(name) for name in ("a", "b", "c")}
    ids = torch.arange(4)
    found = []
    for names in (("a", "b", "c"), ("c",), ("b", "c")):
        draws = Randomization(parameters, {n: Range(0.0, 1.0) for n in names}, 4, Streams(4, 3, name="randomization"))
        for _ in range(2):
            draws.draw(ids)
        found.append(written["c"])
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
    assert not torch.equal(written["b"], written["c"])


def test_streams_of_other_names_and_episodes_are_unrelated() -> None:
    plain = Streams(2000, 3)
    noise = Streams(2000, 3, name="noise")
    ids = torch.arange(2000)
    draws = [plain(None).uniform(), noise(None).uniform()]
    for _ in range(2):
        plain.begin_episode(ids)
        draws += [plain(None).uniform(), plain.named(ids, ["mass", "friction"])[:, 0]]
    related = torch.corrcoef(torch.stack(draws)).fill_diagonal_(0.0)
    assert related.abs().max() < 0.1
    assert abs(float(torch.stack(draws).mean()) - 0.5) < 0.02


@pytest.mark.parametrize("task", ["drone-hover", "go2-velocity"])
def test_worlds_that_share_a_start_go_alike(task):
    """World i begins like world i % starts, with its noise, bias, gusts and direction of gravity; the others differ."""
    fixed = {"observation_noise": 1.0, "observation_bias": 1.0, "gravity_tilt": 0.05}
    config = {"episode_s": 0.1}
    env = rookery.make(task, 6, starts=3, seed=3, fixed=fixed, config=config)
    alone = rookery.make(task, 3, seed=3, fixed=fixed, config=config)
    for e in (env, alone):
        e.reset(3)
    (group,) = env.groups
    action = torch.tensor(env.groups[group].action.neutral).expand(6, 1, -1)
    for _ in range(12):  # beyond the end of an episode
        obs = env.step({group: action})[0][group]
        other = alone.step({group: action[:3]})[0][group]
        assert torch.equal(obs[:3], obs[3:]) and torch.equal(obs[:3], other)
        assert not torch.equal(obs[0], obs[1])
    env.close()
    alone.close()


def test_sets_of_tasks_have_no_common_starts():
    with pytest.raises(RookeryError, match="no shards, starts or skills"):
        rookery.make("MT10", 10, starts=5)
