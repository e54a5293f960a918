"""Demonstrations in the batches of off-policy learners."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from policies_toy import ToyEnv, train

import rookery
from rookery.experiments.demonstrations import record
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.writer import Writer
from rookery.policies.storage.demonstrations import replay_of
from rookery.sim.errors import RookeryError

SHORT = {"episode_s": 0.1, "settled_s": 0.1}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Dataset:
    out = tmp_path_factory.mktemp("demos") / "hover"
    record(Path("drone-hover"), out, 3, num_envs=3, config=SHORT)
    return Dataset(out)


def test_every_transition_is_there_once_with_its_end(data):
    memory = replay_of(data, "drone", {}, CPU)
    assert memory.size == data.frames
    got = memory.take(torch.arange(data.frames), 0.9)
    start = 0
    for i in range(len(data)):
        e = data.episode(i).columns
        rows = slice(start, start + len(e["action.drone"]))
        start = rows.stop
        assert torch.equal(got.observation[rows], e["observation.drone"][:-1, 0])
        assert torch.equal(got.action[rows], e["action.drone"][:, 0])
        assert torch.equal(got.reward[rows], e["reward.drone"][:, 0])
        torch.testing.assert_close(got.discount[rows], torch.full((len(e["action.drone"]),), 0.9))
        assert torch.equal(got.terminated[rows], e["terminated"])
        assert not e["terminated"].any(), "they hover: the last observation stands for what follows"
        assert torch.equal(got.next_observation[rows], e["observation.drone"][1:, 0])
    several = memory.take(torch.arange(data.frames), 0.9, steps=4)
    length = data.episodes[0].length
    first = data.episode(0).columns
    wanted = sum(0.9**k * first["reward.drone"][length - 2 + k, 0] for k in range(2))
    torch.testing.assert_close(several.reward[length - 2], wanted)
    assert several.discount[length - 2] == pytest.approx(0.81), "the next episode is another"
    assert torch.equal(several.next_observation[length - 2], first["observation.drone"][-1, 0])


def test_rewards_are_weighed_as_in_the_training(data):
    weights = {name: 0.5 + i for i, name in enumerate(data.contract["task_config"]["reward"])}
    got = replay_of(data, "drone", weights, CPU).take(torch.arange(data.frames), 0.9).reward
    wanted = torch.cat(
        [
            sum(
                w * data.read(i, [f"reward_term.drone.{n}"])[f"reward_term.drone.{n}"][:, 0] for n, w in weights.items()
            )
            for i in range(len(data))
        ]
    )
    torch.testing.assert_close(got, wanted)
    own = replay_of(data, "drone", data.contract["task_config"]["reward"], CPU).take(torch.arange(data.frames), 0.9)
    recorded = torch.cat([data.read(i, ["reward.drone"])["reward.drone"][:, 0] for i in range(len(data))])
    torch.testing.assert_close(own.reward, recorded)


def test_the_weights_are_those_of_the_environment_that_is_learnt_in(data):
    changed = {name: 3.0 * weight for name, weight in data.contract["task_config"]["reward"].items()}
    env = rookery.make("drone-hover", 1, config=SHORT | {"reward": changed})
    got = SAC(env, SACConfig(hidden=(4,)), inputs={"dataset": data}).learners["drone"].demonstrations
    recorded = torch.cat([data.read(i, ["reward.drone"])["reward.drone"][:, 0] for i in range(len(data))])
    torch.testing.assert_close(got.take(torch.arange(data.frames), 0.9).reward, 3.0 * recorded)
    env.close()


@pytest.mark.parametrize(("cls", "config"), [(SAC, SACConfig), (TD3, TD3Config)])
@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_share_of_every_batch_is_demonstrations(data, monkeypatch, cls, config, share):
    settings = config(
        rollout_steps=2, learning_starts=2, batch=16, hidden=(4,), buffer_size=100, demonstration_share=share,
        normalize_observations=False,
    )  # fmt: skip
    env = rookery.make("drone-hover", 2, config=SHORT)
    algorithm = cls(env, settings, inputs={"dataset": data})
    learner = algorithm.learners["drone"]
    learner.compiled = None  # whose batches nobody sees; its steps are those of torch (test_sac_compiled.py)
    batches = []
    own = learner.descend
    monkeypatch.setattr(learner, "descend", lambda batch, *rest: (batches.append(batch), own(batch, *rest))[1])
    train(algorithm, env, env.reset()[0], 4)
    shown = torch.cat([data.read(i, ["action.drone"])["action.drone"][:, 0] for i in range(len(data))])
    assert len(batches) == 8
    for batch in batches:
        known = (batch.action[:, None] == shown).all(-1).any(1)
        assert known.sum() == round(share * 16)
    assert all(torch.isfinite(p).all() for p in learner.actor.parameters())
    env.close()


def test_the_normalizer_begins_with_the_demonstrations(data):
    env = rookery.make("drone-hover", 1, config=SHORT)
    observed = torch.cat([data.read(i, ["observation.drone"])["observation.drone"][:-1, 0] for i in range(len(data))])
    learner = SAC(env, SACConfig(hidden=(4,)), inputs={"dataset": data}).learners["drone"]
    torch.testing.assert_close(learner.norm.mean, observed.mean(0), rtol=1e-4, atol=1e-5)
    plain = SAC(env, SACConfig(hidden=(4,), normalize_observations=False), inputs={"dataset": data}).learners["drone"]
    assert (plain.norm.mean == 0).all()
    env.close()


def test_a_resume_is_bit_equal(data):
    def make() -> SAC:
        config = SACConfig(rollout_steps=2, learning_starts=2, batch=8, hidden=(4,), buffer_size=100)
        return SAC(rookery.make("drone-hover", 2, config=SHORT), config, inputs={"dataset": data})

    sac = make()
    obs, _ = train(sac, sac.env, sac.env.reset()[0], 3)
    other = make()
    other.load_state_dict({k: v.clone() for k, v in sac.state_dict().items()})
    other.env.reset()
    other.env.load_state_dict(sac.env.state_dict())
    ends = [train(s, s.env, {k: v.clone() for k, v in obs.items()}, 3)[1] for s in (sac, other)]
    assert ends[0] == ends[1]


def test_demonstrations_of_something_else_are_refused(data):
    with pytest.raises(RookeryError, match="group"):
        SAC(ToyEnv(), SACConfig(hidden=(4,)), inputs={"dataset": data})
    env = rookery.make("drone-hover", 1, config=SHORT | {"num_drones": 2})
    with pytest.raises(RookeryError, match="train with the config that they were recorded with"):
        SAC(env, SACConfig(hidden=(4,)), inputs={"dataset": data})
    env.close()
    without = Dataset(data.folder)
    del without.columns["reward.drone"]
    with pytest.raises(RookeryError, match="has no rewards of group 'drone'"):
        replay_of(without, "drone", {}, CPU)
    vector = Dataset(data.folder)
    vector.columns["reward.drone"] = replace(vector.columns["reward.drone"], shape=(1, 2))
    with pytest.raises(RookeryError, match="vector reward"):
        replay_of(vector, "drone", {}, CPU)
    with pytest.raises(RookeryError, match="demonstration_share"):
        SACConfig(demonstration_share=1.5)


@pytest.mark.parametrize("terminated", [False, True])
def test_agents_that_drop_out_of_demonstrations_have_nothing_after(tmp_path, terminated):
    """Of two drones the second takes part in the first 4 of 10 steps; the episode is cut off, or terminates."""
    record(Path("drone-hover"), tmp_path / "two", 1, num_envs=1, config=SHORT | {"num_drones": 2})
    data = Dataset(tmp_path / "two")
    e = data.episode(0)
    active = torch.ones(10, 2, dtype=torch.bool)
    active[4:, 1] = False
    last = torch.arange(10) == 9
    ends = {"terminated": last & terminated, "truncated": last & (not terminated)}
    with Writer(tmp_path / "out", data.contract, data.recording) as writer:
        writer.add(replace(e, columns=e.columns | ends | {"active.drone": active}))
    memory = replay_of(Dataset(tmp_path / "out"), "drone", {}, CPU)
    got = memory.take(torch.arange(20), 0.9)
    over, taking_part = got.terminated.view(10, 2), got.active.view(10, 2)
    assert torch.equal(taking_part, active)
    assert over[:, 0].tolist() == [False] * 9 + [terminated]
    assert over[:4, 1].tolist() == [False] * 3 + [True], "nothing follows the last step that it takes part in"
    shown = got.next_observation.view(10, 2, -1)[9, 0]
    assert terminated or torch.equal(shown, e.columns["observation.drone"][-1, 0])
    (batch,) = Dataset(tmp_path / "out").transitions(100, shuffle=False)
    whole = [(t, a) for t in range(10) for a in range(2) if active[t, a]]
    assert (batch.terminated if terminated else batch.truncated).tolist() == [t == 9 for t, _ in whole]
    assert torch.equal(batch.action, torch.stack([e.columns["action.drone"][t, a] for t, a in whole]))
