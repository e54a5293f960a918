"""Networks behind one interface: gradients of weights and inputs, and a GRU that PPO trains."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from policies_drift import HORIZON, Drift
from policies_drive import Drive, mean_actions
from policies_gru import FRAMES, Gru
from torch import nn

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.nn.autograd import AutogradNetwork
from rookery.policies.nn.build import build, weight_count
from rookery.policies.stages.chain import Link
from rookery.policies.stages.module import Module, make_module, refuse_untrusted
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.training.evaluate import act_with
from rookery.policies.training.store import load_policy, save_policy
from rookery.sim.errors import RookeryError

GRU = "policies_gru:gru"


def built(spec: Link, networks: int = 1):
    parameters = torch.zeros(networks, weight_count([spec]))
    gradients = torch.zeros_like(parameters)
    network = build([spec], parameters, gradients)
    network.initialize(torch.Generator().manual_seed(3), 0.5, torch.full((spec.outputs,), 0.2))
    return network, parameters, gradients


def reference(spec: Module | Perceptron, network, g: int) -> nn.Module:
    """A plain module with the weights of network g."""
    if isinstance(spec, Module):
        module = make_module(spec.factory, spec.inputs, spec.outputs)
        network.write_to(module.parameters(), g)
        return module
    act = {"tanh": nn.Tanh, "elu": nn.ELU, "relu": nn.ReLU}[spec.activation]
    sizes = spec.sizes
    layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, sizes[1:], strict=False))
    network.write_to(layers.parameters(), g)
    return nn.Sequential(*(m for layer in layers for m in (layer, act())))[:-1]


SPECS = {
    "tanh": Perceptron(6, (8, 5), 2, "tanh"),
    "elu": Perceptron(6, (7,), 2, "elu"),
    "relu": Perceptron(6, (9, 4), 2, "relu"),
    "linear": Perceptron(6, (), 2),
    "gru": Module(6, 2, GRU),
}


@pytest.mark.parametrize("networks", [1, 3])
@pytest.mark.parametrize("kind", SPECS)
def test_gradients_of_weights_and_inputs_equal_autograd(kind, networks):
    spec = SPECS[kind]
    network, _, gradients = built(spec, networks)
    gradients.fill_(0.25)  # backward adds
    x = torch.randn(networks, 20, spec.inputs, generator=torch.Generator().manual_seed(1))
    pull = torch.randn(networks, 20, spec.outputs, generator=torch.Generator().manual_seed(2))
    out = network.forward(x).clone()
    input_grad = network.backward(pull.clone(), input_grad=True).clone()
    for g in range(networks):
        module = reference(spec, network, g)
        rows = x[g].clone().requires_grad_()
        want = module(rows)
        torch.testing.assert_close(out[g], want, rtol=1e-4, atol=1e-5)
        (want * pull[g]).sum().backward()
        torch.testing.assert_close(input_grad[g], rows.grad, rtol=1e-4, atol=1e-5)
        linears = [] if isinstance(spec, Module) else [m for m in module if isinstance(m, nn.Linear)]
        parts = [p.grad for p in module.parameters()] if isinstance(spec, Module) else []
        parts += [t for m in linears for t in (m.weight.grad.T, m.bias.grad)]
        torch.testing.assert_close(gradients[g] - 0.25, torch.cat([p.flatten() for p in parts]), rtol=1e-4, atol=1e-5)
    network.forward(x)
    assert network.backward(pull.clone()) is None


def test_a_gru_starts_at_the_neutral_action_and_each_set_of_weights_is_its_own():
    network, parameters, _ = built(SPECS["gru"], 2)
    assert not torch.equal(parameters[0], parameters[1])
    network.initialize(torch.Generator().manual_seed(3), 0.01, torch.tensor([0.2, -0.3]))
    out = network.forward(torch.randn(2, 50, 6))
    assert (out - torch.tensor([0.2, -0.3])).abs().max() < 0.05


def reward(ppo: PPO) -> float:
    """Mean reward of the deterministic policy."""
    env = Drift(64, history=FRAMES, goal=False)
    act = act_with(ppo.policies(), env)
    obs, _ = env.reset()
    total = 0.0
    for _ in range(2 * HORIZON):
        obs, r, *_ = env.step(act(obs))
        total += r["point"].mean().item()
    return total / (2 * HORIZON)


CONFIG = PPOConfig(
    rollout_steps=32,
    epochs=4,
    minibatches=4,
    hidden=(32,),
    network=GRU,
    schedule="fixed",
    learning_rate=5e-3,
    gamma=0.5,
)


@pytest.mark.slow
def test_ppo_trains_a_gru_that_reads_a_velocity_from_positions(tmp_path, monkeypatch):
    """Acting without knowing the velocity earns -1/3; the last frames' difference shows it."""
    ppo = PPO(Drift(64, history=FRAMES, goal=False), CONFIG)
    ppo.learners["point"].divide(2)
    before = reward(ppo)
    Drive(ppo).iterate(30)
    after = reward(ppo)
    assert before < -0.25 and after > -0.12, (before, after)
    save_policy(tmp_path, ppo.policies(), {"groups": {"point": {}}})
    with pytest.raises(RookeryError, match=r"module 'policies_gru', .* ROOKERY_TRUST_MODULES=policies_gru"):
        load_policy(tmp_path)
    monkeypatch.setenv("ROOKERY_TRUST_MODULES", "other, policies_gru")
    stored, _ = load_policy(tmp_path)
    obs, _ = ppo.env.reset()
    assert stored["point"].to_json()[1]["factory"] == GRU
    torch.testing.assert_close(act_with(stored, ppo.env)(obs)["point"], mean_actions(ppo, obs)["point"])


@pytest.mark.parametrize("share", [True, False])
def test_a_resumed_gru_is_bit_equal(share):
    config = dataclasses.replace(CONFIG, rollout_steps=8, share=share)
    straight = Drive(PPO(Drift(8, FRAMES, 2, goal=False), config))
    straight.iterate(2)
    resumed = Drive(PPO(Drift(8, FRAMES, 2, goal=False), config, seed=4))
    resumed.algorithm.load_state_dict({k: v.clone() for k, v in straight.algorithm.state_dict().items()})
    resumed.env.load_state_dict(straight.env.state_dict())
    resumed.obs = straight.obs
    straight.iterate(2)
    resumed.iterate(2)
    one = straight.algorithm.state_dict()
    two = resumed.algorithm.state_dict()
    assert all(torch.equal(x, two[name]) for name, x in one.items())


def test_what_learning_cannot_keep_is_refused():
    flat = torch.zeros(1, 20)
    with pytest.raises(RookeryError, match="BatchNorm1d has buffers"):
        AutogradNetwork(lambda: nn.BatchNorm1d(2), 2, 2, flat, flat.clone())
    with pytest.raises(RookeryError, match="cannot be imported"):
        make_module("policies_gru:nothing", 2, 2)
    with pytest.raises(RookeryError, match=r"gives list, not a torch\.nn\.Module"):
        make_module("policies_gru:no_module", 2, 2)
    with pytest.raises(RookeryError, match=r"Linear maps rows of 3 to \(5,\), and this group needs 2"):
        AutogradNetwork(lambda: nn.Linear(3, 5), 3, 2, flat, flat.clone())


def test_the_gru_is_one():
    assert any(isinstance(m, nn.GRU) for m in Gru(6, 2).modules())


def test_a_file_chooses_no_module():
    """Neither one whose name begins with a trusted name, nor any of the standard library."""
    for name in ("os:kill", "rookery_evil:net", "rookeryx.rookery:net", ":net", ""):
        with pytest.raises(RookeryError, match="asks for code of the module"):
            refuse_untrusted(name, "a file")
    refuse_untrusted("rookery.policies.nn.mlp:net", "a file")
