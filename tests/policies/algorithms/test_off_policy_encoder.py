"""SAC and TD3 with an encoder of pictures: what trains it, targets, shifts, resume, policies; and that it learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from policies_drive import Drive
from policies_fake import FakeEnv
from policies_spot import COLUMNS, ROWS, SpotEnv
from sampled import slow_but

from rookery.policies.algorithms.chains import pictures_in
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.nn.features import Features
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.policies.training.store import load_policy, save_policy
from rookery.sim.errors import RookeryError

COMMON: dict[str, Any] = {
    "rollout_steps": 4, "learning_starts": 64, "batch": 24, "buffer_size": 400, "hidden": (16,), "learning_rate": 3e-3,
    "policy_every": 1, "encoder": "cnn", "encoder_channels": (4, 6), "encoder_kernels": (3, 2), "encoder_strides": (2, 1),
}  # fmt: skip
KINDS = [(SAC, SACConfig), (TD3, TD3Config)]
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "history": ({"picture_shift": 1}, {"history": 2, "channels": 2}),
    "cameras": ({"critic": "central"}, {"cameras": 2, "agents": 2}),
    "memory": ({"memory": "gru", "memory_size": 5, "memory_steps": 6, "memory_burn_in": 2}, {}),
}


BOTH = pytest.mark.parametrize(
    ("name", "kind"),
    slow_but(
        [("plain", 1), ("history", 0), ("cameras", 1), ("memory", 0)],
        [(name, kind) for name in CASES for kind in (0, 1)],
    ),
)


def made(name: str = "plain", kind: int = 0, updates: int = 4, seed: int = 1) -> tuple[Any, Drive]:
    algorithm, config = KINDS[kind]
    changes, options = CASES[name]
    out = algorithm(SpotEnv(8, **options), config(**COMMON, **changes), seed)
    drive = Drive(out)
    if updates:
        drive.iterate(updates)
    return out, drive


def weights(module: torch.nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in module.parameters()]


@BOTH
def test_the_critics_loss_alone_trains_the_encoder(name: str, kind: int) -> None:
    """With critics' rates of zero a gradient step leaves it as it is and moves the policy; with the policy's it moves."""
    for moving, still in (("actor", "critics"), ("critics", "actor")):
        out, _ = made(name, kind)
        learner = out.learners["eye"]
        learner.optimizers[still].param_groups[0]["lr"] = 0.0
        networks = {"actor": (learner.actor, learner.actor_features), "critics": (learner.critics, learner.features)}
        before = {key: [w for n in pair for w in weights(n)] for key, pair in networks.items()}
        learner.learn(*learner.draw(1, out._generator), out._generator)
        after = {key: [w for n in pair for w in weights(n)] for key, pair in networks.items()}
        assert all(torch.equal(a, b) for a, b in zip(before[still], after[still], strict=True))
        assert all(not torch.equal(a, b) for a, b in zip(before[moving], after[moving], strict=True))
        assert len(list(learner.features.encoder.parameters())) == 4 * len(pictures_in(learner.encoder).pictures)


@pytest.mark.parametrize("kind", [0, 1])
def test_critics_see_through_their_encoder_and_targets_through_its_slow_copy(kind: int) -> None:
    out, _ = made(kind=kind)
    learner = out.learners["eye"]
    number = learner.replay.draw(24, out._generator)
    batch = learner._batch(number, out._generator)
    noise = torch.randn(learner.NOISES, 24, 1, generator=out._generator)
    fast, slow = weights(learner.features.encoder), weights(learner.target_features.encoder)
    assert all((a - b).abs().max() > 1e-6 for a, b in zip(fast, slow, strict=True))
    obs, after = learner.norm.normalize(batch.observation), learner.norm.normalize(batch.next_observation)
    action, bonus = learner.next_action(learner.features.encoder(after), noise[0])
    q = learner.targets(torch.cat((learner.target_features.encoder(after), action), -1)).squeeze(-1).amin(0)
    target = batch.reward + batch.discount * (q + bonus)
    torch.testing.assert_close(learner.target_values(batch, noise[0])[0], target.detach())
    values = learner.critics(torch.cat((learner.features.encoder(obs), batch.action), -1)).squeeze(-1)
    loss = 0.5 * (values - target.detach()).square().sum(0).mean()
    wanted = torch.autograd.grad(loss, list(learner.features.parameters()))
    learner.set_learning_rate(0.0)
    assert learner.descend(batch, noise)[0].item() == pytest.approx(loss.item(), rel=1e-5)
    for p, gradient in zip(learner.features.parameters(), wanted, strict=True):
        torch.testing.assert_close(p.grad, gradient, rtol=1e-4, atol=1e-7)


@BOTH
def test_the_deployed_policy_is_the_one_that_was_trained(name: str, kind: int, tmp_path: Any) -> None:
    out, drive = made(name, kind)
    learner = out.learners["eye"]
    obs = drive.obs["eye"]
    save_policy(tmp_path, out.policies(), {"groups": {"eye": {}}})
    policy = load_policy(tmp_path)[0]["eye"]
    state = policy.initial_state(*obs.shape[:2]) if learner.live is None else learner.live.now[..., :5].clone()
    wanted = learner.actor(learner.features_now(obs))[0][:, :1].tanh()
    action, _ = policy.step(obs, state)
    torch.testing.assert_close(action.flatten(0, 1), wanted, rtol=1e-4, atol=1e-5)
    assert action.std() > 1e-4


@BOTH
def test_a_run_continues_to_the_bit(name: str, kind: int) -> None:
    one, drive = made(name, kind)
    other, _ = made(name, kind, 0, seed=2)
    other.load_state_dict({k: v.clone() for k, v in one.state_dict().items()})
    other.env.reset()
    other.env.load_state_dict(one.env.state_dict())
    again = Drive(other)
    again.obs = {k: v.clone() for k, v in drive.obs.items()}
    assert drive.iterate(3) == again.iterate(3)
    mine, theirs = one.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys() and all(torch.equal(mine[k], theirs[k]) for k in mine)


def test_pixels_are_normalized_by_common_statistics() -> None:
    norm = made()[0].learners["eye"].norm
    assert len(norm.mean[1 : 1 + ROWS * COLUMNS].unique()) == 1 and len(norm.std.unique()) == 4


def test_pictures_are_shifted_and_edges_repeated() -> None:
    """Of pictures that give the place of each pixel, all frames of a row show the same window; numbers stay."""
    changes, options = CASES["history"]
    learner = SAC(SpotEnv(8, **options), SACConfig(**COMMON, **changes | {"picture_shift": 2})).learners["eye"]
    out, drive = made("history")
    batch = out.learners["eye"]._drawn(torch.arange(24), out._generator)
    place = torch.stack(torch.meshgrid(torch.arange(6.0), torch.arange(12.0), indexing="ij"), -1)
    numbers = []
    for rows in (batch.observation, batch.next_observation):
        frames = rows.view(24, 2, -1)
        frames[:, :, 1:-2] = place.flatten()
        numbers.append(frames[:, :, [0, -2, -1]].clone())
    learner._shift.turn(batch, out._generator)
    moved = []
    for rows, kept in zip((batch.observation, batch.next_observation), numbers, strict=True):
        frames = rows.view(24, 2, -1)
        assert torch.equal(frames[:, :, [0, -2, -1]], kept)
        pictures = frames[:, :, 1:-2].view(24, 2, 6, 12, 2)
        shift = pictures[:, 0, 3, 6] - torch.tensor([3.0, 6.0])
        wanted = (place + shift[:, None, None]).clamp(torch.zeros(2), torch.tensor([5.0, 11.0]))
        assert torch.equal(pictures, wanted[:, None].expand_as(pictures))
        moved.append(shift)
    assert not torch.equal(*moved)
    found = torch.cat(moved)
    assert found.abs().max() == 2.0 and len(found.unique(dim=0)) > 12
    assert drive.obs is not None


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "config"), KINDS)
def test_it_learns_where_the_column_stands(algorithm: Any, config: Any) -> None:
    settings = COMMON | {"batch": 128, "buffer_size": 20_000, "gamma": 0.1, "tau": 0.05, "updates_per_step": 2.0}
    more = {"initial_temperature": 0.05} if algorithm is SAC else {"exploration_noise": 0.3}
    out = algorithm(SpotEnv(64), config(**{**settings, **more, "learning_starts": 1024, "hidden": (32, 32)}), seed=1)
    env = SpotEnv(64, seed=5)
    before = evaluate(env, act_with(out.policies(), env), 64)["success_rate"]
    Drive(out).iterate(120)
    after = evaluate(env, act_with(out.policies(), env), 256)["success_rate"]
    assert before < 0.5 < 0.8 < after, (before, after)


def test_where_there_is_no_picture_an_encoder_is_refused() -> None:
    with pytest.raises(RookeryError, match=r"encoder=cnn needs pictures, and this task observes none \(state\)"):
        SAC(FakeEnv(8), SACConfig(**COMMON))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mirror": True}, "mirror is for networks without encoder: give mirror=false, or encoder=none"),
        ({"critic_batch_norm": True}, "critic_batch_norm is for networks without encoder"),
        ({"encoder_strides": (2,)}, "one number for each convolution"),
        ({"picture_shift": -1}, "picture_shift"),
        ({"memory": "gru", "memory_steps": 6, "picture_shift": 2}, "picture_shift is for networks without memory"),
    ],
)
def test_settings_that_do_not_go_together(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        SACConfig(**{**COMMON, **changes})


def test_features_of_an_encoder_are_what_it_gives() -> None:
    learner = made()[0].learners["eye"]
    assert isinstance(learner.features, Features) and learner.features.size == 3 + pictures_in(learner.encoder).outputs
    assert not SACConfig(**COMMON).in_kernel and learner.compiled is None
