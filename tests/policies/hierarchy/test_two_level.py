"""A policy that commands a frozen one: what the skill observes, and the whole way from training to a bundle."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from policies_fake import FakeEnv

import rookery
from rookery.cli.main import main
from rookery.experiments.runs import open_run
from rookery.policies.hierarchy.two_level import TwoLevelEnv
from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.standard import standard
from rookery.policies.training.evaluate import evaluate
from rookery.sim.errors import RookeryError


def test_a_command_moves_the_point_at_which_the_skill_hovers() -> None:
    policies, contract = open_run(Path("drone-hover"))
    skill = contract.groups["drone"].spec
    env = TwoLevelEnv(rookery.make("drone-hover", 3), policies["drone"], skill, {"position_error": 0.5})
    assert env.groups["drone"].action.size == 3
    assert env.groups["drone"].action.high == (0.5, 0.5, 0.5)
    obs, _ = env.reset(seed=0)
    command = torch.tensor([[[0.4, 0.0, 0.0]], [[0.0, -0.6, 0.2]], [[0.0, 0.0, 0.0]]])
    for _ in range(500):
        obs, *_ = env.step(command)
    error = obs["drone"][..., env.groups["drone"].slices()["position_error"]]
    # it hovers where the shifted error is 0
    assert torch.allclose(error, -0.5 * command, atol=0.05)


def test_the_skill_acts_on_its_own_terms_of_the_observation() -> None:
    env = rookery.make("drone-track-hierarchical", 4)
    policies, contract = open_run(Path("drone-hover"))
    skill = contract.groups["drone"].spec
    obs = torch.randn(4, 1, env.groups["drone"].observation_size)
    command = torch.rand(4, 1, 6) * 2 - 1
    own = {n: obs[..., at] for n, at in env.groups["drone"].slices().items()}
    own["position_error"] = own["position_error"] + 0.5 * command[..., :3]
    own["linear_velocity"] = own["linear_velocity"] + 2.0 * 0.5 * command[..., 3:]  # 2 m/s in units of the term's scale
    wanted = policies["drone"](torch.cat([own[t.name] for t in skill.observation], -1))
    assert torch.allclose(env.act(obs, command), wanted, atol=1e-6)


def test_commands_are_limited() -> None:
    env, other = (rookery.make("drone-track-hierarchical", 4, seed=1) for _ in range(2))
    for e in (env, other):
        e.reset()
    command = 3.0 * torch.randn(4, 1, 6)
    assert torch.equal(env.step(command)[0]["drone"], other.step(command.clamp(-1.0, 1.0))[0]["drone"])


def test_the_skill_observes_within_the_limits_of_its_terms() -> None:
    env = FakeEnv(2, obs=1)
    group = env.groups["point"]
    env.groups = {"point": replace(group, observation=(replace(group.observation[0], clip=1.0),))}
    policy = Policy(standard(1, 1, ()))
    with torch.no_grad():
        layers_of(policy)[0].weight.fill_(0.5)
        layers_of(policy)[0].bias.zero_()
    two = TwoLevelEnv(env, policy, env.groups["point"], {"state": 0.5})
    action = two.act(torch.tensor([[[0.8]], [[-0.2]]]), torch.ones(2, 1, 1))
    assert torch.allclose(action, torch.tensor([[[0.5]], [[0.15]]]))


def test_a_saved_state_continues_exactly() -> None:
    env, other = (rookery.make("drone-track-hierarchical", 3, seed=s, randomize="default") for s in (1, 2))
    command = torch.rand(3, 1, 6) - 0.5
    for e in (env, other):
        e.reset()
        e.step(command)
    other.load_state_dict(env.state_dict())
    for _ in range(3):
        assert torch.equal(env.step(command)[0]["drone"], other.step(command)[0]["drone"])
    with pytest.raises(ValueError, match=r"lacks 'two_level.observation'"):
        other.load_state_dict(env.env.state_dict())


def test_without_commands_the_skill_follows_on_its_own() -> None:
    env = rookery.make("drone-track-hierarchical", 8)
    result = evaluate(env, lambda obs: {"drone": torch.zeros(8, 1, 6)}, 8)
    assert result["causes"] == {"time limit": 8}
    assert result["metrics"]["error_m"] < 1.0


def test_what_cannot_be_commanded_is_refused() -> None:
    with pytest.raises(RookeryError, match="give a run or a name of the zoo, not the controller"):
        rookery.make("drone-track-hierarchical", config={"frozen": "controller"})
    with pytest.raises(RookeryError, match=r"the skill acts by 'ctbr', .* by 'rotor_thrust'"):
        rookery.make("drone-track-hierarchical", config={"action": "rotor_thrust"})
    with pytest.raises(RookeryError, match="skill's run has policies"):
        rookery.make("drone-track-hierarchical", config={"frozen": "go2-velocity"})
    policies, contract = open_run(Path("drone-hover"))
    with pytest.raises(RookeryError, match="the skill observes no 'height'"):
        TwoLevelEnv(rookery.make("drone-hover"), policies["drone"], contract.groups["drone"].spec, {"height": 1.0})
    skill = contract.groups["drone"].spec
    weaker = replace(skill, action=replace(skill.action, high=tuple(0.5 * h for h in skill.action.high)))
    with pytest.raises(RookeryError, match=r"or other limits"):
        TwoLevelEnv(rookery.make("drone-hover"), policies["drone"], weaker, {"position_error": 1.0})


def test_it_is_trained_evaluated_filmed_and_exported(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = ["train", "drone-track-hierarchical", "--steps", "2048", "--num-envs", "16", "--out", "run", "--json"]
    assert main([*train, "--task-config", "episode_s=1", "--task-config", "settle_s=0.5"]) == 0
    assert main(["eval", "run", "--episodes", "4", "--json"]) == 0
    assert main(["play", "run", "--seconds", "0.2", "--size", "64", "48", "--out", "film.mp4"]) == 0
    assert main(["export", "run", "--out", "bundle"]) == 0
    capsys.readouterr()
    contract = json.loads((in_tmp / "bundle" / "contract.json").read_text())
    assert contract["task_config"]["frozen"] == "drone-hover"
    action = contract["groups"]["drone"]["action"]
    assert action["kind"] == "shift_of_skill_observation"
    assert action["names"][0] == "position_error[0]"
    assert action["units"] == ["m"] * 3 + ["m/s"] * 3
    assert contract["groups"]["drone"]["actuation"] is None
