"""rsl_rl, Stable-Baselines3, skrl and TorchRL: their own checks, values against the Env, and value targets at time limits.

`Decay` has a known value: the observation o falls by BETA a step and is the reward, so that V(o) = o / (1 - GAMMA *
BETA) if time has no limit. With that value function each library's targets must equal V everywhere, where time is up
too, and the reward alone where an episode terminates.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import rookery
from rookery.sim.env import Env, StepResult
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group, Term

pytest.importorskip("rsl_rl", reason="the extra `trainers` is not installed")
pytest.importorskip("skrl", reason="the extra `trainers` is not installed")
pytest.importorskip("torchrl", reason="the extra `trainers` is not installed")

import skrl.agents.torch.ppo as skrl_ppo
from rsl_rl.runners import OnPolicyRunner
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.trainers.torch import SequentialTrainer
from stable_baselines3 import PPO
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.envs import EnvBase
from torchrl.envs.utils import check_env_specs
from torchrl.objectives.value import GAE

from rookery.sim.adapters.rsl_rl_env import RslRlEnv
from rookery.sim.adapters.sb3_env import Sb3VecEnv
from rookery.sim.adapters.skrl_env import SkrlEnv, use_final_observations
from rookery.sim.adapters.torchrl_env import TorchRLEnv

GAMMA, BETA, LENGTH, WORLDS = 0.9, 0.8, 5, 3
SHORT = {"episode_s": 0.2}  # 20 control steps of drone-hover


class Decay(Env):
    """See the module; episodes of LENGTH steps, started at 1, 2 and 3."""

    def __init__(self, beta: float = BETA, terminates: bool = False) -> None:
        self.task_id = "decay"
        action = ActionSpec("none", ("a",), (-1.0,), (1.0,), ("1",), (0.0,))
        self.groups = {"agent": Group(1, (Term("o", 1),), action)}
        self.num_envs = WORLDS
        self.device = torch.device("cpu")
        self.control_dt = 0.1
        self.max_episode_steps = LENGTH
        self.causes = ("over",)
        self.beta = beta
        self.terminates = terminates
        self.start = torch.arange(1.0, WORLDS + 1)
        self.o = self.start.clone()
        self.t = 0

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self.o, self.t = self.start.clone(), 0
        return self._seen(), {}

    def _seen(self) -> dict[str, Tensor]:
        return {"agent": self.o[:, None, None].clone()}

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        reward = {"agent": self.o[:, None].clone()}
        self.o = self.o * self.beta
        self.t += 1
        ended = torch.full((WORLDS,), self.t == LENGTH)
        info: dict[str, Any] = {}
        if self.t == LENGTH:
            total = self.start * sum(self.beta**i for i in range(LENGTH))
            ids = torch.arange(WORLDS)
            info = {"final_observation": self._seen(), "final_state": self.o[:, None]}
            info["episode"] = {
                "ids": ids,
                "return": {"agent": total},
                "length": torch.full((WORLDS,), LENGTH),
                "metrics": {},
            }
            info["episode"]["cause"] = ended.long() * self.terminates
            self.reset()
        no = torch.zeros_like(ended)
        return self._seen(), reward, *((ended, no) if self.terminates else (no, ended)), info

    def stagger(self) -> None:
        pass

    def close(self) -> None:
        pass

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        pass


def value(o: Tensor, beta: float) -> Tensor:
    return o / (1.0 - GAMMA * beta)


def targets(beta: float, terminates: bool, steps: int) -> Tensor:
    """[steps, WORLDS] discounted sums of rewards to infinity, or to the end."""
    k = torch.arange(steps) % LENGTH
    o = beta ** k[:, None] * torch.arange(1.0, WORLDS + 1)
    left = (LENGTH - k)[:, None] if terminates else torch.full((steps, 1), torch.inf)
    return value(o, beta) * (1.0 - (GAMMA * beta) ** left)


CASES = pytest.mark.parametrize("terminates", [False, True])
STEPS = 2 * LENGTH


def linear(layer: torch.nn.Linear, beta: float = BETA) -> None:
    """Make a layer the exact value function."""
    with torch.no_grad():
        layer.weight.fill_(1.0 / (1.0 - GAMMA * beta))
        layer.bias.zero_()


@CASES
def test_sb3_value_targets(terminates):
    env = Sb3VecEnv(Decay(terminates=terminates))
    options = {"n_steps": STEPS, "batch_size": STEPS * WORLDS, "gamma": GAMMA, "gae_lambda": 1.0, "learning_rate": 0.0}
    model = PPO("MlpPolicy", env, policy_kwargs={"net_arch": {"pi": [], "vf": []}}, device="cpu", **options)
    linear(model.policy.value_net)
    model.learn(STEPS * WORLDS)
    want = targets(BETA, terminates, STEPS).T.reshape(-1, 1).numpy()  # by environment, then by step
    assert model.rollout_buffer.returns == pytest.approx(want, rel=1e-5)


@CASES
def test_rsl_rl_value_targets(terminates):
    """It bootstraps by the value of the observation before the last step: exact where the observation stays the same."""
    env = RslRlEnv(Decay(beta=1.0, terminates=terminates))
    runner = OnPolicyRunner(env, rsl_rl_config(STEPS), device="cpu")
    alg = runner.alg
    alg.critic.mlp = torch.nn.Linear(1, 1)
    linear(alg.critic.mlp, 1.0)
    obs = env.get_observations()
    with torch.inference_mode():
        for _ in range(STEPS):
            obs, rewards, dones, extras = env.step(alg.act(obs))
            alg.process_env_step(obs, rewards, dones, extras)
        alg.compute_returns(obs)
    torch.testing.assert_close(alg.storage.returns[..., 0], targets(1.0, terminates, STEPS), rtol=1e-5, atol=1e-5)


def rsl_rl_config(steps: int) -> dict[str, Any]:
    noise = {"class_name": "GaussianDistribution", "init_std": 0.5}
    return {
        "num_steps_per_env": steps,
        "save_interval": 1000,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "multi_gpu": None,
        "actor": {"class_name": "MLPModel", "hidden_dims": [8], "activation": "elu", "distribution_cfg": noise},
        "critic": {"class_name": "MLPModel", "hidden_dims": [8], "activation": "elu"},
        "algorithm": {"class_name": "PPO", "gamma": GAMMA, "lam": 1.0, "num_learning_epochs": 1, "num_mini_batches": 1},
    }


class Actor(GaussianMixin, Model):
    def __init__(self, env: SkrlEnv) -> None:
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device=env.device)
        GaussianMixin.__init__(self)
        self.net = torch.nn.Linear(env.observation_space.shape[0], env.action_space.shape[0])
        self.log_std = torch.nn.Parameter(torch.zeros(env.action_space.shape[0]))

    def compute(self, inputs, role):
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class Critic(DeterministicMixin, Model):
    def __init__(self, env: SkrlEnv) -> None:
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device=env.device)
        DeterministicMixin.__init__(self)
        self.net = torch.nn.Linear(env.observation_space.shape[0], 1)

    def compute(self, inputs, role):
        return self.net(inputs["observations"]), {}


def skrl_returns(env: SkrlEnv, final: bool, folder: str) -> Tensor:
    """[STEPS, WORLDS] targets of skrl's PPO with the exact value function."""
    models = {"policy": Actor(env), "value": Critic(env)}
    linear(models["value"].net)
    memory = RandomMemory(memory_size=STEPS, num_envs=env.num_envs, device=env.device)
    cfg = skrl_ppo.PPO_CFG(
        rollouts=STEPS, discount_factor=GAMMA, gae_lambda=1.0, learning_rate=0.0, time_limit_bootstrap=True
    )
    cfg.experiment.directory = folder
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    agent = skrl_ppo.PPO(
        models=models,
        memory=memory,
        cfg=cfg,
        observation_space=env.observation_space,
        action_space=env.action_space,
        device=env.device,
    )
    trainer = SequentialTrainer(
        env=env,
        agents=use_final_observations(agent) if final else agent,
        cfg={"timesteps": STEPS, "close_environment_at_exit": False},
    )
    trainer.train()
    return memory.get_tensor_by_name("returns")[..., 0].clone()


@CASES
def test_skrl_value_targets(terminates, tmp_path):
    got = skrl_returns(SkrlEnv(Decay(terminates=terminates)), True, str(tmp_path))
    torch.testing.assert_close(got, targets(BETA, terminates, STEPS), rtol=1e-5, atol=1e-5)


def test_skrl_alone_takes_the_next_episodes_value(tmp_path):
    """Why `use_final_observations` exists."""
    got = skrl_returns(SkrlEnv(Decay()), False, str(tmp_path))
    assert (got[LENGTH - 1] - targets(BETA, False, STEPS)[LENGTH - 1] > 1.0).all()


@CASES
def test_torchrl_value_targets(terminates):
    env = TorchRLEnv(Decay(terminates=terminates))
    layer = torch.nn.Linear(1, 1)
    linear(layer)
    critic = TensorDictModule(layer, in_keys=["observation"], out_keys=["state_value"])
    data = env.rollout(STEPS, break_when_any_done=False)  # [WORLDS, STEPS]
    GAE(gamma=GAMMA, lmbda=1.0, value_network=critic)(data)
    torch.testing.assert_close(data["value_target"][..., 0].T, targets(BETA, terminates, STEPS), rtol=1e-5, atol=1e-5)


# Against the Env


def pairs(count: int = 25) -> Any:
    """Steps of drone-hover in three worlds that end one after the other: action, and what the Env gives for it."""
    plain = rookery.make("drone-hover", 3, config=SHORT)
    plain.reset(seed=5)
    plain.stagger()
    torch.manual_seed(0)
    for _ in range(count):
        action = torch.rand(3, 4) * 2 - 1
        yield action, plain.step(action[:, None])
    plain.close()


def hover() -> Env:
    env = rookery.make("drone-hover", 3, config=SHORT, seed=5)
    env.reset(seed=5)
    return env


def test_sb3_steps_are_those_of_the_env():
    env = Sb3VecEnv(hover())
    env.seed(5)
    env.reset()
    env.env.stagger()
    ended = 0
    for action, (obs, reward, terminated, truncated, info) in pairs():
        got, r, done, infos = env.step(action.numpy())
        assert np.array_equal(got, obs["drone"][:, 0].numpy())
        assert np.array_equal(r, reward["drone"][:, 0].numpy())
        assert np.array_equal(done, (terminated | truncated).numpy())
        for i in range(3):
            if done[i]:
                ended += 1
                assert np.array_equal(
                    infos[i]["terminal_observation"], info["final_observation"]["drone"][i, 0].numpy()
                )
                assert infos[i]["TimeLimit.truncated"] == bool(truncated[i])
                assert infos[i]["episode"]["l"] > 0
            else:
                assert infos[i] == {}
    assert ended >= 3
    assert env.get_attr("num_envs", [0, 2]) == [3, 3]
    assert env.env_is_wrapped(object) == [False] * 3
    env.close()


def test_rsl_rl_steps_are_those_of_the_env():
    inner = hover()
    env = RslRlEnv(inner)
    inner.reset(seed=5)
    env.episode_length_buf = torch.ones(3, dtype=torch.long)
    assert env.episode_length_buf.tolist() == [0, 6, 13]
    with torch.inference_mode():
        for action, (obs, reward, terminated, truncated, info) in pairs():
            got, r, dones, extras = env.step(action)
            assert torch.equal(got["policy"], obs["drone"][:, 0])
            assert torch.equal(r, reward["drone"][:, 0])
            assert torch.equal(dones, terminated | truncated)
            assert torch.equal(extras["time_outs"], truncated)
            assert torch.equal(env.episode_length_buf, inner.steps)
            if dones.any():
                assert torch.equal(extras["final_observation"][dones], info["final_observation"]["drone"][dones, 0])
                assert "/success" in extras["log"]
    assert env.get_observations() is got
    env.close()


def test_rsl_rl_rewards_are_scaled():
    rewards = []
    for scale in (1.0, 0.25):
        env = RslRlEnv(hover(), reward_scale=scale)
        env.env.reset(seed=5)
        rewards.append(env.step(torch.zeros(3, 4))[1])
        env.close()
    assert (rewards[0] != 0.0).all() and torch.equal(rewards[1], 0.25 * rewards[0])
    with pytest.raises(RookeryError, match="reward_scale is 0"):
        RslRlEnv(hover(), reward_scale=0.0)


def test_skrl_steps_are_those_of_the_env():
    inner = hover()
    env = SkrlEnv(inner, states=True)
    env.reset()
    inner.reset(seed=5)
    inner.stagger()
    for action, (obs, reward, terminated, truncated, info) in pairs():
        got, r, ends, late, infos = env.step(action)
        assert torch.equal(got, obs["drone"][:, 0])
        assert torch.equal(r, reward["drone"])
        assert torch.equal(ends[:, 0], terminated)
        assert torch.equal(late[:, 0], truncated)
        done = terminated | truncated
        if done.any():
            assert torch.equal(infos["final_observation"][done], info["final_observation"]["drone"][done, 0])
            assert torch.equal(infos["final_observation"][~done], got[~done])
    assert torch.equal(env.state(), inner.state)
    assert env.state_space.shape == (inner.state_size,)
    assert torch.equal(env.reset()[0], got)
    env.close()


def test_torchrl_accepts_the_env():
    env = TorchRLEnv(rookery.make("drone-hover", 3, config=SHORT))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env_specs(env)
    data = env.rollout(45, break_when_any_done=False)
    assert data["next", "done"][:, :20].any(1).all()
    first = data["observation"][:, 1:]
    last = data["next", "observation"][:, :-1]
    done = data["next", "done"][:, :-1, 0]
    assert torch.equal(first[~done], last[~done])
    assert (first[done] != last[done]).any(-1).all()
    env.set_seed(3)
    a = env.reset()["observation"].clone()
    env.set_seed(3)
    assert torch.equal(env.reset()["observation"], a)
    mask = torch.tensor([[True], [False], [False]])
    with pytest.raises(RookeryError, match="reset all worlds"):
        env.reset(env.rand_step(env.reset()).set("_reset", mask))
    env.close()


def test_torchrl_steps_are_those_of_its_own_method():
    """`step_and_maybe_reset` is written anew for speed; entries that others put into the TensorDict are carried on alike."""
    envs = [TorchRLEnv(hover()) for _ in range(2)]
    rows = [env.reset().set("loc", torch.arange(3.0)) for env in envs]
    ended = 0
    for action, _ in pairs():
        ours, next_ours = envs[0].step_and_maybe_reset(rows[0].set("action", action))
        theirs, next_theirs = EnvBase.step_and_maybe_reset(envs[1], rows[1].set("action", action))
        for a, b in ((ours, theirs), (next_ours, next_theirs)):
            assert set(a.keys(True, True)) == set(b.keys(True, True)) - {"_reset"}
            assert all(torch.equal(a[k], b[k]) for k in a.keys(True, True))
            assert (a.batch_size, a.device) == (b.batch_size, b.device)
        ended += int(theirs["next", "done"].sum())
        rows = [next_ours, next_theirs]
    assert ended >= 3 and "loc" in rows[0]
    memory = rows[0].set("action", action).set("next", TensorDict({"hidden": torch.ones(3, 2)}, 3))
    assert "hidden" in envs[0].step_and_maybe_reset(memory)[0]["next"]  # as a recurrent actor leaves it


def test_torchrl_accepts_the_vector_env():
    import gymnasium
    from torchrl.envs.libs.gym import GymWrapper

    env = GymWrapper(gymnasium.make_vec("rookery/drone-hover-v0", 3, config=SHORT))
    data = env.rollout(30, break_when_any_done=False)
    assert data["next", "done"].any()
    env.close()


@pytest.mark.parametrize("adapter", [RslRlEnv, Sb3VecEnv, SkrlEnv, TorchRLEnv])
def test_agents_are_rows_and_groups_are_refused(adapter):
    env = adapter(rookery.make("drone-swap", 2))
    assert (env.batch_size[0] if adapter is TorchRLEnv else env.num_envs) == 12
    env.close()
    with pytest.raises(RookeryError, match="groups"):
        adapter(rookery.make("dual-panda-handover", 1))
    with pytest.raises(RookeryError, match="weights="):
        adapter(rookery.make("swarm-surround", 1))
