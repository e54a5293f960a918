"""skrl, TorchRL and PettingZoo with several agents: values against the Env, drop-outs, value targets at time limits."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from decay import GAMMA, LENGTH, WORLDS, Decay, linear, targets, value
from torch import Tensor

import rookery
from rookery.sim.adapters.agents import AgentEnds
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError

pytest.importorskip("skrl", reason="the extra `trainers` is not installed")
pytest.importorskip("torchrl", reason="the extra `trainers` is not installed")

from skrl.memories.torch import RandomMemory
from skrl.multi_agents.torch.ippo import IPPO, IPPO_CFG
from skrl.multi_agents.torch.mappo import MAPPO, MAPPO_CFG
from skrl.trainers.torch import SequentialTrainer
from skrl.utils.model_instantiators.torch import deterministic_model, gaussian_model
from tensordict.nn import TensorDictModule
from torchrl.envs.utils import check_env_specs
from torchrl.objectives.value import GAE

from rookery.sim.adapters.skrl_env import SkrlMultiAgentEnv, use_final_observations
from rookery.sim.adapters.torchrl_env import TorchRLMultiAgentEnv

AGENTS, STEPS = 2, 2 * LENGTH
WEIGHTS = {"closeness": 1.0, "spread": 0.5}
ENDS = pytest.mark.parametrize(("terminates", "drop"), [(t, d) for d in (0, 3, LENGTH) for t in (False, True)])


def skrl_returns(env: SkrlMultiAgentEnv, central: bool, folder: str) -> Tensor:
    """[STEPS, WORLDS, AGENTS] targets of skrl's IPPO, or of MAPPO, with the exact value function."""
    net = {"name": "net", "input": "STATES" if central else "OBSERVATIONS", "layers": [], "activations": ""}
    models = {}
    for i, name in enumerate(env.possible_agents):
        sizes = {key: getattr(env, key)(name) for key in ("observation_space", "state_space", "action_space")}
        actor = gaussian_model(**sizes, network=[net | {"input": "OBSERVATIONS"}], output="ACTIONS")
        critic = deterministic_model(**sizes, network=[net], output="ONE")
        critic.act(
            {"observations": torch.zeros(1, 1), "states": torch.zeros(1, AGENTS)}, role="value"
        )  # gives it its shape
        (layer,) = (m for m in critic.modules() if isinstance(m, torch.nn.Linear))
        linear(layer, column=i if central else 0)
        models[name] = {"policy": actor, "value": critic}
    kind, config = (MAPPO, MAPPO_CFG) if central else (IPPO, IPPO_CFG)
    cfg = config(rollouts=STEPS, discount_factor=GAMMA, gae_lambda=1.0, learning_rate=0.0, time_limit_bootstrap=True)
    no = {name: {} for name in models}
    cfg.observation_preprocessor_kwargs = cfg.state_preprocessor_kwargs = cfg.value_preprocessor_kwargs = no
    cfg.learning_rate_scheduler_kwargs = no
    cfg.experiment.directory = folder
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    memories = {name: RandomMemory(memory_size=STEPS, num_envs=WORLDS) for name in models}
    spaces = {key: getattr(env, key) for key in ("observation_spaces", "state_spaces", "action_spaces")}
    agent = kind(possible_agents=env.agents, models=models, memories=memories, cfg=cfg, **spaces)
    trainer = SequentialTrainer(
        env=env,
        agents=use_final_observations(agent),
        cfg={"timesteps": STEPS, "close_environment_at_exit": False},
    )
    trainer.train()
    return torch.cat([memory.get_tensor_by_name("returns") for memory in memories.values()], -1)


@ENDS
@pytest.mark.parametrize("central", [False, True])
def test_skrl_value_targets(central, terminates, drop, tmp_path):
    env = SkrlMultiAgentEnv(Decay(terminates=terminates, agents=AGENTS, drop=drop), states=central)
    got = skrl_returns(env, central, str(tmp_path))
    torch.testing.assert_close(got, targets(STEPS, terminates, AGENTS, drop=drop), rtol=1e-5, atol=1e-5)


@ENDS
@pytest.mark.parametrize("central", [False, True])
def test_torchrl_value_targets(central, terminates, drop):
    env = TorchRLMultiAgentEnv(Decay(terminates=terminates, agents=AGENTS, drop=drop), states=central)
    layer = torch.nn.Linear(AGENTS, AGENTS) if central else torch.nn.Linear(1, 1)
    linear(layer)
    if central:
        with torch.no_grad():
            layer.weight.copy_(layer.weight[:, :1] * torch.eye(AGENTS))
    net = torch.nn.Sequential(layer, torch.nn.Unflatten(-1, (AGENTS, 1))) if central else layer
    critic = TensorDictModule(net, ["state" if central else ("agent", "observation")], ["state_value"])
    gae = GAE(gamma=GAMMA, lmbda=1.0, value_network=critic)
    gae.set_keys(**{key: ("agent", key) for key in ("reward", "done", "terminated")})
    data = gae(env.rollout(STEPS, break_when_any_done=False))  # [WORLDS, STEPS]
    got = data["value_target"][..., 0].transpose(0, 1)
    torch.testing.assert_close(got, targets(STEPS, terminates, AGENTS, drop=drop), rtol=1e-5, atol=1e-5)


@ENDS
def test_pettingzoo_value_targets(terminates, drop):
    """By hand, as a trainer would: the reward, and what is left is worth, unless the agent has been terminated."""
    env = rookery.ParallelEnv(Decay(terminates=terminates, agents=AGENTS, worlds=1, drop=drop))
    want = targets(LENGTH, terminates, AGENTS, 1, drop)[:, 0]
    env.reset()
    for step in range(LENGTH):
        live = list(env.agents)
        obs, reward, terminated, truncated, _ = env.step({name: [0.0] for name in live})
        for name in live:
            got = reward[name] + GAMMA * (not terminated[name]) * value(torch.from_numpy(obs[name])).item()
            i = env.possible_agents.index(name)
            if drop and i == AGENTS - 1 and step < drop - 1:
                continue  # one step does not see that it will drop out
            known = terminated[name] or truncated[name] or not terminates
            assert not known or got == pytest.approx(want[step, i].item(), rel=1e-5)
    assert not env.agents


# Against the Env


def swarm(**config: Any) -> Env:
    env = rookery.make("swarm-surround", 3, weights=WEIGHTS, config={"episode_s": 1.0} | config, seed=5)
    env.reset(seed=5)
    return env


def steps(count: int = 45) -> Any:
    """Steps of swarm-surround in three worlds that end one after the other: action, what the Env gives for it, the Env."""
    plain = swarm()
    plain.reset(seed=5)
    plain.stagger()
    torch.manual_seed(0)
    for _ in range(count):
        action = torch.rand(3, 4, 4) * 2 - 1
        yield action, plain.step(action), plain
    plain.close()


def test_skrl_steps_are_those_of_the_env():
    inner = swarm()
    env = SkrlMultiAgentEnv(inner, states=True)
    first, _ = env.reset()
    assert list(first) == env.possible_agents == env.agents == [f"drone_{i}" for i in range(4)]
    assert (env.num_envs, env.num_agents) == (3, 4)
    inner.reset(seed=5)
    inner.stagger()
    ended = 0
    for action, (obs, reward, terminated, truncated, info), plain in steps():
        got, rewards, over, late, infos = env.step({f"drone_{i}": action[:, i] for i in range(4)})
        done = terminated | truncated
        for i, name in enumerate(env.agents):
            assert torch.equal(got[name], obs["drone"][:, i])
            assert torch.equal(rewards[name][:, 0], reward["drone"][:, i])
            assert torch.equal(over[name][:, 0], terminated)
            assert torch.equal(late[name][:, 0], truncated)
            assert torch.equal(env.state()[name], plain.state)
            assert env.observation_space(name).shape == got[name].shape[1:]
            assert env.state_space(name).shape == env.state()[name].shape[1:]
            if done.any():
                assert torch.equal(infos["final_observation"][name], info["final_observation"]["drone"][:, i])
                assert torch.equal(infos["final_state"][name][done], info["final_state"][done])
                assert torch.equal(infos["final_state"][name][~done], plain.state[~done])
        ended += int(done.sum())
    assert ended >= 3 and infos is not None
    assert env.reset()[0] is got
    assert SkrlMultiAgentEnv(swarm()).state() == dict.fromkeys(env.agents)
    with pytest.raises(RookeryError, match=r"every agent needs an action, \['drone_3'\] have none"):
        env.step({f"drone_{i}": torch.zeros(3, 4) for i in range(3)})
    env.close()


def test_torchrl_accepts_the_env():
    env = TorchRLMultiAgentEnv(swarm(), states=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env_specs(env)
    assert env.group_map == {"drone": [f"drone_{i}" for i in range(4)]}
    env.set_seed(3)
    a = env.reset()["drone", "observation"].clone()
    env.set_seed(3)
    assert torch.equal(env.reset()["drone", "observation"], a)
    mask = torch.tensor([[True], [False], [False]])
    with pytest.raises(RookeryError, match="reset all worlds"):
        env.reset(env.rand_step(env.reset()).set("_reset", mask))
    env.close()


def test_torchrl_steps_are_those_of_the_env():
    inner = swarm()
    env = TorchRLMultiAgentEnv(inner, states=True)
    data = env.reset()
    inner.reset(seed=5)
    inner.stagger()
    ended = 0
    for action, (obs, reward, terminated, truncated, info), plain in steps():
        stepped, data = env.step_and_maybe_reset(data.set(("drone", "action"), action))
        done = terminated | truncated
        after = stepped["next"]
        assert torch.equal(after["drone", "observation"], info.get("final_observation", obs)["drone"])
        assert torch.equal(after["drone", "reward"][..., 0], reward["drone"])
        for flag, want in (("terminated", terminated), ("truncated", truncated), ("done", done)):
            assert torch.equal(after[flag][:, 0], want)
            assert torch.equal(after["drone", flag][..., 0], want[:, None].expand(-1, 4))
        assert torch.equal(data["drone", "observation"], obs["drone"])
        assert torch.equal(data["state"], plain.state)
        assert torch.equal(after["state"][~done], plain.state[~done])
        if done.any():
            assert torch.equal(after["state"][done], info["final_state"][done])
        ended += int(done.sum())
    assert ended >= 3
    env.close()


def test_several_groups():
    env = SkrlMultiAgentEnv(rookery.make("dual-panda-handover", 2), states=True)
    obs, _ = env.reset()
    assert {name: o.shape[1] for name, o in obs.items()} == {"giver_0": 30, "receiver_0": 33}
    obs, reward, *_ = env.step({name: torch.zeros(2, 4) for name in env.agents})
    assert {name: o.shape for name, o in reward.items()} == {"giver_0": (2, 1), "receiver_0": (2, 1)}
    env.close()
    data = TorchRLMultiAgentEnv(rookery.make("dual-panda-handover", 2)).rollout(3)
    assert data["next", "receiver", "observation"].shape == (2, 3, 1, 33)


@pytest.mark.parametrize("adapter", [SkrlMultiAgentEnv, TorchRLMultiAgentEnv])
def test_vector_rewards_are_refused(adapter):
    with pytest.raises(RookeryError, match="weights="):
        adapter(rookery.make("swarm-surround", 1))


def test_pettingzoo_lists_only_agents_that_take_part():
    env = rookery.ParallelEnv(
        rookery.make("swarm-surround", config={"episode_s": 0.2, "fewest_drones": 2}, weights=WEIGHTS)
    )
    seen = set()
    for seed in range(12):
        obs, infos = env.reset(seed=seed)
        (active,) = env.env.active["drone"]
        part = [f"drone_{i}" for i in range(4) if active[i]]
        assert env.agents == list(obs) == list(infos) == part
        seen.add(len(part))
        while env.agents:
            live = list(env.agents)
            *given, infos = env.step({name: env.action_space(name).sample() for name in live})
            assert all(list(by_agent) == live for by_agent in (*given, infos))
            assert set(env.agents) <= set(live) <= set(part)
    assert seen == {2, 4}


def test_agents_that_take_no_part_are_terminated():
    env = swarm(fewest_drones=2)
    ends = AgentEnds(env)
    env.reset(seed=5)
    ends.reset()
    seen = set()
    for _ in range(60):
        before = env.active["drone"]
        _, _, terminated, truncated, info = env.step(torch.zeros(3, 4, 4))
        over, late = ends.step(terminated, truncated, info)["drone"]
        assert torch.equal(over[..., 0], terminated[:, None] | ~before)
        assert torch.equal(late[..., 0], truncated[:, None] & before)
        seen |= set(before.sum(1).tolist())
    assert seen == {2, 4}
    env.close()
