"""States with one wrong entry: whatever it is, it is refused and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from policies_fake import FakeEnv
from policies_toy import ToyEnv, train
from sampled import slow_but
from torch import Tensor

import rookery
from rookery.experiments.demonstrations import record, recorded_env
from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.imitation.behavior_cloning import BehaviorCloning, BehaviorCloningConfig
from rookery.policies.imitation.dagger import DAgger, DAggerConfig
from rookery.policies.imitation.teacher import ControllerTeacher
from rookery.policies.nn.adam import Adam
from rookery.policies.storage.normalizers import ObservationNorm, ValueNorm
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.world import World

State = dict[str, Tensor]


def wrong(what: str, engine: str) -> bool:
    """Whether a state damaged in this way must be refused: a field that MuJoCo's worlds share takes the scene's values, and a
    rotor world has a row of commands for each physics step that was planned."""
    if engine == "mujoco" and "params." in what:
        return not what.endswith(" missing")
    return not (engine == "rotor" and what.endswith(("commands longer", "commands one row")))


def damages(state: State) -> Iterator[tuple[str, State]]:
    """The state with one entry missing, of another type, with an axis of 1 more, and of another size; all that a copy would
    convert or broadcast is among them."""
    for name, value in state.items():
        yield f"{name} missing", {k: v for k, v in state.items() if k != name}
        wrong = {"dtype": value.double() if value.dtype != torch.float64 else value.float(), "axis": value.unsqueeze(0)}
        if value.dim():
            wrong["longer"] = torch.cat((value, value[-1:] if len(value) else value.new_zeros(1, *value.shape[1:])))
            wrong["one row"] = value[:1]
            wrong["one column"] = value[..., :1]
            wrong["number"] = value.flatten()[0] if value.numel() else value.new_zeros(())
        for what, damaged in wrong.items():
            if (damaged.shape, damaged.dtype) != (value.shape, value.dtype):
                yield f"{name} {what}", state | {name: damaged}


def refuses(load: Callable[[State], Any], state: State) -> bool:
    """Whether it raises one of the two errors for a state that does not fit."""
    try:
        load(state)
    except (ValueError, RookeryError):
        return True
    return False


def assert_refused(load: Callable[[State], Any], own: Callable[[], State], saved: State, engine: str = "") -> None:
    """Load every damaged form of `saved`, and then the whole one."""
    saved = {k: v.clone() for k, v in saved.items()}
    before = {k: v.clone() for k, v in own().items()}
    assert any(not torch.equal(v, before[k]) for k, v in saved.items() if k in before), "nothing to load"
    for what, damaged in damages(saved):
        if not wrong(what, engine):
            continue
        assert refuses(load, damaged), f"{what}: was loaded"
        after = own()
        assert after.keys() == before.keys(), what
        for name, value in after.items():
            assert torch.equal(value, before[name]), f"{what}: {name} has changed"
    load(saved)
    assert all(torch.equal(v, saved[k]) for k, v in own().items())


def trained(algorithm: Any, updates: int) -> Any:
    train(algorithm, algorithm.env, algorithm.env.reset()[0], updates)
    return algorithm


PPO_CONFIGS = {
    "plain": {},
    "central": {"critic": "central"},
    "adaptive": {"schedule": "adaptive", "share": False},
}


@pytest.mark.parametrize("settings", PPO_CONFIGS)
@pytest.mark.parametrize("fresh", [True, False])
def test_ppo(settings, fresh):
    config = PPOConfig(rollout_steps=4, epochs=1, minibatches=1, hidden=(3,), **PPO_CONFIGS[settings])
    saved, mine = (PPO(FakeEnv(3, agents=2, drop_out=True), config, seed) for seed in (0, 1))
    trained(saved, 2)
    if not fresh:  # before its first step it has no context of its own
        trained(mine, 1)
    assert_refused(mine.load_state_dict, mine.state_dict, saved.state_dict())


SAC_VARIANT = {"priority_alpha": 0.6, "return_limit": 5.0, "critic_batch_norm": True}


@pytest.mark.parametrize("settings", slow_but([SAC_VARIANT], [{}, SAC_VARIANT]))
def test_sac(settings):
    config = SACConfig(rollout_steps=4, batch=8, learning_starts=20, buffer_size=80, hidden=(3,), **settings)
    saved, mine = (SAC(ToyEnv(4, agents=2, drop_out=True), config, seed) for seed in (0, 1))
    trained(saved, 12)
    trained(mine, 3)
    assert_refused(mine.load_state_dict, mine.state_dict, saved.state_dict())


def test_td3():
    config = TD3Config(
        rollout_steps=4, batch=8, learning_starts=20, buffer_size=80, hidden=(3,), critic_layer_norm=True
    )
    saved, mine = (TD3(ToyEnv(4, agents=2, drop_out=True), config, seed) for seed in (0, 1))
    trained(saved, 12)
    trained(mine, 3)
    assert_refused(mine.load_state_dict, mine.state_dict, saved.state_dict())


def test_dagger():
    config = DAggerConfig(rollout_steps=3, keep_rollouts=2, hidden=(3,), batch=8)

    def make(seed: int) -> DAgger:
        env = ToyEnv(2, agents=2)
        return DAgger(env, config, seed=seed, inputs={"teacher": ControllerTeacher(env.controller())})

    assert_refused((mine := trained(make(1), 1)).load_state_dict, mine.state_dict, trained(make(0), 2).state_dict())


def test_behavior_cloning(tmp_path):
    config = {"episode_s": 0.4, "settled_s": 0.1}
    record(Path("drone-hover"), tmp_path / "demos", 2, num_envs=2, config=config)
    data = Dataset(tmp_path / "demos")
    settings = BehaviorCloningConfig(batch=16, hidden=(3,))
    saved, mine = (BehaviorCloning(recorded_env(data), settings, seed, {"dataset": data}) for seed in (0, 1))
    saved.update(0.0)
    assert_refused(mine.load_state_dict, mine.state_dict, saved.state_dict())


def adam(seed: int) -> Adam:
    torch.manual_seed(seed)
    made = Adam(torch.randn(1, 5), torch.randn(1, 5), 1.0)
    for _ in range(seed + 1):
        made.step(torch.full((1, 1), 0.1))
    return made


def observation_norm(seed: int) -> ObservationNorm:
    torch.manual_seed(seed)
    made = ObservationNorm(3, 5.0)
    made.record(torch.randn(7, 3))
    made.commit()
    return made


def value_norm(seed: int) -> ValueNorm:
    torch.manual_seed(seed)
    made = ValueNorm(2)
    made.update(torch.randn(2, 7))
    return made


@pytest.mark.parametrize("make", [adam, observation_norm, value_norm])
def test_parts_of_algorithms(make):
    mine = make(1)
    assert_refused(mine.load_state_dict, mine.state_dict, make(0).state_dict())


def stepped(env: Env, steps: int) -> Env:
    env.reset(seed=steps)
    for _ in range(steps):
        env.step({g: torch.full((env.num_envs, s.count, s.action.size), 0.1) for g, s in env.groups.items()})
    return env


ENVS = {
    "rotor": ("drone-hover", {"engine": "rotor", "randomize": "default"}),
    "mujoco": ("drone-hover", {"engine": "mujoco", "randomize": "default"}),
    "pybullet": ("drone-hover", {"engine": "pybullet"}),
}


@pytest.mark.parametrize("name", ENVS)
def test_environments_and_engines(name):
    task, settings = ENVS[name]
    saved, mine = (stepped(rookery.make(task, num_envs=2, seed=n, **settings), n) for n in (3, 1))
    assert_refused(mine.load_state_dict, mine.state_dict, saved.state_dict(), name)
    world: World = mine.unwrapped.world
    stepped(mine, 1)
    assert_refused(world.restore, world.snapshot, saved.unwrapped.world.snapshot(), name)
    for env in (saved, mine):
        env.close()


def test_several_tasks_side_by_side():
    saved, mine = (
        stepped(rookery.make("MT10", 2, seed=n, config={"tasks": ["table-push", "table-reach"]}), n) for n in (2, 1)
    )
    mine_state = mine.state_dict()
    state = saved.state_dict()
    last = list(state)[-1]
    for damaged in ({k: v for k, v in state.items() if k != last}, state | {last: state[last].unsqueeze(0)}):
        with pytest.raises((ValueError, RookeryError)):
            mine.load_state_dict(damaged)
        assert all(torch.equal(v, mine_state[k]) for k, v in mine.state_dict().items())


def test_a_runner_loads_all_or_nothing(tmp_path):
    """An environment that does not fit leaves the algorithm as it was."""
    from rookery.policies.training.runner import Runner
    from rookery.policies.training.settings import RunnerConfig

    class Strict(FakeEnv):
        def check_state_dict(self, state: State) -> None:
            raise ValueError("another terrain")

    config = PPOConfig(rollout_steps=4, epochs=1, minibatches=1, hidden=(3,))
    stop = RunnerConfig(total_steps=8, checkpoint_every=1)
    saved = Runner(PPO(FakeEnv(2), config), stop, tmp_path)
    saved.iterate()
    saved.save()
    mine = Runner(PPO(Strict(2), config, seed=1), stop, tmp_path)
    before = {k: v.clone() for k, v in mine.algorithm.state_dict().items()}
    with pytest.raises(RookeryError, match="another terrain"):
        mine.load(tmp_path)
    assert all(torch.equal(v, before[k]) for k, v in mine.algorithm.state_dict().items())
    assert mine.steps == 0
