"""`rookery.isaacgym.make` over Rookery's tasks: the interface of isaacgymenvs' VecTask, and values against the Env itself."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

import rookery
from rookery import isaacgym
from rookery.sim.adapters.isaacgym.rookery_task import RookeryVecTask
from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ObservationSet
from rookery.tasks.drones.hover import Hover

SHORT = {"rookery": {"config": {"episode_s": 0.2}}}  # 20 control steps


def hover(num_envs: int = 3, **env: object) -> RookeryVecTask:
    made = isaacgym.make(seed=4, task="drone-hover", num_envs=num_envs, headless=True, cfg=SHORT | {"env": env})
    assert isinstance(made, RookeryVecTask)
    return made


def test_make_has_the_arguments_of_isaacgymenvs():
    assert list(inspect.signature(isaacgym.make).parameters) == [
        "seed", "task", "num_envs", "sim_device", "rl_device", "graphics_device_id", "headless", "multi_gpu",
        "virtual_screen_capture", "force_render", "cfg",
    ]  # fmt: skip


def test_attributes_and_buffers():
    task = hover()
    assert (task.num_envs, task.num_environments, task.num_agents) == (3, 3, 1)
    assert (task.num_acts, task.num_actions) == (4, 4)
    size = task.num_obs
    assert task.num_observations == size > 0
    assert task.num_states == 0
    assert task.observation_space == task.obs_space == Box(-np.inf, np.inf, (size,), np.float32)
    assert task.action_space == task.act_space == Box(-1.0, 1.0, (4,), np.float32)
    assert (task.device, task.rl_device, task.headless) == ("cpu", "cpu", True)
    assert (task.control_freq_inv, task.clip_obs, task.clip_actions) == (1, np.inf, np.inf)
    assert (task.total_train_env_frames, task.control_steps, task.max_episode_length) == (0, 0, 20)
    assert task.obs_buf.shape == (3, size)
    assert task.states_buf.shape == (3, 0)
    assert task.rew_buf.shape == (3,)
    for name in ("reset_buf", "timeout_buf", "progress_buf", "randomize_buf"):
        assert getattr(task, name).dtype is torch.long, name
        assert getattr(task, name).shape == (3,), name
    assert torch.equal(task.zero_actions(), torch.zeros(3, 4))
    task.set_train_info(1234, "algorithm")
    assert task.total_train_env_frames == 1234
    task.close()


def test_steps_are_those_of_the_env():
    task = hover()
    plain = rookery.make("drone-hover", 3, seed=4, config={"episode_s": 0.2})
    want, _ = plain.reset()
    assert torch.equal(task.reset()["obs"], want["drone"][:, 0])
    assert torch.equal(task.reset()["obs"], want["drone"][:, 0])  # reset only observes
    torch.manual_seed(0)
    for i in range(45):
        action = torch.rand(3, 4) * 2 - 1
        obs, reward, reset, extras = task.step(action)
        new, r, terminated, truncated, info = plain.step(action[:, None])
        assert torch.equal(obs["obs"], new["drone"][:, 0])
        assert torch.equal(reward, r["drone"][:, 0])
        assert torch.equal(reset, (terminated | truncated).long())
        assert torch.equal(extras["time_outs"], truncated)
        assert torch.equal(task.timeout_buf, truncated.long())
        assert torch.equal(task.progress_buf, plain.steps)
        assert task.control_steps == i + 1
        if reset.any():
            ended = reset.bool()
            assert torch.equal(extras["final_observation"][ended], info["final_observation"]["drone"][ended, 0])
            assert torch.equal(task.reset_done()[1], ended.nonzero().flatten())
            assert extras["episode"]["length"] == pytest.approx(float(info["episode"]["length"].float().mean()))
        else:
            assert "final_observation" not in extras
    task.close()
    plain.close()


def test_clips():
    task = hover(clipObservations=0.25, clipActions=0.0)
    still = hover()
    obs, *_ = task.step(torch.ones(3, 4))
    same, *_ = still.step(torch.zeros(3, 4))
    assert torch.equal(obs["obs"], same["obs"].clamp(-0.25, 0.25))
    assert obs["obs"].abs().max() == 0.25
    task.close()
    still.close()


def test_states_of_asymmetric_critics():
    task = hover(asymmetric_observations=True)
    obs, *_ = task.step(task.zero_actions())
    assert torch.equal(obs["states"], task.env.state)
    assert task.num_states == task.env.state_size == obs["states"].shape[1]
    task.close()


class WithCritic(Hover):
    """Hover with an observation set for the critic."""

    def groups(self):
        group = super().groups()["drone"]
        first = ObservationSet((replace(group.observation[0], scale=3.0),), history=2)
        return {"drone": replace(group, observation_sets={"critic": first})}


def test_states_are_the_critics_observation_set():
    own = WithCritic()
    env = VecEnv(own, make_world("rotor", own.scene(), 2), task_id="with-critic")
    task = RookeryVecTask(env, {}, rl_device="cpu", sim_device="cpu")
    obs = task.reset()
    assert task.num_states == env.groups["drone"].observation_sets["critic"].size
    assert torch.equal(obs["states"], env.observation_set("critic")["drone"][:, 0])
    task.close()


def test_agents_are_rows():
    task = isaacgym.make(seed=0, task="drone-swap", num_envs=12)
    plain = rookery.make("drone-swap", 2, seed=0)
    obs, _ = plain.reset()
    assert (task.num_envs, task.agents_per_world) == (12, 6)
    assert torch.equal(task.reset()["obs"], obs["drone"].reshape(12, -1))
    action = torch.linspace(-1.0, 1.0, 48).view(12, 4)
    got, reward, reset, extras = task.step(action)
    new, r, *_ = plain.step(action.view(2, 6, 4))
    assert torch.equal(got["obs"], new["drone"].reshape(12, -1))
    assert torch.equal(reward, r["drone"].flatten())
    assert reset.shape == extras["time_outs"].shape == (12,)
    task.close()
    plain.close()


def test_number_of_agents_may_come_from_the_config():
    task = isaacgym.make(task="drone-hover", num_envs=6, cfg={"rookery": {"config": {"num_drones": 2}}})
    assert (task.num_envs, task.env.num_envs) == (6, 3)
    task.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "drone-hoover"}, "did you mean 'drone-hover'"),
        ({"task": "drone-swap", "num_envs": 8}, "multiple of 6"),
        ({"task": "dual-panda-handover"}, "groups .*VecTask knows one"),
        ({"task": "swarm-surround", "num_envs": 4}, "vector reward"),
        ({"task": "drone-hover", "rl_device": "gpu7x"}, "rl_device must be a torch device"),
        ({"task": "drone-hover", "num_envs": 0}, "num_envs must be at least 1"),
        ({"task": "drone-hover", "cfg": [1]}, "cfg must be a dict"),
        ({"task": "drone-hover", "cfg": {"env": {"numActions": 12}}}, "numActions.* is 12 and drone-hover has 4"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(RookeryError, match=message):
        isaacgym.make(**{"num_envs": 1} | arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_that_is_not_here_is_said_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task = isaacgym.make(task="drone-hover", num_envs=2, sim_device="cuda:0", rl_device="cuda:0")
        obs, *_ = task.step(task.zero_actions())
    assert [str(w.message) for w in caught] == [
        "sim_device=cuda:0 and rl_device=cuda:0: the cpu is used, since there is no CUDA device."
    ]
    assert obs["obs"].device.type == task.rl_device == "cpu"
    task.close()


def test_env_state_goes_on_exactly():
    task = hover()
    for _ in range(7):
        task.step(torch.full((3, 4), 0.1))
    kept = task.get_env_state()
    want = [task.step(torch.full((3, 4), -0.1)) for _ in range(20)]
    wanted = [(o["obs"].clone(), r.clone()) for o, r, _, _ in want[-1:]]
    other = hover()
    other.set_env_state(kept)
    other.set_env_state(None)
    for _ in range(20):
        got = other.step(torch.full((3, 4), -0.1))
    assert torch.equal(got[0]["obs"], wanted[0][0])
    assert torch.equal(got[1], wanted[0][1])
    assert torch.equal(other.progress_buf, task.progress_buf)
    task.close()
    other.close()


def test_reset_idx_takes_all_worlds():
    task = hover()
    task.step(task.zero_actions())
    task.reset_idx(torch.arange(3))
    assert task.progress_buf.tolist() == [0, 0, 0]
    with pytest.raises(RookeryError, match="takes all 3"):
        task.reset_idx(torch.tensor([1]))
    with pytest.raises(RookeryError, match="takes all 3 environments, got 1"):
        task.reset_idx(torch.tensor([0, 0, 0]))
    with pytest.raises(RookeryError, match="reset_idx takes indices from 0 to 2, got 3"):
        task.reset_idx(torch.arange(1, 4))
    task.apply_randomizations({})
    with pytest.raises(RookeryError, match="no counterpart"):
        task.apply_randomizations({"observations": {}})
    task.close()


@pytest.mark.parametrize("action", [torch.zeros(3, 5), torch.zeros(4), "up"])
def test_actions_of_another_shape(action):
    task = hover()
    with pytest.raises(RookeryError, match="actions must"):
        task.step(action)
    task.close()


def test_a_config_of_isaacgymenvs_may_have_a_section_task():
    """As Ant.yaml has it, for randomization."""
    own = {"env": {"clipObservations": 0.25, "numEnvs": 2}, "task": {"randomize": False}}
    task = isaacgym.make(task="drone-hover", cfg=own | SHORT)
    assert (task.num_envs, task.clip_obs, task.max_episode_length) == (2, 0.25, 20)
    assert task.cfg["task"] == {"randomize": False}
    task.close()
    whole = isaacgym.make(task="drone-hover", num_envs=3, cfg={"task": own, "seed": 4} | SHORT)
    assert (whole.num_envs, whole.clip_obs, whole.max_episode_length) == (3, 0.25, 20)
    whole.close()


@pytest.mark.parametrize("name", ["controlFrequencyInv", "numAgents"])
def test_what_the_task_decides_is_not_taken(name):
    with pytest.raises(RookeryError, match=f"{name}.* is 2 and drone-hover has 1: leave it out"):
        hover(**{name: 2})


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        ({"env": None}, r'cfg\["env"\] must be a dict, got None'),
        ({"rookery": 3}, r'cfg\["rookery"\] must be a dict, got 3'),
        ({"env": {"clipObservations": "x"}}, r'cfg\["env"\]\["clipObservations"\] must be a number of at least 0'),
        ({"env": {"clipActions": -1.0}}, r'cfg\["env"\]\["clipActions"\] must be a number of at least 0'),
    ],
)
def test_broken_configs_are_one_sentence(cfg, message):
    with pytest.raises(RookeryError, match=message):
        isaacgym.make(task="drone-hover", cfg=cfg)
