"""Tasks whose agents choose, alone or besides numbers: what the environment makes of it, and what adapters show of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from torch import Tensor

from rookery.sim.adapters.gymnasium_env import SingleEnv
from rookery.sim.adapters.gymnasium_source import GymnasiumSource
from rookery.sim.adapters.gymnasium_vector import VectorEnv
from rookery.sim.adapters.pettingzoo_env import ParallelEnv
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.envs.concat_env import ConcatEnv
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Discrete, Group, Term, Weights
from rookery.sim.task import Task

CART = """<mujoco><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body>
    </worldbody><actuator><motor name="push" joint="x"/></actuator></mujoco>"""
GEAR = Discrete("gear", ("off", "low", "high"), neutral=0)
LAMP = Discrete("lamp", ("dark", "lit"), neutral=1)
FORCE = ("force",), (-10.0,), (10.0,), ("N",), (0.25,)


@dataclass(frozen=True)
class GearsConfig:
    dt: float = 0.01  # s
    control_dt: float = 0.02  # s
    episode_s: float = 0.2  # s
    kind: str = "mixed"
    agents: int = 1
    reward: Weights = Weights(x=1.0)


class Gears(Task):
    """A cart, pushed by force times gear. The gear "high" is not allowed in odd control steps, where masks are asked for."""

    Config = GearsConfig
    causes = ("never",)

    def scene(self) -> Scene:
        return Scene(lambda: mujoco.MjSpec.from_string(CART), dt=self.cfg.dt)

    def groups(self) -> dict[str, Group]:
        kinds = {
            "mixed": ActionSpec("gears", *FORCE, choices=(GEAR,), masked=True),
            "one": ActionSpec("gears", choices=(GEAR,)),
            "two": ActionSpec("gears", choices=(GEAR, LAMP), masked=True),
        }
        return {"driver": Group(self.cfg.agents, (Term("x", 1),), kinds[self.cfg.kind])}

    def setup(self) -> None:
        self.joint = self.world.joints(["x"])
        self.motor = self.world.actuators(["push"])
        self.seen = torch.zeros(0)

    def reset(self, ids: Tensor) -> None:
        self.joint.set_state(ids, self.rng(ids).uniform(-0.1, 0.1, (1,)))

    def apply(self, actions: dict[str, Tensor]) -> None:
        self.seen = actions["driver"].clone()
        a = self.seen
        force = a[..., 0] * (a[..., -1] if self.cfg.kind == "mixed" else 1.0)
        self.motor.set_control(force.sum(-1, keepdim=True))

    def observe(self) -> dict[str, dict[str, Tensor]]:
        return {"driver": {"x": self.joint.pos[:, None].expand(-1, self.cfg.agents, 1)}}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        return {"driver": {"x": self.joint.pos.expand(-1, self.cfg.agents)}}

    def terminated(self) -> Tensor:
        return torch.zeros(self.world.num_envs, dtype=torch.int64)

    def metrics(self) -> dict[str, Tensor]:
        return {}

    def action_mask(self) -> dict[str, Tensor] | None:
        spec = self.groups()["driver"].action
        if not spec.masked:
            return None
        mask = torch.ones(self.world.num_envs, self.cfg.agents, spec.options, dtype=torch.bool)
        mask[..., 2] = (self.steps % 2 == 0)[:, None]
        return {"driver": mask}


def make(n: int = 3, ranges: Any = None, **config: Any) -> VecEnv:
    task = Gears(GearsConfig(**config))
    return VecEnv(task, MujocoWorld(task.scene(), n), seed=1, ranges=ranges, task_id="gears")


def test_indices_reach_the_task_and_numbers_are_clipped():
    env = make()
    env.reset()
    env.step(torch.tensor([[[2.0, 3.0]], [[1.0, -0.5]], [[0.0, -7.0]]]))
    assert env.task.seen[:, 0].tolist() == [[2.0, 1.0], [1.0, -0.5], [0.0, -1.0]]
    for wrong in (3.0, -1.0, 1.5):
        with pytest.raises(
            RookeryError, match=r"'gear' of 'driver' is the index of an option, 0 to 2 \(off, low, high\)"
        ):
            env.step(torch.tensor([[[0.0, 0.0]], [[wrong, 0.0]], [[0.0, 0.0]]]))
    with pytest.raises(RookeryError, match="NaN"):
        env.step(torch.full((3, 1, 2), torch.nan))


def test_late_actions_begin_with_the_neutral_one():
    """A delay of one control step: until the first action arrives, that of an agent at rest is in force."""
    from rookery.sim.randomization.ranges import Range

    env = make(ranges={"action_delay": Range(0.02, 0.02)})
    env.reset()
    action = torch.tensor([2.0, 1.0]).expand(3, 1, 2)
    env.step(action)
    assert (env.task.seen == torch.tensor([0.0, 0.25])).all()
    env.step(action)
    assert (env.task.seen == torch.tensor([2.0, 1.0])).all()


def test_masks_are_those_of_now():
    env = make()
    assert env.action_mask is not None
    env.reset()
    for t in range(5):
        assert env.action_mask["driver"][..., 2].tolist() == [[t % 2 == 0]] * 3
        env.step(torch.zeros(3, 1, 2))
    both = ConcatEnv([("a", make(2)), ("b", make(3))])
    both.reset()
    assert both.action_mask["driver"].shape == (5, 1, 3)
    assert make(kind="one").action_mask is None
    with pytest.raises(RookeryError, match=r"the action size of group 'driver' is 2"):
        ConcatEnv([("a", make(2)), ("b", make(3, kind="one"))])


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (None, r"action_mask\(\) has no mask of 'driver' \(it has none\): give it a bool tensor \(3, 1, 3\)"),
        ({"drivr": torch.ones(3, 1, 3, dtype=torch.bool)}, r"has no mask of 'driver' \(it has 'drivr'\)"),
        ({"driver": torch.ones(3, 1, 3)}, r"must give 'driver' a bool tensor \(3, 1, 3\), got float32 \(3, 1, 3\)"),
        ({"driver": torch.ones(3, 3, dtype=torch.bool)}, r"got bool \(3, 3\)"),
    ],
)
def test_a_task_that_declares_masks_must_give_them(mask: Any, said: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Gears, "action_mask", lambda self: mask)
    with pytest.raises(RookeryError, match=said):
        make()


SPACES: dict[tuple[str, int], Any] = {
    ("one", 1): spaces.Discrete(3),
    ("two", 1): spaces.MultiDiscrete([3, 2]),
    ("one", 2): spaces.MultiDiscrete([3, 3]),
    ("mixed", 1): spaces.Tuple((spaces.Discrete(3), spaces.Box(-1.0, 1.0, (1,), np.float32))),
    ("mixed", 2): spaces.Tuple((spaces.MultiDiscrete([3, 3]), spaces.Box(-1.0, 1.0, (2,), np.float32))),
}


@pytest.mark.parametrize(("kind", "agents"), SPACES)
def test_gymnasium_spaces_and_what_reaches_the_task(kind: str, agents: int):
    inner = make(1, kind=kind, agents=agents)
    env = SingleEnv(inner, joint=True)
    assert env.action_space == SPACES[kind, agents]
    batch = VectorEnv(make(4, kind=kind, agents=agents), joint=True)
    assert batch.single_action_space == SPACES[kind, agents]
    env.action_space.seed(0)
    batch.action_space.seed(0)
    _, info = env.reset()
    assert ("action_mask" in info) == (kind != "one")
    batch.reset()
    for _ in range(12):
        action = env.action_space.sample()
        _, _, _, truncated, info = env.step(action)
        parts = action if kind == "mixed" else (action,)
        flat = [np.asarray(p, np.float32).reshape(agents, -1) for p in parts]
        np.testing.assert_array_equal(inner.task.seen[0].numpy(), np.concatenate(flat, -1))
        if kind != "one":
            assert info["action_mask"].dtype == np.int8
            assert info["action_mask"].shape == (agents * inner.groups["driver"].action.options,)
        if truncated:
            env.reset()
        actions = batch.action_space.sample()
        batch.step(actions)
        parts = actions if kind == "mixed" else (actions,)
        flat = [np.asarray(p, np.float32).reshape(4, agents, -1) for p in parts]
        np.testing.assert_array_equal(batch.env.task.seen.numpy(), np.concatenate(flat, -1))
    if kind == "mixed":
        with pytest.raises(RookeryError, match="a pair"):
            batch.step(np.zeros((4, 2)))


def test_pettingzoo_has_masks_in_its_observations():
    env = ParallelEnv(make(1, kind="two", agents=2))
    space = env.observation_space("driver_1")
    assert isinstance(space, spaces.Dict)
    obs, _ = env.reset(seed=0)
    for t in range(9):
        assert space.contains(obs["driver_1"])
        assert obs["driver_1"]["action_mask"].tolist() == [1, 1, t % 2 == 0, 1, 1]
        obs, *_ = env.step({name: np.array([1, 0]) for name in env.agents})
        assert env.env.task.seen[0].tolist() == [[1.0, 0.0], [1.0, 0.0]]
    plain = ParallelEnv(make(1, kind="one"))
    assert plain.action_space("driver_0") == spaces.Discrete(3)
    plain.reset(seed=0)
    plain.step({"driver_0": 2})
    assert plain.env.task.seen.tolist() == [[[2.0]]]
    with pytest.raises(RookeryError, match="the index of an option"):
        plain.step({"driver_0": 5})


def test_the_last_observation_has_the_mask_of_its_own_state():
    """Who takes the value of what is after a time limit asks for the best option allowed there, not in the next episode."""
    config = {"kind": "two", "episode_s": 0.1}
    many, single = ParallelEnv(make(1, **config)), SingleEnv(make(1, **config))
    for _ in range(2):
        many.reset()
        _, info = single.reset()
        assert info["action_mask"].tolist() == [1, 1, 1, 1, 1]
        for t in range(1, 6):
            seen, _, _, late, _ = many.step({"driver_0": np.array([1, 0])})
            *_, truncated, info = single.step(np.array([1, 0]))
            assert late["driver_0"] == truncated == (t == 5)
            allowed = [1, 1, t % 2 == 0, 1, 1]
            assert seen["driver_0"]["action_mask"].tolist() == info["action_mask"].tolist() == allowed


def test_stable_baselines3_learns_choices():
    pytest.importorskip("stable_baselines3", reason="the extra `trainers` is not installed")
    from stable_baselines3 import PPO

    from rookery.sim.adapters.sb3_env import Sb3VecEnv

    env = Sb3VecEnv(make(4, kind="one"))
    assert env.action_space == spaces.Discrete(3)
    PPO("MlpPolicy", env, n_steps=8, batch_size=16, device="cpu").learn(64)
    assert set(env.env.task.seen.unique().tolist()) <= {0.0, 1.0, 2.0}
    for kind, what in (("two", "masks"), ("mixed", "masks")):
        with pytest.raises(RookeryError, match=f"knows no {what}"):
            Sb3VecEnv(make(4, kind=kind))


def test_skrl_acts_by_choices():
    pytest.importorskip("skrl", reason="the extra `trainers` is not installed")
    from skrl.models.torch import CategoricalMixin, Model

    from rookery.sim.adapters.skrl_env import SkrlEnv

    class Even(CategoricalMixin, Model):
        """As likely to take each option."""

        def __init__(self, env: SkrlEnv) -> None:
            Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space)
            CategoricalMixin.__init__(self, unnormalized_log_prob=True)

        def compute(self, inputs, role=""):
            return torch.zeros(len(inputs["observations"]), self.num_actions), {}

    env = SkrlEnv(make(4, kind="one"))
    assert env.action_space == spaces.Discrete(3)
    policy = Even(env)
    obs, _ = env.reset()
    seen = set()
    for _ in range(12):
        actions = policy.act({"observations": obs}, role="policy")[0]
        obs, reward, *_ = env.step(actions)
        assert env._rows.env.task.seen.flatten().tolist() == actions.flatten().tolist()
        seen |= set(actions.flatten().tolist())
        assert reward.shape == (len(actions), 1)
    assert seen == {0, 1, 2}
    with pytest.raises(RookeryError, match="skrl knows no masks"):
        SkrlEnv(make(4, kind="two"))


def test_torchrl_acts_by_choices():
    pytest.importorskip("torchrl", reason="the extra `trainers` is not installed")
    from torchrl.envs.utils import check_env_specs

    from rookery.sim.adapters.torchrl_env import TorchRLEnv

    env = TorchRLEnv(make(4, kind="one"))
    check_env_specs(env)
    assert env.action_spec.space.n == 3
    rows = env.rollout(24, break_when_any_done=False)
    assert set(rows["action"].flatten().tolist()) == {0, 1, 2}
    first = env.reset()
    first["action"] = torch.tensor([0, 1, 2, 1])
    env.step(first)
    assert env._env.task.seen.flatten().tolist() == [0.0, 1.0, 2.0, 1.0]
    with pytest.raises(RookeryError, match="TorchRL knows no masks"):
        TorchRLEnv(make(4, kind="mixed"))


def test_libraries_that_know_numbers_alone_say_so():
    from rookery.sim.adapters.rows import AgentRows

    with pytest.raises(
        RookeryError, match=r"VecTask takes continuous actions, and group 'driver' chooses its 'gear' among off"
    ):
        AgentRows(make(2), "VecTask")


class Echo(gymnasium.Env):
    """Keeps the actions that it is given."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.action_space = space
        self.got: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.got.append(action)
        return np.zeros(2, np.float32), 0.0, False, False, {}


BOX = spaces.Box(np.array([0.0, -4.0], np.float32), np.array([2.0, 4.0], np.float32))
IMPORTED: list[tuple[Any, list[float], Any]] = [
    (spaces.Discrete(4, start=2), [3.0], 5),
    (spaces.MultiDiscrete([2, 3]), [1.0, 2.0], [1, 2]),
    (BOX, [-1.0, 0.5], [0.0, 2.0]),
    (spaces.Tuple((BOX, spaces.Discrete(2))), [1.0, 1.0, 0.0], ([2.0, 0.0], 1)),
    (spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Tuple((BOX, spaces.MultiDiscrete([2, 2])))}),
     [2.0, 0.0, 1.0, 0.0, 0.0], {"a": 2, "b": ([1.0, 0.0], [0, 1])}),
]  # fmt: skip


def as_lists(action: Any) -> Any:
    if isinstance(action, dict):
        return {k: as_lists(v) for k, v in action.items()}
    if isinstance(action, tuple):
        return tuple(as_lists(v) for v in action)
    return action.tolist()


@pytest.mark.parametrize(("space", "action", "want"), IMPORTED, ids=[str(i) for i in range(len(IMPORTED))])
def test_gymnasium_environments_with_choices(space: Any, action: list[float], want: Any):
    inner = gymnasium.vector.SyncVectorEnv([lambda: Echo(space)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    env = GymnasiumSource(inner)
    env.reset()
    env.step(torch.tensor(action).expand(3, 1, -1))
    for one in inner.envs:
        (got,) = one.got
        assert as_lists(np.asarray(got) if not isinstance(got, (dict, tuple)) else got) == want


def test_gymnasium_actions_of_no_known_kind_are_refused():
    for space, what in (
        (spaces.MultiBinary(2), "has the actions MultiBinary"),
        (spaces.Box(-np.inf, np.inf, (1,)), "without limits"),
    ):
        inner = gymnasium.vector.SyncVectorEnv(
            [lambda space=space: Echo(space)], autoreset_mode=AutoresetMode.SAME_STEP
        )
        with pytest.raises(RookeryError, match=what):
            GymnasiumSource(inner)
