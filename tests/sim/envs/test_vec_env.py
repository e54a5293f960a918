"""The loop: seeds, exact resume, ends of episodes, rewards, diverged physics, and wrong actions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from drift import without_drift

import rookery
from rookery.sim.actions import check_actions
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Group, Term, Weights
from rookery.sim.task import Task

CART = """<mujoco><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body>
    </worldbody><actuator><motor name="push" joint="x"/></actuator></mujoco>"""


@dataclass(frozen=True)
class CartConfig:
    dt: float = 0.01  # s
    control_dt: float = 0.02  # s
    episode_s: float = 0.2  # s
    reward: Weights = Weights(x=2.0, one=0.5)


class Cart(Task):
    """A cart that two agents push and one watches: small enough that every number can be worked out by hand."""

    Config = CartConfig
    causes = ("right", "left")
    start = 0.5

    def scene(self) -> Scene:
        return Scene(lambda: mujoco.MjSpec.from_string(CART), dt=self.cfg.dt)

    def groups(self) -> dict[str, Group]:
        push = ActionSpec("push", ("force",), (-10.0,), (10.0,), ("N",), (0.0,))
        watch = ActionSpec("watch", ("a", "b"), (0, 0), (1, 1), ("1", "1"), (0, 0))
        return {
            "push": Group(2, (Term("x", 1), Term("clock", 1)), push),
            "watch": Group(1, (Term("x", 1, scale=2.0),), watch),
        }

    def setup(self) -> None:
        self.joint = self.world.joints(["x"])
        self.motor = self.world.actuators(["push"])
        self.seen: dict[str, torch.Tensor] = {}

    def reset(self, ids: torch.Tensor) -> None:
        self.joint.set_state(ids, self.rng(ids).uniform(-self.start, self.start, (1,)))

    def apply(self, actions: dict[str, torch.Tensor]) -> None:
        self.seen = {g: a.clone() for g, a in actions.items()}
        force = 10 * actions["push"].sum(-2)
        self.motor.set_control(force)

    def observe(self) -> dict[str, dict[str, torch.Tensor]]:
        x = self.joint.pos[:, None]
        clock = self.steps[:, None, None].expand(-1, 2, 1).float()
        return {"push": {"x": x.expand(-1, 2, 1), "clock": clock}, "watch": {"x": x}}

    def rewards(self) -> dict[str, dict[str, torch.Tensor]]:
        x = self.joint.pos
        return {
            "push": {"one": torch.ones(len(x), 2), "x": torch.cat((x, -x), 1)},
            "watch": {"x": x},
        }

    def terminated(self) -> torch.Tensor:
        x = self.joint.pos[:, 0]
        return (x > 1).long() + 2 * (x < -1).long()

    def metrics(self) -> dict[str, torch.Tensor]:
        return {"success": (self.joint.pos[:, 0] > 0).float()}


def cart(n: int = 3, **values: Any) -> VecEnv:
    task = Cart(CartConfig(**values))
    return VecEnv(task, MujocoWorld(task.scene(), n, 1), seed=1)


def idle(env: VecEnv, force: float = 0.0) -> dict[str, torch.Tensor]:
    return {"push": torch.full((env.num_envs, 2, 1), force), "watch": torch.zeros(env.num_envs, 1, 2)}


def hover(n: int = 3, seed: int = 0, randomize: str = "default", **config: Any) -> VecEnv:
    return rookery.make("drone-hover", n, seed=seed, randomize=randomize, config={"settled_s": 0.05, **config})


def random_actions(env: VecEnv, steps: int, seed: int = 0) -> list[torch.Tensor]:
    """[N, A, 4] around neutral: for N worlds, the first N of as many as one likes."""
    neutral = torch.tensor(env.groups["drone"].action.neutral)
    noise = torch.randn(steps, 64, env.groups["drone"].count, 4, generator=torch.Generator().manual_seed(seed))
    return list((neutral + 0.3 * noise)[:, : env.num_envs])


def record(env: VecEnv, actions: list[torch.Tensor]) -> list[torch.Tensor]:
    """Everything that the steps give, flat."""
    out: list[torch.Tensor] = []

    def add(x: Any) -> None:
        if isinstance(x, Mapping):
            for k in sorted(x):
                add(x[k])
        else:
            out.append(x.clone())

    for a in actions:
        add(dict(enumerate(env.step(a))))
        add(env.state)
    return out


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


# order


def test_a_step_detects_once_between_physics_and_rewards(monkeypatch):
    env = cart()
    env.reset()
    calls = []

    def watch(name):
        inner = getattr(env.task, name)

        def call():
            calls.append((name, env.task.joint.pos.clone()))
            return inner()

        monkeypatch.setattr(env.task, name, call)

    for name in ("advance", "rewards", "terminated"):
        watch(name)
    before = env.task.joint.pos.clone()
    env.step(idle(env, 1.0))
    assert [name for name, _ in calls] == ["advance", "rewards", "terminated"]
    assert all(torch.equal(x, calls[0][1]) for _, x in calls)
    assert not torch.equal(calls[0][1], before)


# seeds


@pytest.mark.parametrize("randomize", ["none", "default"])
@pytest.mark.parametrize("action", ["ctbr", "rotor_thrust"])
def test_the_same_seed_gives_the_same_numbers(randomize, action):
    runs = []
    for seed in (3, 3, 4):
        env = hover(seed=seed, randomize=randomize, action=action, episode_s=0.2)
        first, _ = env.reset()
        runs.append([first["drone"], *record(env, random_actions(env, 50))])
    assert same(runs[0], runs[1])
    assert not any(
        torch.equal(a, b)
        for a, b in zip(runs[0][:6], runs[2][:6], strict=True)
        if a.dtype == torch.float32 and a.dim() > 1
    )


def test_reset_with_a_seed_starts_anew_whatever_was_before():
    env = hover(episode_s=0.2)
    other = hover(n=3, seed=77, episode_s=0.2)
    record(other, [other.reset() and a for a in random_actions(other, 1)] * 30)
    runs = []
    for e in (env, other, env):
        first, _ = e.reset(seed=5)
        runs.append([first["drone"], *record(e, random_actions(e, 40))])
    assert same(runs[0], runs[1])
    assert same(runs[0], runs[2])
    again, _ = env.reset()
    assert not torch.equal(again["drone"], runs[0][0])


def test_the_seed_of_make_and_that_of_reset_are_the_same():
    runs = []
    for made, seed in ((5, None), (9, 5), (5, 5)):
        env = hover(seed=made, randomize="default", episode_s=0.2)
        first, _ = env.reset(seed)
        runs.append([first["drone"], *record(env, random_actions(env, 30))])
    assert same(runs[0], runs[1])
    assert same(runs[0], runs[2])


def test_a_world_does_not_depend_on_how_many_others_there_are():
    few = hover(n=2, episode_s=0.2)
    many = hover(n=9, episode_s=0.2)
    a, b = few.reset()[0]["drone"], many.reset()[0]["drone"]
    for x, y in zip(random_actions(few, 60), random_actions(many, 60), strict=True):
        assert torch.allclose(a, b[:2], atol=1e-6)
        a, b = few.step(x)[0]["drone"], many.step(y)[0]["drone"]
        assert torch.equal(few.task.drones.bodies.state, many.task.drones.bodies.state[:2])


def test_torchs_threads_change_nothing_and_stay_as_they_are():
    before = torch.get_num_threads()
    runs = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            env = hover(n=40, episode_s=0.1)
            env.reset()
            assert torch.get_num_threads() == threads
            runs.append(record(env, random_actions(env, 15)))
            assert torch.get_num_threads() == threads
            with pytest.raises(RookeryError):
                env.step(torch.zeros(1))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert same(*runs)


# resume


@pytest.mark.parametrize("action", ["ctbr", "rotor_thrust"])
def test_a_resumed_run_is_bit_equal(action):
    """Over ends of episodes, with everything randomized, noise, biases and delays, in an environment of another seed."""
    options = {"action": action, "episode_s": 0.17, "num_drones": 2, "integrated_yaw": True}
    env = hover(**options)
    other = hover(seed=99, **options)
    env.reset()
    record(env, random_actions(env, 23))
    saved = env.state_dict()
    kept = {k: v.clone() for k, v in saved.items()}
    onwards = random_actions(env, 50, seed=1)
    wanted = record(env, onwards)
    assert all(torch.equal(saved[k], kept[k]) for k in saved)  # a saved state does not change afterwards
    other.load_state_dict(saved)
    assert same(record(other, onwards), wanted)
    env.load_state_dict(saved)
    assert same(record(env, onwards), wanted)


def test_what_is_saved_is_restored():
    env = hover()
    other = hover(seed=1)
    env.reset()
    record(env, random_actions(env, 9))
    other.load_state_dict(env.state_dict())
    a, b = env.state_dict(), other.state_dict()
    assert a.keys() == b.keys()
    assert [k for k in a if not torch.equal(a[k], b[k])] == []
    assert torch.equal(env.state, other.state)
    assert env.task.metrics().keys() == other.task.metrics().keys()


def test_states_of_other_environments_are_refused():
    with pytest.raises(ValueError, match="number of worlds"):
        hover(n=3).load_state_dict(hover(n=4).state_dict())
    with pytest.raises(ValueError, match=r"another task|lacks"):
        cart().load_state_dict(hover().state_dict())


# ends of episodes


def test_shapes_and_types():
    env = cart()
    obs, info = env.reset()
    assert info == {}
    for _ in range(11):
        assert obs["push"].shape == (3, 2, 2)
        assert obs["watch"].shape == (3, 1, 1)
        assert env.state.shape == (3, env.state_size) == (3, 5)
        obs, reward, terminated, truncated, info = env.step(idle(env))
        assert {g: tuple(r.shape) for g, r in reward.items()} == {"push": (3, 2), "watch": (3, 1)}
        assert terminated.dtype == truncated.dtype == torch.bool
        assert terminated.shape == truncated.shape == (3,)
        assert all(o.dtype == torch.float32 for o in obs.values())
    assert env.active is None


def test_truncation_at_the_time_limit_and_termination_apart():
    env = cart()
    env.reset()
    assert env.max_episode_steps == 10
    for step in range(1, 31):
        obs, _, terminated, truncated, info = env.step(idle(env))
        assert not terminated.any()
        assert truncated.all() == (step % 10 == 0)
        assert ("episode" in info) == ("final_observation" in info) == (step % 10 == 0)
        assert obs["push"][0, 0, 1] == step % 10
        if step % 10 == 0:
            assert info["episode"]["length"].tolist() == [10] * 3
            assert info["episode"]["cause"].tolist() == [0] * 3
            assert (info["final_observation"]["push"][..., 1] == 10).all()


def test_causes():
    env = cart(episode_s=100.0)
    env.reset()
    actions = idle(env)
    actions["push"][0] = 1.0
    actions["push"][2] = -1.0
    ended = {}
    for _ in range(40):
        *_, terminated, truncated, info = env.step(actions)
        assert not truncated.any()
        if terminated.any():
            episode = info["episode"]
            assert episode["ids"].tolist() == terminated.nonzero().flatten().tolist()
            ended |= dict(zip(episode["ids"].tolist(), episode["cause"].tolist(), strict=True))
    assert ended == {0: 1, 2: 2}


def test_an_end_at_the_time_limit_is_a_termination():
    env = cart(n=1)
    env.reset()
    for _ in range(9):
        env.step(idle(env))
    env.task.joint.set_state(None, torch.full((1, 1), 2.0))
    *_, terminated, truncated, info = env.step(idle(env))
    assert terminated.all()
    assert not truncated.any()
    assert info["episode"]["cause"].tolist() == [1]


def test_one_world_ends_and_the_others_go_on():
    env = cart(episode_s=100.0)
    alone = cart(episode_s=100.0)
    env.reset(seed=2)
    alone.reset(seed=2)
    env.task.joint.set_state(torch.tensor([1]), torch.full((1, 1), 2.0))
    for step in range(5):
        obs, _, terminated, _, _ = env.step(idle(env, 0.2))
        wanted, *_ = alone.step(idle(env, 0.2))
        assert terminated.tolist() == [False, step == 0, False]
        assert torch.equal(obs["push"][[0, 2]], wanted["push"][[0, 2]])
        assert obs["push"][1, 0, 1] == step


@pytest.mark.parametrize("randomize", ["none", "default"])
def test_the_final_observation_is_what_would_have_been_seen(randomize):
    """By a twin whose episodes are longer; and the returned observation is the first of a new episode."""
    short, long = (hover(n=4, randomize=randomize, episode_s=s) for s in (0.3, 9.0))
    short.reset(seed=6)
    long.reset(seed=6)
    target = short.task.target.clone()
    for a in random_actions(short, 30):
        obs, reward, _, truncated, info = short.step(a)
        wanted, wanted_reward, *_ = long.step(a)
        assert torch.equal(reward["drone"], wanted_reward["drone"])
    assert truncated.all()
    assert torch.equal(info["final_observation"]["drone"], wanted["drone"])
    assert torch.equal(info["final_state"], long.state)
    assert (obs["drone"] != wanted["drone"]).flatten(1).any(1).all()
    assert (short.task.target != target).any(-1).all()
    assert short.steps.tolist() == [0] * 4
    if randomize == "none":
        assert torch.equal(short.state, obs["drone"].flatten(1))
        start = short.task.observe()["drone"]
        assert torch.equal(obs["drone"][..., :3], start["position_error"])


def test_outputs_are_not_overwritten_by_later_steps():
    env = hover(n=4, randomize="none", episode_s=0.1)
    env.reset()
    results = []
    copies = []
    for a in random_actions(env, 25):
        obs, reward, terminated, truncated, info = env.step(a)
        kept = [obs["drone"], reward["drone"], terminated, truncated, env.state]
        if "episode" in info:
            kept += [info["final_observation"]["drone"], info["final_state"], info["episode"]["length"]]
            kept += [*info["episode"]["metrics"].values(), *info["episode"]["reward_terms"].values()]
        results += kept
        copies += [k.clone() for k in kept]
    assert same(results, copies)


def test_stagger_spreads_the_ends():
    env = cart(n=10)
    env.reset()
    env.stagger()
    ends = [env.step(idle(env))[3].nonzero().flatten().tolist() for _ in range(10)]
    assert [len(e) for e in ends] == [1] * 10
    assert sorted(i for e in ends for i in e) == list(range(10))


def test_episodes_that_stagger_cut_are_marked_and_no_others():
    """Also in an environment that goes on from a saved state."""
    env, other = cart(n=5), cart(n=5)
    env.reset()
    env.stagger()
    marks = []
    for step in range(25):
        if step == 5:
            other.load_state_dict(env.state_dict())
        info = env.step(idle(env))[4]
        if step >= 5:
            same = other.step(idle(other))[4]
            assert ("episode" in same) == ("episode" in info)
            if "episode" in info:
                assert torch.equal(same["episode"]["cut"], info["episode"]["cut"])
        if "episode" in info:
            episode = info["episode"]
            marks += zip(episode["ids"].tolist(), episode["length"].tolist(), episode["cut"].tolist(), strict=True)
    first = {}
    for world, length, cut in marks:
        assert length == 10  # steps of the clock, which began at another number
        assert cut == (world > 0 and world not in first)
        first[world] = True
    assert set(first) == set(range(5)) and len(marks) > 8


# rewards


def test_rewards_are_weighted_sums_of_the_terms():
    env = cart()
    env.reset()
    total = {"push": torch.zeros(3, 2), "watch": torch.zeros(3, 1)}
    xs = torch.zeros(3)
    for _ in range(10):
        _, reward, *_, info = env.step(idle(env, 0.1))
        x = (info["final_observation"] if info else {"watch": env.state[:, 4:5, None]})["watch"][:, 0, 0] / 2
        assert torch.allclose(reward["push"], torch.stack((0.5 + 2 * x, 0.5 - 2 * x), dim=1), atol=1e-6)
        assert torch.allclose(reward["watch"], 2 * x[:, None], atol=1e-6)
        total = {g: total[g] + r for g, r in reward.items()}
        xs += x
    episode = info["episode"]
    for g, r in total.items():
        assert torch.allclose(episode["return"][g], r.mean(-1), atol=1e-5)
    terms = episode["reward_terms"]
    assert terms.keys() == {"push/one", "push/x", "watch/x"}
    assert torch.allclose(terms["push/one"], torch.full((3,), 5.0))
    assert torch.allclose(terms["watch/x"], 2 * xs, atol=1e-5)
    assert episode["metrics"]["success"].tolist() == (x > 0).float().tolist()


def test_sums_begin_anew_with_each_episode():
    env = cart()
    env.reset()
    returns = [info["episode"]["reward_terms"]["push/one"] for _ in range(30) if (info := env.step(idle(env))[4])]
    assert [r.tolist() for r in returns] == [[5.0] * 3] * 3
    for _ in range(4):
        env.step(idle(env))
    env.reset()
    for _ in range(10):
        info = env.step(idle(env))[4]
    assert info["episode"]["reward_terms"]["push/one"].tolist() == [5.0] * 3


def test_an_unknown_reward_term_is_named():
    env = cart(reward=Weights(x=1.0, on=2.0))
    env.reset()
    with pytest.raises(RookeryError, match="unknown reward term 'one': did you mean 'on'"):
        env.step(idle(env))


# physics that diverge


@pytest.mark.parametrize("action", ["ctbr", "rotor_thrust"])
@pytest.mark.parametrize("bad", [float("nan"), 1e12])
def test_a_diverged_world_ends_its_episode(action, bad, capfd):
    runs = []
    for broken in (False, True):
        env = hover(n=4, action=action, episode_s=9.0)
        env.reset()
        record(env, random_actions(env, 5))
        bodies = env.task.drones.bodies
        for repeat in range(2):  # a second time in the same world counts as well
            if broken:
                state = bodies.state[1:2].clone()
                state[..., 10] = bad
                bodies.set_state(torch.tensor([1]), state)
            obs, reward, terminated, _, info = env.step(random_actions(env, 1)[0])
            if broken:
                assert terminated.tolist() == [False, True, False, False]
                assert info["episode"]["ids"].tolist() == [1]
                assert info["episode"]["cause"].tolist() == [len(env.task.causes) + 1]
                assert env.world.failures == repeat + 1
                assert reward["drone"].flatten().tolist()[1] == 0.0 and (reward["drone"][[0, 2, 3]] != 0.0).all()
                metrics = without_drift(info["episode"]["metrics"])  # no step has counted for that one
                everything = [obs, reward, info["final_observation"], info["episode"]["return"], metrics,
                              info["episode"]["reward_terms"]]  # fmt: skip
                assert all(torch.isfinite(v).all() for d in everything for v in d.values())
                assert torch.isfinite(info["final_state"]).all()
        rest = []
        for a in random_actions(env, 30, seed=2):
            obs, reward, terminated, *_ = env.step(a)
            assert torch.isfinite(obs["drone"]).all()
            assert not terminated[1]
            rest += [obs["drone"][[0, 2, 3]], reward["drone"][[0, 2, 3]]]
        assert all(torch.isfinite(v).all() for k, v in env.state_dict().items() if v.is_floating_point())
        runs.append(rest)
    assert same(*runs)
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


class AlwaysGood(Cart):
    def metrics(self) -> dict[str, torch.Tensor]:
        return {"success": torch.ones(self.world.num_envs), "other": torch.ones(self.world.num_envs)}


def test_an_episode_whose_physics_diverged_is_no_success():
    task = AlwaysGood(CartConfig())
    env = VecEnv(task, MujocoWorld(task.scene(), 3, 1))
    env.reset()
    position = env.task.joint.pos.clone()
    position[0] = 2.0  # ends, by the cause "right"
    position[1] = float("nan")
    env.task.joint.set_state(None, position)
    *_, info = env.step(idle(env))
    assert info["episode"]["cause"].tolist() == [1, len(Cart.causes) + 1]
    assert info["episode"]["metrics"]["success"].tolist() == [1.0, 0.0]
    assert info["episode"]["metrics"]["other"].tolist() == [1.0, 1.0]


# wrong input


def test_actions_are_clipped():
    env = cart()
    env.reset()
    env.step(idle(env, 7.0))
    assert torch.equal(env.task.seen["push"], torch.ones(3, 2, 1))


def test_actions_with_gradients_or_of_other_precision_are_taken():
    plain = hover(n=2, action="rotor_thrust", randomize="none")
    plain.reset()
    a = random_actions(plain, 1)[0]
    wanted = plain.step(a)[0]["drone"]
    for given in (a.clone().requires_grad_(), a.double()):
        env = hover(n=2, action="rotor_thrust", randomize="none")
        env.reset()
        got = env.step({"drone": given})[0]["drone"]
        assert torch.equal(got, wanted)
        assert not got.requires_grad


def test_the_callers_tensor_is_left_alone():
    env = hover(n=2)
    env.reset()
    a = torch.full((2, 1, 4), 5.0)
    env.step(a)
    assert (a == 5).all()


ZERO = torch.zeros(2, 1, 4)


def spoiled(value: float) -> torch.Tensor:
    a = ZERO.clone()
    a[1, 0, 2] = value
    return a


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (spoiled(float("nan")), "NaN or infinity, first in world 1"),
        (spoiled(float("inf")), "NaN or infinity, first in world 1"),
        (spoiled(-float("inf")), "NaN or infinity, first in world 1"),
        (torch.tensor([float("inf"), -float("inf")]).repeat(4).view(2, 1, 4), "first in world 0"),
        (torch.zeros(2, 4), r"must have shape \(2, 1, 4\) .* got \(2, 4\)"),
        (torch.zeros(3, 1, 4), r"got \(3, 1, 4\)"),
        (torch.zeros(2, 1, 3), r"got \(2, 1, 3\)"),
        (torch.zeros(2, 1, 4, dtype=torch.int64), "must be a float tensor, got torch.int64"),
        (torch.zeros(2, 1, 4, dtype=torch.bool), "must be a float tensor, got torch.bool"),
        ({"drone": ZERO.numpy()}, "must be a float tensor, got ndarray"),
        (ZERO.numpy(), r"dict of tensors for the groups \['drone'\], got ndarray"),
        (None, "got NoneType"),
        ({"drones": ZERO}, r"groups \['drone'\], got \['drones'\]"),
        ({}, r"got \[\]"),
        ({"drone": ZERO, "other": ZERO}, "got"),
    ],
)
def test_wrong_actions_are_refused_and_change_nothing(actions, message):
    env = hover(n=2)
    env.reset()
    before = env.state_dict()
    with pytest.raises(RookeryError, match=message):
        env.step(actions)
    after = env.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)


def test_huge_but_finite_actions_are_taken():
    env = hover(n=2)
    env.reset()
    obs, *_ = env.step(torch.full((2, 1, 4), 3e38))
    assert torch.isfinite(obs["drone"]).all()


def test_several_groups_want_a_dict():
    env = cart()
    env.reset()
    with pytest.raises(RookeryError, match="groups"):
        env.step(torch.zeros(3, 2, 1))


def test_step_wants_a_reset():
    with pytest.raises(RookeryError, match="call reset"):
        hover().step(torch.zeros(3, 1, 4))


@pytest.mark.parametrize("n", [0, -1])
def test_there_must_be_worlds(n):
    with pytest.raises(RookeryError, match=f"num_envs must be at least 1, got {n}"):
        hover(n=n)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"control_dt": 0.005}, "whole number of physics steps"),
        ({"control_dt": 0.0}, "control_dt must be from 1e-06 to 1000 s, got 0"),
        ({"control_dt": -0.01}, "control_dt must be from 1e-06 to 1000 s, got -0.01"),
        ({"episode_s": 0.0}, "at least one control step"),
        ({"episode_s": 0.004}, "at least one control step"),
        ({"dt": 0.0}, "dt must be from 1e-06 to 10 s, got 0"),
    ],
)
def test_times_that_do_not_fit(config, message):
    with pytest.raises(RookeryError, match=message):
        hover(**config)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "drone-hoover"}, "unknown task 'drone-hoover': did you mean 'drone-hover'"),
        ({"engine": "mujocco"}, "unknown engine 'mujocco': did you mean 'mujoco'"),
        ({"device": "gpu"}, "a device is cpu, cuda or one of several GPUs, such as cuda:1, got gpu"),
        ({"config": {"num_dones": 2}}, "did you mean 'num_drones'"),
    ],
)
def test_make_refuses(options, message):
    with pytest.raises(RookeryError, match=message):
        rookery.make(**{"task": "drone-hover", **options})


def test_terms_must_be_as_declared():
    class Wrong(Cart):
        def observe(self):
            return {
                g: {k: v[..., :0] if k == "clock" else v for k, v in t.items()} for g, t in super().observe().items()
            }

    task = Wrong()
    with pytest.raises(RookeryError, match=r"'clock' is \(3, 2, 0\), declared \(3, 2, 1\)"):
        VecEnv(task, MujocoWorld(task.scene(), 3, 1))


ONES = torch.ones(2, 1, 4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make_actions",
    [
        ONES.to_sparse, lambda: ONES[:, 0].to_sparse_csr(), lambda: ONES.long().to_sparse(), ONES.to_mkldnn, ONES.long,
        lambda: ONES.to(torch.complex64), lambda: ONES.to(torch.complex64).to_sparse(),
        lambda: torch.nested.nested_tensor([*ONES]), lambda: torch.nested.nested_tensor([*ONES], layout=torch.jagged),
        lambda: torch.quantize_per_tensor(ONES, 0.1, 0, torch.qint8),
    ],
)  # fmt: skip
def test_the_way_out_of_actions_that_are_no_ordinary_tensor_works(make_actions):
    """The message's expression gives what the environment takes, but for the shape where that was wrong, too."""
    env = hover(n=2)
    env.reset()
    actions = make_actions()
    with pytest.raises(RookeryError, match=r"must be an? (ordinary|float) tensor, got .*: give .*actions") as refusal:
        env.step(actions)
    way = re.search(r": give (.*)\.$", str(refusal.value))[1]
    env.step(eval(way, {"actions": actions, "torch": torch}).view(2, 1, 4))
    assert torch.equal(env.task.given["drone"], ONES)


def test_actions_of_a_graph_are_taken_without_it():
    env = hover(n=2)
    env.reset()
    actions = torch.nn.Parameter(0.5 * ONES)
    env.step(2.0 * actions)
    assert torch.equal(env.task.given["drone"], ONES) and not env.task.given["drone"].requires_grad
    assert not check_actions(env, 2.0 * actions)["drone"].requires_grad


PARTS = {"tasks": ["table-reach", "table-push"]}


@pytest.mark.parametrize(
    "make_env",
    [hover, lambda: rookery.make("MT10", 2, config=PARTS), lambda: rookery.make("volley-1v1-frozen", 3)],
)
def test_actions_that_have_no_values_and_seeds_that_are_none_are_refused(make_env):
    env = make_env()
    first = {g: o.clone() for g, o in env.reset(3)[0].items()}
    (group, spec), *_ = env.groups.items()
    shape = (env.num_envs, spec.count, spec.action.size)
    for actions, why in (
        (
            torch.zeros(shape, device="meta"),
            "must be an ordinary tensor on 'cpu', got one on 'meta', which has no values",
        ),
        (torch.zeros(shape).to_sparse(), r"must be an ordinary tensor, got .*: give actions\.to_dense\(\)"),
    ):
        with pytest.raises(RookeryError, match=why):
            env.step({group: actions})
    for seed in ("x", 1.5, True, 2**64, [1]):
        with pytest.raises(RookeryError, match="seed must be from"):
            env.reset(seed)
    again, _ = env.reset(np.int64(3))  # as `make` takes it
    assert all(torch.equal(first[g], again[g]) for g in first)
