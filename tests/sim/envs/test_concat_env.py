"""Worlds of several tasks behind one interface: each part as if alone, the task told, exact resume, figures by task."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from json import loads
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import mujoco
import pytest
import torch

import rookery
from rookery.cli.main import main
from rookery.experiments.run_env import make_env
from rookery.listing import describe
from rookery.policies.algorithms.ppo import PPO
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training.evaluate import evaluate
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.adapters.gymnasium_vector import VectorEnv
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.envs.concat_env import ConcatEnv, only_task, part_seed
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import command, own
from rookery.sim.randomization.ranges import Range
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Group, Term, Weights
from rookery.sim.task import Task
from rookery.sim.task_set import TaskSet
from rookery.sim2real.build import build_contract
from rookery.sim2real.compatibility import check_compatible
from rookery.sim2real.contract import Contract
from rookery.tasks.registry import TASKS, TaskEntry

CART = """<mujoco><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body>
    {more}</worldbody><actuator><motor name="push" joint="x"/></actuator></mujoco>"""


@dataclass(frozen=True)
class CartConfig:
    dt: float = 0.01  # s
    control_dt: float = 0.02  # s
    episode_s: float = 0.2  # s
    limit: float = 1.0  # m
    hide_goal: bool = False
    reward: Weights = Weights(near=-1.0)


class Push(Task):
    """A cart is pushed to a goal; its position is measured with noise."""

    name = "test-push"
    engines = ("mujoco",)
    Config: ClassVar[type] = CartConfig
    causes = ("right", "left")
    more = ""

    def scene(self) -> Scene:
        return Scene(lambda: mujoco.MjSpec.from_string(CART.format(more=self.more)), dt=self.cfg.dt)

    def groups(self) -> dict[str, Group]:
        act = ActionSpec("push", ("force",), (-10.0,), (10.0,), ("N",), (0.0,))
        return {"arm": Group(1, (Term("x", 1, unit="m", noise=0.01), Term("goal", 1, unit="m")), act)}

    def setup(self) -> None:
        self.joint = self.world.joints(["x"])
        self.motor = self.world.actuators(["push"])
        self.buffer("goal", self.world.num_envs, 1)

    goal: torch.Tensor

    def reset(self, ids: torch.Tensor) -> None:
        self.joint.set_state(ids, self.rng(ids).uniform(-0.9, 0.9, (1,)))
        self.goal[ids] = self.rng(ids).uniform(-0.5, 0.5, (1,))

    def apply(self, actions: dict[str, torch.Tensor]) -> None:
        self.motor.set_control(50 * actions["arm"][..., 0])

    def observe(self) -> dict[str, dict[str, torch.Tensor]]:
        goal = self.goal * (not self.cfg.hide_goal)
        return {"arm": {"x": self.joint.pos[:, None], "goal": goal[:, None]}}

    def rewards(self) -> dict[str, dict[str, torch.Tensor]]:
        return {"arm": {"near": (self.joint.pos - self.goal).abs()}}

    def terminated(self) -> torch.Tensor:
        x = self.joint.pos[:, 0]
        return (x > self.cfg.limit).long() + 2 * (x < -self.cfg.limit).long()

    def metrics(self) -> dict[str, torch.Tensor]:
        return {"success": torch.ones(self.world.num_envs), "off_m": (self.joint.pos - self.goal)[:, 0].abs()}


@dataclass(frozen=True)
class StayConfig(CartConfig):
    episode_s: float = 0.3  # s
    reward: Weights = Weights(still=-2.0, near=-1.0)


class Stay(Push):
    """Another scene, another reward term, another metric, a state of its own for critics, and only one way to fail."""

    name = "test-stay"
    Config = StayConfig
    causes = ("left",)
    more = '<body name="ball" pos="0 5 0"><freejoint/><geom size=".2"/></body>'

    def rewards(self) -> dict[str, dict[str, torch.Tensor]]:
        return {"arm": {**super().rewards()["arm"], "still": self.joint.vel.abs()}}

    def terminated(self) -> torch.Tensor:
        return (self.joint.pos[:, 0] < -self.cfg.limit).long()

    def metrics(self) -> dict[str, torch.Tensor]:
        return {"success": torch.zeros(self.world.num_envs), "speed": self.joint.vel[:, 0].abs()}

    def state(self) -> torch.Tensor:
        return torch.cat((self.joint.pos, self.joint.vel, self.goal), 1)


class Long(Push):
    """Frames of the past are observed, too."""

    def groups(self) -> dict[str, Group]:
        (own,) = super().groups().values()
        return {"arm": Group(1, own.observation, own.action, history=3)}


RANGES = {"observation_noise": Range(1.0, 1.0)}


def part(cls: type[Task], n: int, name: str = "", seed: int = 0, **values: Any) -> VecEnv:
    task = cls(cls.Config(**values))
    more = {"gravity_tilt": Range(0.1, 0.2)} if cls is Stay else {}
    return VecEnv(task, MujocoWorld(task.scene(), n, 1), seed=part_seed(seed, name), ranges=RANGES | more, task_id=name)


def mixed(push: int = 3, stay: int = 2, **options: Any) -> ConcatEnv:
    return ConcatEnv([("push", part(Push, push, "push")), ("stay", part(Stay, stay, "stay"))], **options)


def actions(env: Any, steps: int, seed: int = 0) -> list[torch.Tensor]:
    return list(torch.randn(steps, env.num_envs, 1, 1, generator=torch.Generator().manual_seed(seed)))


def record(env: Any, steps: list[torch.Tensor]) -> list[Any]:
    return [(*env.step(a), env.state) for a in steps]


def same(a: Any, b: Any) -> bool:
    """Bit-equal tensors in nested containers, NaN equal to NaN."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return torch.equal(torch.nan_to_num(a, 1e9), torch.nan_to_num(b, 1e9)) and a.dtype == b.dtype


# parts


def test_recorded_terms_are_those_of_the_parts_side_by_side():
    """Where a part has no such term its rows are 0, so that the weighted sum of reward terms is the reward."""
    env = mixed()
    log: list[tuple[str, dict[str, torch.Tensor]]] = []
    env.record_terms(lambda kind, terms: log.append((kind, terms["arm"])))
    env.reset(3)
    reward = env.step(actions(env, 1)[0])[1]["arm"]
    assert [kind for kind, _ in log] == ["observation", "reward", "observation"]
    x = torch.cat([e.task.joint.pos for e in env.parts.values()])[:, None]
    assert same(log[2][1]["x"], x) and log[2][1]["goal"].shape == (5, 1, 1)
    assert log[0][1]["task"][:, 0].tolist() == [[1, 0]] * 3 + [[0, 1]] * 2
    terms = log[1][1]
    assert terms["still"][:3].tolist() == [[0.0]] * 3 and (terms["still"][3:] > 0).all()
    assert torch.allclose(-terms["near"] - 2.0 * terms["still"], reward)
    env.record_terms(None)
    env.step(actions(env, 1)[0])
    assert len(log) == 3


@pytest.mark.parametrize("seed", [None, 7])
def test_every_part_is_bit_for_bit_what_it_is_alone(seed):
    env = mixed()
    alone = {"push": part(Push, 3, "push"), "stay": part(Stay, 2, "stay")}
    first, _ = env.reset(seed)
    at = {"push": slice(0, 3), "stay": slice(3, 5)}
    for n, e in alone.items():
        obs, _ = e.reset(None if seed is None else part_seed(seed, n))
        assert torch.equal(first["arm"][at[n], :, :2], obs["arm"])
    ended = {"push": 0, "stay": 0}
    for a in actions(env, 60):
        obs, reward, terminated, truncated, info = env.step(a)
        for i, (n, e) in enumerate(alone.items()):
            o, r, te, tr, inf = e.step(a[at[n]])
            assert torch.equal(obs["arm"][at[n], :, :2], o["arm"])
            assert torch.equal(reward["arm"][at[n]], r["arm"])
            assert torch.equal(terminated[at[n]], te)
            assert torch.equal(truncated[at[n]], tr)
            size = e.state_size
            assert torch.equal(env.state[at[n], :size], e.state)
            assert not env.state[at[n], size:3].any()
            assert not inf or info
            if not inf:
                assert not info or not (info["episode"]["task"] == i).any()
                continue
            ids = inf["episode"]["ids"]
            ended[n] += len(ids)
            assert torch.equal(
                info["final_observation"]["arm"][at[n]][ids, :, :2], inf["final_observation"]["arm"][ids]
            )
            assert torch.equal(info["final_state"][at[n]][ids, :size], inf["final_state"][ids])
            episode = info["episode"]
            mine = episode["task"] == i
            assert torch.equal(episode["ids"][mine], ids + at[n].start)
            assert torch.equal(episode["length"][mine], inf["episode"]["length"])
            for what in ("return", "metrics", "parameters", "reward_terms"):
                for k, v in inf["episode"][what].items():
                    assert torch.equal(episode[what][k][mine], v), (what, k)
    assert min(ended.values()) > 5


def test_the_seed_of_a_part_depends_on_its_name_and_nothing_else():
    """Without the other part, and in another place, its worlds begin alike; another name or seed begins otherwise."""
    one = mixed()
    turned = ConcatEnv([("stay", part(Stay, 2)), ("push", part(Push, 3))])
    only = ConcatEnv([("push", part(Push, 3))], names=["stay", "push"])
    a, b, c = (e.reset(5)[0]["arm"] for e in (one, turned, only))
    assert torch.equal(a[:3, :, :2], b[2:, :, :2])
    assert torch.equal(b[2:], c)
    assert not torch.equal(a[:2, :, :2], a[3:, :, :2])
    assert len({part_seed(s, n) for s in range(50) for n in ("push", "stay", "reach")}) == 150
    assert all(0 <= part_seed(s, "push") < 1 << 63 for s in (-1, 0, 1 << 70))


def test_what_a_caller_keeps_is_not_overwritten():
    env = mixed()
    env.reset(0)
    a, b = actions(env, 2)
    first = env.step(a)
    kept = [first[0]["arm"].clone(), first[1]["arm"].clone(), first[2].clone()]
    env.step(b)
    assert same(kept, [first[0]["arm"], first[1]["arm"], first[2]])


# the task is told


def test_the_one_hot_names_the_world_s_task():
    env = mixed(3, 2)
    obs, _ = env.reset(0)
    task = env.groups["arm"].observation[-1]
    assert task == Term("task", command("1 at the task's place, 0 elsewhere", 2, doc="push, stay")) and task.local
    assert env.groups["arm"].observation_size == 4
    assert obs["arm"][:, 0, env.groups["arm"].slices()["task"]].tolist() == [[1, 0]] * 3 + [[0, 1]] * 2
    assert env.task_index.tolist() == [0, 0, 0, 1, 1]
    for o, _, _, _, info, state in record(env, actions(env, 25)):
        seen = [o["arm"][:, 0, 2:], state[:, -2:]]
        if info:
            seen += [info["final_observation"]["arm"][:, 0, 2:], info["final_state"][:, -2:]]
        assert all(torch.equal(x, env._one_hot) for x in seen)


def test_without_the_one_hot_observations_are_the_parts_own():
    env = mixed(one_hot=False)
    assert env.groups == env.parts["push"].groups
    assert env.reset(0)[0]["arm"].shape == (5, 1, 2)
    assert env.state.shape == (5, env.state_size) == (5, 3 + 2)  # critics are still told


def test_every_frame_of_a_history_has_the_one_hot():
    env = ConcatEnv([("a", part(Long, 2, "a")), ("b", part(Long, 2, "b"))])
    alone = part(Long, 2, "b")
    alone.reset(part_seed(3, "b"))
    env.reset(3)
    for a in actions(env, 4):
        obs = env.step(a)[0]["arm"]
        own = alone.step(a[2:])[0]["arm"]
        assert obs.shape == (4, 1, env.groups["arm"].observation_size) == (4, 1, 12)
        frames = obs.view(4, 3, 4)
        assert torch.equal(frames[2:, :, :2].flatten(1), own[:, 0])
        assert torch.equal(frames[:, :, 2:], env._one_hot[:, None].expand(-1, 3, -1))


def test_the_contract_knows_the_one_hot_and_takes_no_other_task_set():
    env = mixed()
    contract = build_contract(env)
    last = contract.to_json()["groups"]["arm"]["observation"][-1]
    assert (last["name"], last["slice"]) == ("task", [2, 4])
    assert contract.task_config["stay"]["reward"] == {"still": -2.0, "near": -1.0}
    check_compatible(contract, mixed(1, 1))
    with pytest.raises(RookeryError, match="the contract says"):
        check_compatible(contract, mixed(one_hot=False))


# ends of episodes


def test_ended_worlds_begin_anew_in_the_same_step():
    env = mixed(4, 4)
    env.reset(1)
    clock = torch.zeros(8)
    seen = {"terminated": 0, "truncated": 0}
    limit = torch.tensor([10.0] * 4 + [15.0] * 4)
    for o, _, terminated, truncated, info, _ in record(env, actions(env, 80, seed=2)):
        clock += 1
        assert not (terminated & truncated).any()
        assert torch.equal(truncated, (clock >= limit) & ~terminated)
        done = terminated | truncated
        assert bool(done.any()) == bool(info)
        if info:
            assert torch.equal(info["episode"]["ids"], done.nonzero().squeeze(1))
            final = info["final_observation"]["arm"]
            assert ((final[:, 0, 0].abs() > 0.95) | ~terminated).all()  # where it left the track, up to noise
            assert (o["arm"][done, 0, 0].abs() < 0.95).all()  # a new start
            assert not (final[done] == o["arm"][done])[:, 0, :2].all(1).any()
            assert torch.equal(final[~done], o["arm"][~done])
        clock[done] = 0
        seen["terminated"] += int(terminated.sum())
        seen["truncated"] += int(truncated.sum())
    assert min(seen.values()) > 3


def test_causes_of_all_tasks_are_counted_in_one_list():
    env = ConcatEnv([("stay", part(Stay, 2, "stay")), ("push", part(Push, 2, "push"))])
    assert env.causes == ("left", "right")
    env.reset(0)
    left = torch.full((4, 1, 1), -1.0)
    causes: set[tuple[int, int, bool]] = set()
    for force in (left, -left):
        for _ in range(40):
            info = env.step(force)[4]
            if info:
                side = info["final_observation"]["arm"][info["episode"]["ids"], 0, 0] > 0
                told = (info["episode"][k].tolist() for k in ("task", "cause"))
                causes |= {c for c in zip(*told, side.tolist(), strict=True) if c[1]}
    assert causes == {(0, 1, False), (1, 1, False), (1, 2, True)}


def test_diverged_physics_are_counted_through():
    env = mixed(2, 3)
    env.reset(0)
    env.step(actions(env, 1)[0])
    stay = env.parts["stay"]
    stay.task.joint.set_state(torch.tensor([1]), torch.tensor([[math.nan]]))
    info = env.step(torch.zeros(5, 1, 1))[4]
    assert stay.world.failed.tolist() == [1]
    assert stay.world.failures == 1
    assert info["episode"]["ids"].tolist() == [3]
    assert info["episode"]["cause"].tolist() == [len(env.causes) + 1]


def test_an_episode_tells_its_task_and_leaves_out_what_that_does_not_measure():
    env = mixed()
    env.reset(0)
    env.stagger()
    columns = None
    tasks = set()
    for _, _, _, _, info, _ in record(env, actions(env, 40)):
        if not info:
            continue
        episode = info["episode"]
        names = {k: list(episode[k]) for k in ("metrics", "reward_terms", "parameters", "task_success")}
        columns = columns or names
        assert names == columns  # at every step
        push = episode["task"] == 0
        tasks |= set(episode["task"].tolist())
        assert torch.equal(episode["metrics"]["speed"].isnan(), push)
        assert torch.equal(episode["reward_terms"]["arm/still"].isnan(), push)
        assert torch.equal(episode["parameters"]["gravity_tilt"].isnan(), push)
        assert (episode["parameters"]["observation_noise"] == 1).all()
        assert torch.equal(episode["task_success"]["stay"].isnan(), push)
        assert (episode["task_success"]["push"][push] == 1).all()
    assert tasks == {0, 1}


# resume


def test_a_saved_state_continues_bit_for_bit():
    straight = mixed()
    other = mixed()
    straight.reset(2)
    steps = actions(straight, 60)
    record(straight, steps[:23])
    saved = {k: v.clone() for k, v in straight.state_dict().items()}
    wanted = record(straight, steps[23:])
    other.load_state_dict(saved)
    assert same(record(other, steps[23:]), wanted)
    with pytest.raises(ValueError, match="lacks"):
        ConcatEnv([("reach", part(Push, 3))]).load_state_dict(saved)
    with pytest.raises(ValueError, match="number of worlds"):
        mixed(2, 2).load_state_dict(saved)


@pytest.mark.parametrize("critic", ["own", "central"])
def test_ppo_trains_and_a_resumed_training_is_bit_equal(tmp_path: Path, critic: str):
    config = PPOConfig(rollout_steps=16, epochs=2, minibatches=2, hidden=(8,), critic=critic)
    stop = RunnerConfig(total_steps=4 * 16 * 5, checkpoint_every=1)
    runs = {
        name: Runner(PPO(mixed(), config), stop, tmp_path / folder)
        for name, folder in {"straight": "a", "first": "b", "second": "b"}.items()
    }
    before = runs["straight"].algorithm.learners["arm"].parameters.clone()
    runs["straight"].run(lambda row: None)
    assert not torch.equal(before, runs["straight"].algorithm.learners["arm"].parameters)
    first = runs["first"]
    for _ in range(2):
        first.iterate()
    first.save()
    runs["second"].load(tmp_path / "b")
    runs["second"].run(lambda row: None)
    assert torch.equal(
        runs["straight"].algorithm.learners["arm"].parameters, runs["second"].algorithm.learners["arm"].parameters
    )
    assert same(runs["straight"].env.state_dict(), runs["second"].env.state_dict())
    assert runs["straight"].episodes.state_dict() == runs["second"].episodes.state_dict()
    with open(tmp_path / "a" / "progress.csv") as f:
        last = list(csv.DictReader(f))[-1]
    assert (float(last["task/push"]), float(last["task/stay"])) == (1.0, 0.0)
    assert float(last["metric/speed"]) > 0
    assert "nan" not in last.values()


# evaluation


def test_an_evaluation_reports_every_task_and_weighs_them_alike():
    env = mixed(6, 2)
    act = lambda obs: {"arm": -obs["arm"][..., :1]}  # noqa: E731
    result = evaluate(env, act, 11, seed=0)
    # 8 worlds give one each, and of the 3 left two go to push and one to stay
    assert {n: t["episodes"] for n, t in result["tasks"].items()} == {"push": 8, "stay": 3}
    assert {n: t["success_rate"] for n, t in result["tasks"].items()} == {"push": 1.0, "stay": 0.0}
    assert result["success_rate"] == 0.5
    assert result["return_mean"] == pytest.approx(sum(t["return_mean"] for t in result["tasks"].values()) / 2)
    assert all(math.isfinite(v) for v in result["metrics"].values())
    assert set(result["metrics"]) == {"success", "off_m", "speed"}
    assert result == evaluate(env, act, 11, seed=0)
    few = evaluate(env, act, 2, seed=0)
    assert {n: t["episodes"] for n, t in few["tasks"].items()} == {"push": 1, "stay": 1}
    with pytest.raises(RookeryError, match="2 tasks: evaluate at least as many"):
        evaluate(env, act, 1)


# refusals


def _with_group(**changes: Any) -> type[Push]:
    class Odd(Push):
        def groups(self) -> dict[str, Group]:
            (own,) = super().groups().values()
            values = {"count": own.count, "observation": own.observation, "action": own.action} | changes
            return {values.pop("name", "arm"): Group(**values)}

        def observe(self) -> dict[str, dict[str, torch.Tensor]]:
            (group,) = self.groups().items()
            return {group[0]: {t.name: self.joint.pos[:, None].expand(-1, 1, t.size) for t in group[1].observation}}

    return Odd


X = Term("x", 1, unit="m")
GOAL = Term("goal", 1, unit="m")
OTHER = Term("goal", own("the goal's height", 1, "m"))  # alike but for what it is
TWO = ActionSpec("push", ("a", "b"), (-1.0, -1.0), (1.0, 1.0), ("N", "N"), (0.0, 0.0))


@pytest.mark.parametrize(
    ("cls", "values", "match"),
    [
        (_with_group(observation=(X, GOAL, Term("y", 1))), {}, "observation size of group 'arm' is 2 in 'push' and 3 in 'odd'"),
        (_with_group(observation=(X, Term("aim", 1, unit="m"))), {}, "observation term 1 .*'goal'.*'push'.*'aim'.*'odd'"),
        (_with_group(observation=(X, OTHER)), {}, "observation term 1 .*'goal', 'goal', .*'push'.*'goal', \"the goal's height"),
        (_with_group(action=TWO), {}, "action size of group 'arm' is 1 in 'push' and 2 in 'odd'"),
        (_with_group(name="hand"), {}, r"list of groups is \['arm'\] in 'push' and \['hand'\] in 'odd'"),
        (Push, {"control_dt": 0.04}, "control period .* is 0.02 in 'push' and 0.04 in 'odd'"),
        (Long, {}, "observation size of group 'arm' is 2 in 'push' and 6 in 'odd'"),
    ],
)  # fmt: skip
def test_unequal_parts_are_refused_by_name(cls, values, match):
    with pytest.raises(RookeryError, match=match):
        ConcatEnv([("push", part(Push, 1)), ("odd", part(cls, 1, **values))])


def test_noise_may_differ_between_parts():
    both = ConcatEnv([("push", part(Push, 1)), ("exact", part(_with_group(observation=(X, GOAL)), 1))])
    assert both.num_envs == 2
    assert both.reset(seed=0)[0]["arm"].isfinite().all()


def test_wrong_names_and_actions_are_refused():
    a, b = part(Push, 1), part(Push, 1)
    with pytest.raises(RookeryError, match="'a' is named twice"):
        ConcatEnv([("a", a), ("a", b)])
    with pytest.raises(RookeryError, match="at least one"):
        ConcatEnv([])
    with pytest.raises(RookeryError, match=r"unknown task 'a'. Known: b, c"):
        ConcatEnv([("a", a)], names=["b", "c"])
    env = mixed()
    with pytest.raises(RookeryError, match="reset"):
        env.step(torch.zeros(5, 1, 1))
    env.reset(0)
    with pytest.raises(RookeryError, match=r"shape \(5, 1, 1\)"):
        env.step(torch.zeros(4, 1, 1))
    bad = torch.zeros(5, 1, 1)
    bad[4] = math.nan
    with pytest.raises(RookeryError, match="world 4"):
        env.step(bad)
    with pytest.raises(RookeryError, match="no world 5"):
        env.locate(5)
    env.close()


# by name


class MT2(TaskSet):
    """Two tasks."""

    name = "MT2"
    members = ("test-push", "test-stay")
    config = MappingProxyType({"limit": 0.95})
    preset = MappingProxyType(
        {
            "num_envs": 5,
            "runner": {"total_steps": 160},
            "ppo": {"rollout_steps": 16, "minibatches": 2, "hidden": [8], "epochs": 1},
        }
    )


class ML2(TaskSet):
    """No goal, no task."""

    name = "ML2"
    members = MT2.members
    config = MappingProxyType({"hide_goal": True})
    one_hot = False


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set of two tasks, known by name."""
    for cls in (Push, Stay, MT2, ML2):
        monkeypatch.setitem(TASKS, cls.name, TaskEntry.of(cls))


@pytest.mark.usefixtures("registered")
def test_a_set_is_made_by_name():
    env = rookery.make("MT2", 5, seed=4, config={"episode_s": 0.1, "test-stay": {"episode_s": 0.4}})
    assert [(n, e.num_envs) for n, e in env.parts.items()] == [("test-push", 3), ("test-stay", 2)]
    assert [e.max_episode_steps for e in env.parts.values()] == [5, 20]
    assert [e.task.cfg.limit for e in env.parts.values()] == [0.95, 0.95]
    assert env.max_episode_steps == 20
    alone = rookery.make("test-stay", 2, seed=part_seed(4, "test-stay"), config={"limit": 0.95, "episode_s": 0.4})
    assert torch.equal(env.reset()[0]["arm"][3:, :, :2], alone.reset()[0]["arm"])
    assert torch.equal(env.reset(9)[0]["arm"], rookery.make("MT2", 5, seed=9, config={"limit": 0.95}).reset()[0]["arm"])
    summary = describe("MT2")
    assert summary.groups["arm"].observation_size == 4


@pytest.mark.usefixtures("registered")
def test_a_meta_learning_set_hides_goal_and_task():
    env = rookery.make("ML2", 4)
    obs, _ = env.reset(0)
    assert obs["arm"].shape == (4, 1, 2)
    assert not obs["arm"][..., 1].any()
    assert rookery.make("ML2", 4, config={"hide_goal": False}).reset(0)[0]["arm"][..., 1].all()


@pytest.mark.usefixtures("registered")
def test_one_task_of_a_set_keeps_its_place_in_the_one_hot():
    env = rookery.make("MT2", 1, config={"tasks": "test-stay"})
    obs, _ = env.reset(0)
    assert obs["arm"][0, 0, 2:].tolist() == [0, 1]
    assert env.visual_model().nbody == 3
    assert env.mj_data(0).qpos.shape == (8,)


@pytest.mark.usefixtures("registered")
def test_wrong_sets_are_refused():
    with pytest.raises(
        RookeryError, match="MT2 has 2 tasks and needs a world for each, got num_envs 1: give at least 2"
    ):
        rookery.make("MT2", 1)
    with pytest.raises(RookeryError, match="unknown task of MT2 'test-pusch': did you mean 'test-push'"):
        rookery.make("MT2", 2, config={"tasks": ["test-pusch"]})
    with pytest.raises(RookeryError, match="unknown task of MT2 '5'"):
        rookery.make("MT2", 2, config={"tasks": 5})
    with pytest.raises(RookeryError, match="test-push is a task of MT2: give values of its config"):
        rookery.make("MT2", 2, config={"test-push": 3})
    with pytest.raises(RookeryError, match="names no task"):
        rookery.make("MT2", 2, config={"tasks": []})
    with pytest.raises(RookeryError, match="test-push of MT2: unknown config value 'limt': did you mean 'limit'"):
        rookery.make("MT2", 2, config={"limt": 1})
    with pytest.raises(RookeryError, match="whole number"):
        rookery.make("MT2", "many")  # type: ignore[arg-type]
    with pytest.raises(RookeryError, match="MT2 is a set of 2 tasks: take one of test-push, test-stay"):
        TASKS["MT2"].load()
    with pytest.raises(RookeryError, match="each task of MT2 has a scene of its own"):
        only_task(rookery.make("MT2", 2))


@pytest.mark.usefixtures("registered")
def test_a_set_is_trained_resumed_and_evaluated_by_name(in_tmp, capsys):
    assert main(["train", "MT2", "--out", "run", "--json", "--task-config", "episode_s=0.1"]) == 0
    assert main(["train", "--resume", "run", "--steps", "320", "--json"]) == 0
    capsys.readouterr()
    assert main(["eval", "run", "--episodes", "12", "--json"]) == 0
    result = loads(capsys.readouterr().out)
    assert result["task"] == "MT2"
    assert {n: t["episodes"] for n, t in result["tasks"].items()} == {"test-push": 6, "test-stay": 6}
    assert result["metric"] == result["success_rate"] == 0.5
    assert main(["eval", "run", "--episodes", "3", "--task-config", "tasks=test-push", "--json"]) == 0
    assert list(loads(capsys.readouterr().out)["tasks"]) == ["test-push"]
    contract = loads(Path("run/contract.json").read_text())
    assert contract["task_config"]["test-stay"]["limit"] == 0.95
    for as_trained, seconds in ((True, [0.1, 0.1]), (False, [0.2, 0.3])):  # the registered tasks' own judge
        env = make_env(Contract.from_json(contract), 2, {"limit": 0.9}, as_trained=as_trained)
        assert [e.task.cfg.limit for e in env.parts.values()] == [0.9] * 2  # for all parts, before each part's own
        assert [e.task.cfg.episode_s for e in env.parts.values()] == seconds


def test_gymnasium_s_vector_environment_takes_it():
    env = VectorEnv(mixed())
    env.reset(seed=0)
    assert env.single_observation_space.shape == (4,)
    told = [env.step(a[:, 0].numpy())[4] for a in actions(env.env, 20)]
    assert any("final_info" in t for t in told)


def test_classical_controllers_act_each_in_its_own_worlds():
    class Back(Long):
        sign = 1.0

        def controller(self) -> Any:
            return lambda obs: {"arm": self.sign * obs["arm"][..., [4]]}  # x of the newest of its three frames

    class Forth(Back):
        sign = -1.0

    env = ConcatEnv([("back", part(Back, 1)), ("forth", part(Forth, 2))])
    act = env.controller()
    assert act is not None
    env.reset(0)
    for a in actions(env, 4):
        obs = env.step(a)[0]
    own = torch.cat([e.task.joint.pos for e in env.parts.values()])
    assert torch.allclose(act(obs)["arm"][:, 0], own * torch.tensor([[1.0], [-1.0], [-1.0]]), atol=0.06)
    assert obs["arm"].shape == (3, 1, 12)
    assert ConcatEnv([("back", part(Back, 1)), ("long", part(Long, 1))]).controller() is None
