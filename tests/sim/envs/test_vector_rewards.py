"""Rewards of several objectives: through the loop, its episode log, the adapters, the wrapper and the trainer."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import mujoco
import numpy as np
import pytest
import torch

from rookery.cli.main import main
from rookery.policies.algorithms.ppo import PPO
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.adapters.gymnasium_env import SingleEnv
from rookery.sim.adapters.gymnasium_vector import VectorEnv
from rookery.sim.adapters.pettingzoo_env import ParallelEnv
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.envs.scalarize import LinearScalarization
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec, Group, Term, Weights
from rookery.sim.task import Task

CART = """<mujoco><worldbody><body><joint name="x" type="slide" axis="1 0 0"/><geom size=".1" mass="1"/></body>
    </worldbody><actuator><motor name="push" joint="x"/></actuator></mujoco>"""


@dataclass(frozen=True)
class CartConfig:
    dt: float = 0.01  # s
    control_dt: float = 0.02  # s
    episode_s: float = 0.1  # s
    reward: Weights = Weights(place=2.0, effort=-0.5, crash=-10.0)


class Cart(Task):
    """A cart that two agents push and one watches: the place is one objective, the effort another, a crash counts in both."""

    Config = CartConfig
    causes = ("right",)
    objectives: ClassVar[dict[str, tuple[str, ...]]] = {"far": ("place", "crash"), "lazy": ("effort", "crash")}

    def scene(self) -> Scene:
        return Scene(lambda: mujoco.MjSpec.from_string(CART), dt=self.cfg.dt)

    def groups(self) -> dict[str, Group]:
        push = ActionSpec("push", ("force",), (-10.0,), (10.0,), ("N",), (0.0,))
        return {"push": Group(2, (Term("x", 1),), push), "watch": Group(1, (Term("x", 1),), push)}

    def setup(self) -> None:
        self.joint = self.world.joints(["x"])
        self.motor = self.world.actuators(["push"])
        self.buffer("force", self.world.num_envs, 2)

    force: torch.Tensor

    def reset(self, ids: torch.Tensor) -> None:
        self.joint.set_state(ids, self.rng(ids).uniform(-0.5, 0.5, (1,)))

    def apply(self, actions: dict[str, torch.Tensor]) -> None:
        self.force.copy_(self.given["push"][..., 0])
        self.motor.set_control(10 * actions["push"].sum(-2))

    def observe(self) -> dict[str, dict[str, torch.Tensor]]:
        x = self.joint.pos[:, None]
        return {"push": {"x": x.expand(-1, 2, 1)}, "watch": {"x": x}}

    def rewards(self) -> dict[str, dict[str, torch.Tensor]]:
        x = self.joint.pos
        crash = (x > 1).float()
        push = {"crash": crash.expand(-1, 2), "place": torch.cat((x, -x), 1), "effort": self.force.abs()}
        return {"push": push, "watch": {"place": x}}

    def terminated(self) -> torch.Tensor:
        return (self.joint.pos[:, 0] > 1).long()

    def metrics(self) -> dict[str, torch.Tensor]:
        return {"success": (self.joint.pos[:, 0] > 0).float()}


class OneGroup(Cart):
    """The same without the one who watches."""

    def groups(self) -> dict[str, Group]:
        return {"push": super().groups()["push"]}

    def observe(self) -> dict[str, dict[str, torch.Tensor]]:
        return {"push": super().observe()["push"]}

    def rewards(self) -> dict[str, dict[str, torch.Tensor]]:
        return {"push": super().rewards()["push"]}


class Scalar(OneGroup):
    """The same with a reward of one number."""

    objectives: ClassVar[dict[str, tuple[str, ...]]] = {}


def cart(n: int = 3, kind: type[Task] = Cart, **values: Any) -> VecEnv:
    task = kind(CartConfig(**values))
    return VecEnv(task, MujocoWorld(task.scene(), n, 1), seed=1, task_id="cart")


def push(env: VecEnv, force: float) -> dict[str, torch.Tensor]:
    shape = {g: (env.num_envs, s.count, 1) for g, s in env.groups.items()}
    return {g: torch.full(s, force) for g, s in shape.items()}


def test_each_objective_is_the_weighted_sum_of_its_terms() -> None:
    env = cart()
    env.reset()
    assert env.objectives == ("far", "lazy")
    for force in (0.3, -0.7, 1.0):
        _, reward, terminated, truncated, _ = env.step(push(env, force))
        x = env.task.joint.pos
        assert reward["push"].shape == (3, 2, 2)
        assert reward["watch"].shape == (3, 1, 2)
        assert torch.allclose(reward["push"][..., 0], 2 * torch.cat((x, -x), 1))
        assert torch.allclose(reward["push"][..., 1], torch.tensor(-0.5 * abs(force)))
        assert torch.allclose(reward["watch"], torch.stack((2 * x, 0 * x), -1))  # it has no effort to be lazy about
        assert terminated.shape == truncated.shape == (3,)


def test_a_term_may_count_in_several_objectives() -> None:
    env = cart()
    env.reset()
    env.task.joint.set_state(None, torch.tensor([[0.5], [2.0], [0.5]]))
    _, reward, terminated, _, info = env.step(push(env, 0.0))
    assert terminated.tolist() == [False, True, False]
    assert torch.allclose(reward["push"][1], torch.tensor([[4.0 - 10, -10], [-4.0 - 10, -10]]), atol=1e-4)
    assert torch.allclose(reward["push"][0, :, 1], torch.zeros(2))
    returns = info["episode"]["return"]
    assert list(returns) == ["push/far", "push/lazy", "watch/far", "watch/lazy"]
    assert torch.allclose(torch.cat(list(returns.values())), torch.tensor([-10.0, -10.0, 4.0, 0.0]), atol=1e-4)
    assert info["episode"]["reward_terms"]["push/crash"].tolist() == [-10.0]  # a term is reported once


def test_returns_by_objective_are_the_sums_of_the_rewards() -> None:
    env = cart(episode_s=0.2)
    env.reset()
    total = {g: torch.zeros(3, s.count, 2) for g, s in env.groups.items()}
    for i in range(env.max_episode_steps):
        _, reward, _, truncated, info = env.step(push(env, 0.1 * i - 0.4))
        for g, r in reward.items():
            total[g] += r
    assert truncated.all()
    for g, t in total.items():
        for m, name in enumerate(env.objectives):
            assert torch.allclose(info["episode"]["return"][f"{g}/{name}"], t.mean(1)[:, m], atol=1e-5)


def test_a_scalar_reward_is_as_before() -> None:
    env = cart(kind=Scalar)
    vector = cart(kind=OneGroup)
    env.reset()
    vector.reset()
    for force in (0.2, 0.9):
        one = env.step(push(env, force))[1]["push"]
        two = vector.step(push(vector, force))[1]["push"]
        assert one.shape == (3, 2)
        assert torch.allclose(one, two.sum(-1))  # nobody has crashed: no term counts twice
    assert env.objectives == ()


def test_scalarised_is_the_weighted_sum_and_all_else_the_same() -> None:
    vector = cart()
    env = LinearScalarization(cart(), {"lazy": 0.5, "far": 3.0})
    assert env.weights == {"far": 3.0, "lazy": 0.5}
    assert env.objectives == ()
    assert (env.num_envs, env.control_dt, env.state_size) == (vector.num_envs, vector.control_dt, vector.state_size)
    assert torch.equal(env.reset(seed=4)[0]["push"], vector.reset(seed=4)[0]["push"])
    for i in range(vector.max_episode_steps):
        a, b = env.step(push(vector, 0.1 * i)), vector.step(push(vector, 0.1 * i))
        for g in vector.groups:
            assert torch.equal(a[0][g], b[0][g])
            assert torch.allclose(a[1][g], 3.0 * b[1][g][..., 0] + 0.5 * b[1][g][..., 1])
        assert torch.equal(a[2], b[2])
        assert torch.equal(a[3], b[3])
        assert torch.equal(env.state, vector.state)
    far, lazy = (b[4]["episode"]["return"][f"push/{k}"] for k in ("far", "lazy"))
    assert torch.allclose(a[4]["episode"]["return"]["push"], 3.0 * far + 0.5 * lazy)
    assert a[4]["episode"]["objectives"].keys() == b[4]["episode"]["return"].keys()
    assert torch.equal(a[4]["final_observation"]["push"], b[4]["final_observation"]["push"])


def test_a_scalarised_run_goes_on_where_it_was_saved() -> None:
    env, other = (LinearScalarization(cart(), {"far": 1.0}) for _ in range(2))
    env.reset()
    env.step(push(env, 0.5))
    other.load_state_dict(env.state_dict())
    assert torch.equal(env.step(push(env, 0.2))[1]["push"], other.step(push(other, 0.2))[1]["push"])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"fat": 1.0}, "unknown objective 'fat': did you mean 'far'"),
        ({}, "no objective has a weight: give at least one of far, lazy"),
        ({"far": 0.0}, "no objective has a weight"),
        ({"far": math.nan}, "'far' must be a finite number, got nan"),
        ({"far": "1"}, "'far' must be a finite number, got '1'"),
    ],
)
def test_weights_that_make_no_sense(weights: dict[str, Any], message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        LinearScalarization(cart(), weights)


def test_nothing_to_scalarise() -> None:
    with pytest.raises(RookeryError, match="reward of one number"):
        LinearScalarization(cart(kind=Scalar), {"far": 1.0})
    with pytest.raises(RookeryError, match="reward of one number"):
        LinearScalarization(LinearScalarization(cart(), {"far": 1.0}), {"far": 1.0})


def test_terms_and_objectives_must_fit() -> None:
    class Misspelt(OneGroup):
        objectives: ClassVar[dict[str, tuple[str, ...]]] = {"far": ("plaice", "crash", "effort")}

    class Homeless(OneGroup):
        objectives: ClassVar[dict[str, tuple[str, ...]]] = {"far": ("place", "crash")}

    with pytest.raises(RookeryError, match="unknown reward term 'plaice': did you mean 'place'"):
        cart(kind=Misspelt)
    env = cart(kind=Homeless)
    env.reset()
    with pytest.raises(RookeryError, match="'effort' belongs to none of the objectives"):
        env.step(push(env, 0.0))


def test_pettingzoo_gives_vectors_as_momaland_does() -> None:
    env = ParallelEnv(cart(1))
    plain = cart(1)
    env.reset(seed=2)
    plain.reset(seed=2)
    for _ in range(plain.max_episode_steps):
        _, rewards, _, _, infos = env.step({a: np.full(1, 0.5, np.float32) for a in env.agents})
        want = plain.step(push(plain, 0.5))
        for i in (0, 1):
            assert rewards[f"push_{i}"].shape == env.reward_space("push_0").shape == (2,)
            assert env.reward_space(f"push_{i}").contains(rewards[f"push_{i}"])
            assert np.array_equal(rewards[f"push_{i}"], want[1]["push"][0, i].numpy())
    returns = want[4]["episode"]["return"]
    mean = [float(returns[f"push/{k}"] + returns[f"watch/{k}"]) / 2 for k in ("far", "lazy")]
    assert infos["push_0"]["return"] == pytest.approx(mean)


def test_pettingzoo_gives_numbers_for_one_number() -> None:
    env = ParallelEnv(LinearScalarization(cart(1), {"far": 1.0}))
    env.reset()
    rewards = env.step({a: np.zeros(1, np.float32) for a in env.agents})[1]
    assert all(isinstance(r, float) for r in rewards.values())
    assert env.reward_space("push_0").shape == (1,)


def test_gymnasium_takes_one_number_only() -> None:
    for adapter in (SingleEnv, VectorEnv):
        with pytest.raises(RookeryError, match=r"vector reward \(far, lazy\).*weights=\{'far': 1\.0"):
            adapter(cart(1, OneGroup), joint=True)
        env = adapter(LinearScalarization(cart(1, OneGroup), {"far": 1.0}), joint=True)
        env.reset()
        assert np.isfinite(env.step(np.zeros(env.action_space.shape, np.float32))[1]).all()


def test_ppo_wants_one_number_and_learns_from_it() -> None:
    config = PPOConfig(rollout_steps=4, hidden=(8,), epochs=1, minibatches=1)
    with pytest.raises(RookeryError, match=r"vector of far, lazy: wrap the environment in .*LinearScalarization"):
        PPO(cart(kind=OneGroup), config)
    ppo = PPO(LinearScalarization(cart(kind=OneGroup), {"far": 1.0, "lazy": 2.0}), config)
    figures = Runner(ppo, RunnerConfig(), ".").iterate()
    assert all(math.isfinite(v) for v in figures.values())


# the command line

SMALL = (
    "--num-envs",
    "8",
    "--steps",
    "128",
    "--rollout-steps",
    "8",
    "--hidden",
    "8",
    "--minibatches",
    "1",
)


def test_training_takes_the_weights_and_keeps_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rookery.experiments.recipes.recipe_files", dict)  # a task without weights of its own
    out = str(tmp_path / "run")
    assert main(["train", "swarm-surround", "--out", out, *SMALL]) == 2
    assert "vector of closeness, spread" in capsys.readouterr().err
    assert main(["train", "swarm-surround", "--weights", "closenes=1", "--out", out, *SMALL]) == 2
    assert "unknown objective 'closenes': did you mean 'closeness'?" in capsys.readouterr().err
    weights = ("--weights", "closeness=1", "--weights", "spread=0.5")
    assert main(["train", "swarm-surround", *weights, "--out", out, *SMALL]) == 0
    kept = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["weights"]
    assert kept == {"closeness": 1.0, "spread": 0.5}
    assert main(["train", "--resume", out, "--steps", "192"]) == 0  # with the weights that it kept
    capsys.readouterr()
    assert main(["eval", out, "--episodes", "2", "--task-config", "episode_s=0.5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["returns"].keys() == {"drone/closeness", "drone/spread"}
