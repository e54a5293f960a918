"""Copies and pickles of environments go on as the originals would, or say that they cannot. Ends are told before restarts."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from sampled import slow_but

import rookery
from rookery.sim.engines import make_world
from rookery.sim.env import Env
from rookery.sim.env_wrapper import EnvWrapper
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.tasks.drones.hover import Hover, HoverConfig

SHORT = {"episode_s": 0.1}  # 10 control steps


class Louder(EnvWrapper):
    """A wrapper of the user's, with a tensor of its own."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.steps_made = torch.zeros(1)

    def step(self, actions: Any) -> Any:
        self.steps_made += 1.0
        obs, *rest = super().step(actions)
        return {g: o * self.steps_made for g, o in obs.items()}, *rest


MAKERS = {
    "one task": lambda: rookery.make("drone-hover", 3, config=SHORT, seed=5, randomize="default"),
    "a set": lambda: rookery.make("MT10", 4, config={"tasks": ["table-reach", "table-push"], "episode_s": 0.1}, seed=5),
    "scalarized": lambda: rookery.make(
        "swarm-surround", 2, config={"episode_s": 0.4}, weights={"closeness": 1.0}, seed=5
    ),
    "a frozen opponent": lambda: rookery.make("volley-1v1-frozen", 2, config={"frozen": "controller"}, seed=5),
    "processes": lambda: rookery.make("table-reach", 4, config={"episode_s": 0.4}, seed=5, shards=2),
    "a wrapper of the user's": lambda: Louder(rookery.make("drone-hover", 2, config=SHORT, seed=5)),
}


def steps(env: Env, count: int, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    out: list[torch.Tensor] = []
    for _ in range(count):
        actions = {
            g: torch.rand(env.num_envs, s.count, s.action.size, generator=generator) * 2 - 1
            for g, s in env.groups.items()
        }
        obs, reward, terminated, truncated, _ = env.step(actions)
        out += [*obs.values(), *reward.values(), terminated, truncated]
    return out


@pytest.mark.parametrize("name", slow_but([name for name in MAKERS if name != "processes"], MAKERS))
def test_a_copy_goes_on_as_the_original_would(name):
    env = MAKERS[name]()
    env.reset()
    steps(env, 4, seed=0)
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    seen = [steps(twin, 12, seed=1) for twin in twins]
    want = steps(env, 12, seed=1)
    for given in seen:
        assert all(torch.equal(a, b) for a, b in zip(given, want, strict=True))
    again = copy.deepcopy(twins[0])  # a copy knows how to make copies
    assert all(torch.equal(a, b) for a, b in zip(steps(again, 2, seed=2), steps(env, 2, seed=2), strict=True))
    for made in (env, *twins, again):
        made.close()


def test_what_was_changed_after_making_is_not_copied_into_the_arguments():
    config = dict(SHORT)
    env = rookery.make("drone-hover", config=config)
    config["episode_s"] = 5.0
    assert copy.deepcopy(env).max_episode_steps == env.max_episode_steps == 10


def test_an_environment_that_was_put_together_by_hand_says_how_to_copy_it():
    task = Hover(HoverConfig())
    env = VecEnv(task, make_world("rotor", task.scene(), 1))
    with pytest.raises(RookeryError, match=r"make another with the same arguments .*load_state_dict"):
        copy.deepcopy(env)
    with pytest.raises(RookeryError, match="worlds of an engine cannot be copied"):
        copy.copy(env.world)


def test_a_seed_given_to_reset_counts():
    """See `Env.seeded`, which adapters read."""
    assert MAKERS["one task"]().seeded and MAKERS["scalarized"]().seeded
    some = {"tasks": ["table-reach"]}
    for task, arguments in (("drone-hover", {}), ("MT10", {"config": some})):
        env = rookery.make(task, **arguments)
        assert not env.seeded and not copy.deepcopy(env).seeded
        env.reset()
        assert not env.seeded
        env.reset(seed=0)
        assert env.seeded and copy.deepcopy(env).seeded
        env.close()
    wrapped = rookery.make("swarm-surround", weights={"closeness": 1.0})
    assert not wrapped.seeded
    wrapped.reset(seed=1)
    assert wrapped.seeded


@pytest.mark.parametrize("name", ["one task", "a set", "scalarized"])
def test_ends_are_told_before_new_episodes_begin(name):
    """The worlds that ended, as the whole environment counts them, in the state that the last observation is of."""
    env, silent = MAKERS[name](), MAKERS[name]()
    told: list[tuple[torch.Tensor, dict[int, Any]]] = []
    heard: list[torch.Tensor] = []
    deaf = env.before_restart(lambda ids: told.append((ids, {i: env.mj_data(i).qpos.copy() for i in ids.tolist()})))
    env.before_restart(heard.append)
    for made in (env, silent):
        made.reset()
        made.stagger()
    ended = 0
    for k in range(20):
        told.clear()
        actions = {g: torch.full((env.num_envs, s.count, s.action.size), 0.1) for g, s in env.groups.items()}
        before = [env.mj_data(i).qpos.copy() for i in range(env.num_envs)]
        *_, terminated, truncated, _ = env.step(actions)
        assert all(
            torch.equal(a, b) for a, b in zip((terminated, truncated), silent.step(actions)[2:4], strict=True)
        ), k
        ids = (terminated | truncated).nonzero().flatten().tolist()
        assert sorted(i for given, _ in told for i in given.tolist()) == ids
        for _, states in told:
            for i, qpos in states.items():
                moved, jumped = abs(qpos - before[i]).max(), abs(env.mj_data(i).qpos - qpos).max()
                assert 0.0 < moved < jumped
        ended += len(ids)
    assert ended >= 2
    assert sum(len(ids) for ids in heard) == ended
    deaf()
    told.clear()
    heard.clear()
    for _ in range(20):
        env.step(actions)
    assert not told and heard
