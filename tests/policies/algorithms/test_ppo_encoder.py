"""PPO with an encoder of pictures: it learns from them, its policies act as its networks do, and it continues to the bit."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from policies_drive import Drive
from policies_fake import FakeEnv
from policies_spot import COLUMNS, ROWS, SpotEnv

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.policies.training.store import load_policy, save_policy
from rookery.policies.training.warm_start import warm_start
from rookery.sim.errors import RookeryError

BASE = PPOConfig(
    rollout_steps=8, epochs=2, minibatches=2, hidden=(16,), schedule="fixed", encoder="cnn", encoder_channels=(4, 6),
    encoder_kernels=(3, 2), encoder_strides=(2, 1),
)  # fmt: skip
REMEMBERS = dataclasses.replace(BASE, memory="gru", memory_size=6)
CASES = {
    "plain": (BASE, {}),
    "own weights": (dataclasses.replace(BASE, share=False), {"agents": 2}),
    "cameras": (BASE, {"cameras": 2, "channels": 3}),
    "history": (dataclasses.replace(BASE, actor_frames=2), {"history": 3}),
    "central": (dataclasses.replace(BASE, critic="central"), {"agents": 2}),
    "memory": (dataclasses.replace(REMEMBERS, critic="central"), {"history": 2}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_deployed_policy_is_the_one_that_was_trained(name, tmp_path):
    config, options = CASES[name]
    ppo = PPO(SpotEnv(8, **options), config)
    drive = Drive(ppo)
    before = ppo.learners["eye"].parameters.clone()
    drive.iterate(2)
    learner = ppo.learners["eye"]
    assert not learner.compiled and (learner.parameters != before).float().mean() > 0.9
    obs = drive.obs["eye"]
    state = None if learner.memory is None else learner.memory.actor.clone()
    seen = learner.observations.normalize(obs)[..., -learner.actor_inputs :]
    wanted = learner.mean_action(seen).clamp(-1.0, 1.0)
    save_policy(tmp_path, ppo.policies(), {"groups": {name: {} for name in ppo.policies()}})
    policies, _ = load_policy(tmp_path)
    for g, policy in enumerate(policies.values()):
        if state is not None:
            action = policy.step(obs, state[0].view(8, 1, -1))[0]
        else:
            action = policy(obs if learner.sets == 1 else obs[:, g])
        torch.testing.assert_close(action, wanted if learner.sets == 1 else wanted[:, g], rtol=1e-4, atol=1e-5)
    assert action.std() > 1e-4


@pytest.mark.parametrize("name", ["plain", "history", "memory"])
def test_a_run_continues_to_the_bit(name):
    config, options = CASES[name]
    one, other = (PPO(SpotEnv(8, **options), config, seed) for seed in (1, 2))
    drive = Drive(one)
    drive.iterate(2)
    other.load_state_dict({k: v.clone() for k, v in one.state_dict().items()})
    other.env.reset()
    other.env.load_state_dict(one.env.state_dict())
    again = Drive(other)
    again.obs = {k: v.clone() for k, v in drive.obs.items()}
    for d in (drive, again):
        d.iterate(3)
    mine, theirs = one.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys() and all(torch.equal(mine[k], theirs[k]) for k in mine)


def test_pixels_are_normalized_by_common_statistics():
    ppo = PPO(SpotEnv(8), BASE)
    drive = Drive(ppo)
    drive.collect()
    seen = ppo.learners["eye"].rollout.observation.clone()  # with mean 0 and standard deviation 1 at first
    ppo.update(0.0)
    norm = ppo.learners["eye"].observations
    pixels = slice(1, 1 + ROWS * COLUMNS)
    assert len(norm.mean[pixels].unique()) == 1 and len(norm.std.unique()) == 4
    torch.testing.assert_close(norm.mean[1], seen[..., pixels].mean(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(norm.std[1], seen[..., pixels].std(correction=0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(norm.std[0], seen[..., 0].std(correction=0), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_it_learns_where_the_column_stands():
    config = dataclasses.replace(BASE, minibatches=4, epochs=4, learning_rate=3e-3, gamma=0.0, lam=0.0, initial_std=0.3)
    ppo = PPO(SpotEnv(64, cameras=2), config, seed=1)
    env = SpotEnv(64, cameras=2, seed=5)
    before = evaluate(env, act_with(ppo.policies(), env), 64)["success_rate"]
    Drive(ppo).iterate(24)
    after = evaluate(env, act_with(ppo.policies(), env), 64)["success_rate"]
    assert before < 0.5 < 0.9 < after, (before, after)


# Taking over


@pytest.mark.parametrize("name", ["plain", "history", "cameras"])
def test_another_training_starts_from_it(name):
    config, options = CASES[name]
    old = PPO(SpotEnv(8, **options), config)
    Drive(old).iterate(3)
    policy = old.policies()["eye"]
    group = old.learners["eye"].spec
    env = SpotEnv(8, **options)
    number, picture, more = group.observation
    half = dataclasses.replace(picture, scale=0.5)
    env.groups = {"eye": dataclasses.replace(group, observation=(more, half, number))}
    new = PPO(env, config, 5)
    warm_start(new, {"eye": policy}, {"eye": group})
    obs = torch.randn(50, group.history, group.frame_size)
    sizes = [number.size, picture.size, more.size]
    a, b, c = obs.split(sizes, 2)
    mine = new.policies()["eye"](torch.cat((c, 0.5 * b, a), 2).flatten(1))
    torch.testing.assert_close(mine, policy(obs.flatten(1)), rtol=1e-4, atol=1e-5)
    assert mine.std() > 1e-4


@pytest.mark.parametrize(
    ("stored", "own", "options", "message"),
    [
        (BASE, dataclasses.replace(BASE, encoder="none"), {}, "has an encoder of pictures, and this one none"),
        (dataclasses.replace(BASE, encoder="none"), BASE, {}, "has no encoder of pictures, and this one has"),
        (BASE, dataclasses.replace(BASE, encoder_channels=(4, 5)), {}, "give the same"),
        (BASE, BASE, {"cameras": 2}, "give the same"),
        (BASE, BASE, {"history": 2}, "as many frames"),
    ],
)
def test_what_cannot_be_taken_over(stored, own, options, message):
    old = PPO(SpotEnv(8), stored)
    with pytest.raises(RookeryError, match=message):
        warm_start(PPO(SpotEnv(8, **options), own), old.policies(), {"eye": old.learners["eye"].spec})


def test_without_a_normalizer_pictures_are_taken_over_as_they_are():
    plain = dataclasses.replace(BASE, normalize_observations=False)
    old = PPO(SpotEnv(8), plain)
    Drive(old).iterate(3)
    policy = old.policies()["eye"]
    group = old.learners["eye"].spec
    policy.get_buffer("normalize.mean")[0] = 0.3  # numbers may have one, which the first layer takes in
    policy.get_buffer("normalize.std")[0] = 2.0
    new = PPO(SpotEnv(8), plain, 5)
    warm_start(new, {"eye": policy}, {"eye": group})
    obs = torch.randn(50, group.frame_size)
    torch.testing.assert_close(new.policies()["eye"](obs), policy(obs), rtol=1e-4, atol=1e-5)
    policy.get_buffer("normalize.std")[1] = 2.0
    with pytest.raises(RookeryError, match="normalizes its pictures, and this one does not"):
        warm_start(new, {"eye": policy}, {"eye": group})


# Refusals


def test_where_there_is_no_picture_an_encoder_is_refused():
    with pytest.raises(RookeryError, match=r"encoder=cnn needs pictures, and this task observes none \(state\)"):
        PPO(FakeEnv(8), BASE)


def test_a_picture_that_is_too_small_is_refused():
    config = dataclasses.replace(BASE, encoder_kernels=(8, 4), encoder_strides=(4, 2))
    with pytest.raises(RookeryError, match="6 rows and 12 columns is too small for the encoder: convolution 1"):
        PPO(SpotEnv(8), config)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mirror": True, "normalize_observations": False}, "encoder=none"),
        ({"encoder_strides": (2,)}, "one number for each convolution"),
        ({"encoder_kernels": (0, 2)}, "encoder_kernels"),
        ({"encoder": "transformer"}, "encoder 'transformer'"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(RookeryError, match=message):
        dataclasses.replace(BASE, **settings)
