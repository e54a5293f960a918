"""Two learners with half of the worlds each equal one with all of them: gradients, statistics, the adaptive learning rate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from decay import LENGTH, Decay
from policies_fake import FakeEnv
from policies_toy import ToyEnv, collect, train
from sampled import slow_but
from together import at_once, together

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.imitation.dagger import DAgger, DAggerConfig
from rookery.policies.imitation.teacher import ControllerTeacher
from rookery.policies.training.reduction import ALONE
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig

HALVES = (slice(0, 3), slice(3, 6))


def decays(drop: int) -> list[Decay]:
    """One environment of six worlds, and two with three of them each."""
    whole = Decay(agents=2, worlds=6, drop=drop)
    parts = []
    for half in HALVES:
        part = Decay(agents=2, worlds=3, drop=drop)
        part.start = whole.start[half].clone()
        parts.append(part)
    return [whole, *parts]


BASE = PPOConfig(
    rollout_steps=LENGTH + 2,
    minibatches=3,
    epochs=3,
    hidden=(16,),
    entropy_coef=0.01,
    target_kl=1e-3,
    learning_rate=3e-3,
)
CASES = {
    "torch": replace(BASE, compiled=False),
    "compiled": BASE,
    "central": replace(BASE, critic="central"),
    "own weights": replace(BASE, share=False),
    "memory": replace(BASE, memory="gru", memory_size=8),
    "reference": replace(BASE, reference_kl_coef=0.1),
    "plain": replace(BASE, normalize_values=False, normalize_observations=False, schedule="fixed"),
}


@pytest.mark.parametrize(
    ("case", "drop"),
    slow_but(
        [("torch", 0), ("central", LENGTH), *((case, 3) for case in CASES)],
        [(case, drop) for case in CASES for drop in (0, 3, LENGTH)],
    ),
)
def test_two_halves_of_ppo_equal_the_whole(case, drop):
    config = CASES[case]
    whole, *parts = (PPO(env, config, seed=1) for env in decays(drop))
    for part, reduction in zip(parts, together(2), strict=True):
        part.share(reduction)
    obs = [a.env.reset()[0] for a in (whole, *parts)]
    rates = []
    for _ in range(4):
        obs = [collect(a, a.env, o, a.rollout_steps) for a, o in zip((whole, *parts), obs, strict=True)]
        want = whole.update(0.0)
        found = at_once(*(lambda p=p: p.update(0.0) for p in parts))
        for figures in found:
            for name, value in want.items():
                assert figures[name] == pytest.approx(value, rel=2e-3, abs=2e-5), name
        mine, *theirs = (a.learners["agent"].state_dict() for a in (whole, *parts))
        for name, value in mine.items():
            if name.startswith("memory") or name == "threads":
                continue
            assert torch.equal(theirs[0][name], theirs[1][name]), name
            torch.testing.assert_close(theirs[0][name], value, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
        rates.append(want["agent/learning_rate"])
    assert config.schedule == "fixed" or len(set(rates)) > 1, "the rate has adapted"
    for ppo in (whole, *parts):
        ppo.close()


def test_an_algorithm_that_learns_in_one_process_is_not_shared():
    """DAgger, whose worlds would teach each process another policy."""
    dagger = DAgger(ToyEnv(4), DAggerConfig(hidden=(8,)), inputs={"teacher": ControllerTeacher(lambda obs: obs)})
    dagger.share(ALONE)
    with pytest.raises(ValueError, match="DAgger learns in one process, not in 2"):
        dagger.share(together(2)[0])


@pytest.mark.parametrize("make", [lambda: PPO(ToyEnv(4, agents=2, drop_out=True), PPOConfig(rollout_steps=8, hidden=(8,))),
    lambda: SAC(ToyEnv(4), SACConfig(rollout_steps=4, learning_starts=16, batch=8, buffer_size=400, hidden=(8,))),
])  # fmt: skip
def test_one_process_is_as_if_there_were_none(make):
    one, other = make(), make()
    other.share(ALONE)
    obs = [a.env.reset(seed=1)[0] for a in (one, other)]
    figures = [train(a, a.env, o, 4)[1] for a, o in zip((one, other), obs, strict=True)]
    assert figures[0] == figures[1]
    mine, its = one.state_dict(), other.state_dict()
    assert all(torch.equal(mine[k], its[k]) for k in mine)
    x = torch.ones(3)
    assert ALONE.sum(x) is x and ALONE.max(x) is x


def test_runners_stop_together_and_the_first_alone_writes(tmp_path: Path):
    config = PPOConfig(rollout_steps=8, minibatches=2, hidden=(8,))
    runners = []
    seen: list[list[int]] = [[], []]
    for rank, reduction in enumerate(together(2)):
        algorithm = PPO(FakeEnv(4, seed=rank), config, seed=3)
        total = RunnerConfig(total_steps=200 if rank == 0 else 10**6)
        between = lambda r, s=seen[rank]: s.append(r.iteration)  # noqa: E731
        runners.append(Runner(algorithm, total, tmp_path / str(rank), reduction=reduction, between=between))
    stops = at_once(*(lambda r=r: r.run(lambda row: None) for r in runners))
    assert stops == ["steps", "steps"]
    assert [r.steps for r in runners] == [256, 256], "32 steps of each process an iteration"
    assert seen == [[1, 2, 3, 4], [1, 2, 3, 4]]
    assert (tmp_path / "0" / "checkpoints").is_dir() and not (tmp_path / "1").exists()
    first, second = (r.algorithm.learners["point"] for r in runners)
    assert torch.equal(first.parameters, second.parameters)
    assert not torch.equal(first.rollout.noise, second.rollout.noise), "they explore differently"
