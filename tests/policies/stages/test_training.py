"""Stages without a hand-written backward pass learn by autograd in every algorithm, and what they learned is exported."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from policies_drive import Drive, mean_actions
from policies_flock import FlockEnv
from policies_spot import SpotEnv
from sampled import slow_but
from torch import Tensor

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.policy import Policy
from rookery.policies.training.evaluate import act_with
from rookery.policies.training.warm_start import warm_start
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Term
from rookery.sim2real.build import describe
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.check import check_bundle

ATTENTION: dict[str, Any] = {"encoder": "attention", "encoder_options": ("size=8", "heads=2")}
EXPERTS: dict[str, Any] = {"encoder": "experts", "encoder_options": ("experts=3", "size=12")}
BASE = PPOConfig(
    rollout_steps=4, epochs=4, minibatches=4, hidden=(16,), schedule="fixed", learning_rate=5e-3, gamma=0.0, initial_std=0.3
)  # fmt: skip


def error(policies: dict[str, Policy], **settings: int) -> float:
    """Mean squared error of the actions, in worlds of their own."""
    env = FlockEnv(512, seed=9, **settings)
    act = act_with(policies, env)
    obs, _ = env.reset()
    with torch.no_grad():
        return (act(obs)["bird"].flatten() - env.wanted).square().mean().item()


def exported(policies: dict[str, Policy], env: Env, folder: Path) -> dict[str, float]:
    contract = with_stages(describe(env.task_id, env.groups, env.control_dt), policies)
    return check_bundle(export_bundle(policies, contract, folder / "bundle"))


@pytest.mark.slow
@pytest.mark.parametrize("settings", slow_but([ATTENTION], [ATTENTION, EXPERTS]), ids=["attention", "experts"])
def test_ppo_learns_and_the_bundle_proves_it(settings: dict[str, Any], tmp_path: Path) -> None:
    ppo = PPO(FlockEnv(256), dataclasses.replace(BASE, **settings))
    learner = ppo.learners["bird"]
    assert not learner.compiled, "the compiled kernel serves perceptrons alone"
    before = error(ppo.policies())
    Drive(ppo).iterate(30)
    after = error(ppo.policies())
    assert after < 0.25 * before, (before, after)
    obs, _ = ppo.env.reset()
    mean = learner.mean_action(learner.observations.normalize(obs["bird"])).clamp(-1.0, 1.0)
    torch.testing.assert_close(mean_actions(ppo, obs)["bird"], mean, rtol=1e-4, atol=1e-5)
    errors = exported(ppo.policies(), ppo.env, tmp_path)
    assert errors["onnx_max_error"] <= 1e-5 and errors["c_max_error"] <= 1e-5


@pytest.mark.slow
def test_attention_serves_numbers_of_neighbors_that_it_has_not_met() -> None:
    """Learned from one or two neighbors, it finds the mean of four, and better than experts that know each place apart."""
    found = {}
    for name, settings in (("attention", ATTENTION), ("experts", EXPERTS)):
        ppo = PPO(FlockEnv(256), dataclasses.replace(BASE, **settings))
        Drive(ppo).iterate(40)
        found[name] = error(ppo.policies(), least=4, most=4)
    idle = 1.0 / 3.0 / 4.0  # variance of the mean of four
    assert found["attention"] < 0.1 * idle and found["attention"] < 0.5 * found["experts"], found


@pytest.mark.parametrize("settings", [ATTENTION, EXPERTS], ids=["attention", "experts"])
@pytest.mark.parametrize("memory", ["none", "gru"])
@pytest.mark.parametrize("critic", ["sac", "td3"])
def test_off_policy_algorithms_learn_through_them(settings: dict[str, Any], memory: str, critic: str) -> None:
    more: dict[str, Any] = {"memory": "gru", "memory_size": 6, "memory_steps": 4} if memory == "gru" else {}
    common = (
        {"hidden": (16,), "batch": 64, "buffer_size": 4000, "learning_starts": 128, "rollout_steps": 8}
        | settings
        | more
    )
    algorithm: Any
    if critic == "sac":
        algorithm = SAC(FlockEnv(32), SACConfig(**common))
    else:
        algorithm = TD3(FlockEnv(32), TD3Config(**common))
    learner = algorithm.learners["bird"]
    assert getattr(learner, "compiled", None) is None
    weights = [p.clone() for p in learner.features.encoder.parameters()]
    figures = Drive(algorithm).iterate(3)
    assert all(torch.isfinite(torch.tensor(x)) for x in figures.values())
    assert all(not torch.equal(a, b) for a, b in zip(weights, learner.features.encoder.parameters(), strict=True))
    obs, _ = algorithm.env.reset()
    policy = algorithm.policies()["bird"]
    with torch.no_grad():
        x = learner.encoded(learner.norm.normalize(obs["bird"].flatten(0, 1)))
        if memory == "gru":
            x = learner.actor_features.memory.step(x, torch.zeros(len(x), 6))
        want = learner.actor(x)[0][:, :1].tanh()
        got, _ = policy.step(obs["bird"], policy.initial_state(32, 1))
    torch.testing.assert_close(got.flatten(0, 1), want, rtol=1e-4, atol=1e-5)


def test_a_training_is_the_same_after_a_resume() -> None:
    config = dataclasses.replace(BASE, **ATTENTION, critic="own")
    straight = Drive(PPO(FlockEnv(32), config))
    straight.iterate(2)
    resumed = Drive(PPO(FlockEnv(32, seed=3), config, seed=4))
    resumed.algorithm.load_state_dict({k: v.clone() for k, v in straight.algorithm.state_dict().items()})
    resumed.env.load_state_dict(straight.env.state_dict())
    resumed.obs = {k: v.clone() for k, v in straight.obs.items()}
    for drive in (straight, resumed):
        drive.iterate(2)
    one, two = straight.algorithm.state_dict(), resumed.algorithm.state_dict()
    assert all(torch.equal(x, two[name]) for name, x in one.items())


def test_the_very_same_stages_are_taken_over() -> None:
    config = dataclasses.replace(BASE, **ATTENTION)
    old = PPO(FlockEnv(32), config)
    Drive(old).iterate(2)
    new = PPO(FlockEnv(32), config, seed=7)
    warm_start(new, old.policies(), {"bird": old.learners["bird"].spec})
    obs, _ = new.env.reset()
    assert torch.equal(mean_actions(new, obs)["bird"], mean_actions(old, obs)["bird"])
    for other in (BASE, dataclasses.replace(config, encoder_options=("size=9",))):
        with pytest.raises(RookeryError, match="the very same stages"):
            warm_start(PPO(FlockEnv(32), other), old.policies(), {"bird": old.learners["bird"].spec})
    raw = dataclasses.replace(config, normalize_observations=False)
    with pytest.raises(RookeryError, match="this one does not: give --normalize-observations"):
        warm_start(PPO(FlockEnv(32), raw), old.policies(), {"bird": old.learners["bird"].spec})


class ToldEnv(SpotEnv):
    """SpotEnv whose agents may be told the place."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.groups = {"eye": dataclasses.replace(self.groups["eye"], targets=(Term("place", 1),))}

    @property
    def privileged_targets(self) -> dict[str, Tensor]:
        return {"eye": self.place.unsqueeze(-1).clone()}


@pytest.mark.slow
@pytest.mark.parametrize("memory", slow_but(["none"], ["none", "gru"]))
def test_pictures_and_a_state_estimator_go_together(memory: str, tmp_path: Path) -> None:
    config = dataclasses.replace(
        BASE, encoder="cnn", encoder_channels=(3, 2), encoder_kernels=(3, 2), encoder_strides=(2, 1), estimator="predict",
        estimator_hidden=(8,), memory=memory, memory_size=5 if memory == "gru" else 64,
    )  # fmt: skip
    ppo = PPO(ToldEnv(32, history=2), config)
    Drive(ppo).iterate(2)
    policy = ppo.policies()["eye"]
    kinds = [
        "normalize",
        "select",
        "select",
        "pictures",
        "estimator",
        *["gru"] * (memory == "gru"),
        "perceptron",
        "squash",
    ]
    assert policy.chain.kinds == kinds
    learner = ppo.learners["eye"]
    obs = ppo._last_obs["eye"]
    state = policy.initial_state(32, 1)
    if learner.memory is not None:
        learner.memory.actor.zero_()
    seen = learner.observations.normalize(obs)
    wanted = learner.mean_action(learner.actor_input(seen, torch.zeros(32, 1, 1), None)).clamp(-1.0, 1.0)
    with torch.no_grad():
        got, _ = policy.step(obs, state)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    errors = exported({"eye": policy}, ppo.env, tmp_path)
    assert errors["onnx_max_error"] <= 1e-5 and errors["c_max_error"] <= 1e-5
