"""Value targets at time limits of rsl_rl, Stable-Baselines3, skrl and TorchRL, with a task whose value is known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from decay import GAMMA, LENGTH, WORLDS, Decay, linear, targets
from torch import Tensor

pytest.importorskip("rsl_rl", reason="the extra `trainers` is not installed")
pytest.importorskip("skrl", reason="the extra `trainers` is not installed")
pytest.importorskip("torchrl", reason="the extra `trainers` is not installed")

import skrl.agents.torch.ppo as skrl_ppo
from rsl_rl.runners import OnPolicyRunner
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.trainers.torch import SequentialTrainer
from stable_baselines3 import PPO
from tensordict.nn import TensorDictModule
from torchrl.objectives.value import GAE

from rookery.sim.adapters.rsl_rl_env import RslRlEnv
from rookery.sim.adapters.sb3_env import Sb3VecEnv
from rookery.sim.adapters.skrl_env import SkrlEnv, use_final_observations
from rookery.sim.adapters.torchrl_env import TorchRLEnv

CASES = pytest.mark.parametrize("terminates", [False, True])
STEPS = 2 * LENGTH


@CASES
def test_sb3_value_targets(terminates):
    env = Sb3VecEnv(Decay(terminates=terminates))
    options = {"n_steps": STEPS, "batch_size": STEPS * WORLDS, "gamma": GAMMA, "gae_lambda": 1.0, "learning_rate": 0.0}
    model = PPO("MlpPolicy", env, policy_kwargs={"net_arch": {"pi": [], "vf": []}}, device="cpu", **options)
    linear(model.policy.value_net)
    model.learn(STEPS * WORLDS)
    want = targets(STEPS, terminates)[..., 0].T.reshape(-1, 1).numpy()  # by environment, then by step
    assert model.rollout_buffer.returns == pytest.approx(want, rel=1e-5)


@CASES
def test_rsl_rl_value_targets(terminates):
    """It bootstraps by the value of the observation before the last step: exact where the observation stays the same."""
    env = RslRlEnv(Decay(beta=1.0, terminates=terminates))
    runner = OnPolicyRunner(env, rsl_rl_config(STEPS), device="cpu")
    alg = runner.alg
    alg.critic.mlp = torch.nn.Linear(1, 1)
    linear(alg.critic.mlp, beta=1.0)
    obs = env.get_observations()
    with torch.inference_mode():
        for _ in range(STEPS):
            obs, rewards, dones, extras = env.step(alg.act(obs))
            alg.process_env_step(obs, rewards, dones, extras)
        alg.compute_returns(obs)
    torch.testing.assert_close(
        alg.storage.returns[..., 0], targets(STEPS, terminates, beta=1.0)[..., 0], rtol=1e-5, atol=1e-5
    )


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
    """Of observations, or of states where the environment gives them."""

    def __init__(self, env: SkrlEnv) -> None:
        spaces = {"observation_space": env.observation_space, "state_space": env.state_space}
        Model.__init__(self, **spaces, action_space=env.action_space, device=env.device)
        DeterministicMixin.__init__(self)
        self.input = "observations" if env.state_space is None else "states"
        self.net = torch.nn.Linear(1, 1)

    def compute(self, inputs, role):
        return self.net(inputs[self.input]), {}


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
        state_space=env.state_space,
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
@pytest.mark.parametrize("states", [False, True])
def test_skrl_value_targets(states, terminates, tmp_path):
    got = skrl_returns(SkrlEnv(Decay(terminates=terminates), states=states), True, str(tmp_path))
    torch.testing.assert_close(got, targets(STEPS, terminates)[..., 0], rtol=1e-5, atol=1e-5)


def test_skrl_alone_takes_the_next_episodes_value(tmp_path):
    """Why `use_final_observations` exists."""
    got = skrl_returns(SkrlEnv(Decay()), False, str(tmp_path))
    assert (got[LENGTH - 1] - targets(STEPS)[LENGTH - 1, :, 0] > 1.0).all()


@CASES
def test_torchrl_value_targets(terminates):
    env = TorchRLEnv(Decay(terminates=terminates))
    layer = torch.nn.Linear(1, 1)
    linear(layer)
    critic = TensorDictModule(layer, in_keys=["observation"], out_keys=["state_value"])
    data = env.rollout(STEPS, break_when_any_done=False)  # [WORLDS, STEPS]
    GAE(gamma=GAMMA, lmbda=1.0, value_network=critic)(data)
    torch.testing.assert_close(data["value_target"][..., 0].T, targets(STEPS, terminates)[..., 0], rtol=1e-5, atol=1e-5)
