"""What replay memories take, against what is allocated; what of them is in bytes; and the refusal of more than there is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from policies_spot import SpotEnv
from policies_toy import collect

from rookery.making import make
from rookery.policies.algorithms import off_policy_storage
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.storage.free_memory import free_bytes
from rookery.sim.errors import RookeryError

SMALL: dict[str, Any] = {"rollout_steps": 4, "buffer_size": 320, "hidden": (8,), "batch": 8, "learning_starts": 8}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "pictures": ({"encoder": "cnn"}, {}),
    "history": ({}, {"history": 3, "channels": 2}),
    "state": ({"critic": "central", "priority_alpha": 0.6}, {"cameras": 2, "agents": 2}),
    "memory": ({"memory": "gru", "memory_size": 5, "memory_steps": 4}, {}),
    "one memory": ({"memory": "gru", "memory_size": 5, "memory_steps": 4, "critic_memory": False}, {}),
}
KERNELS = {"encoder_channels": (4,), "encoder_kernels": (3,), "encoder_strides": (2,)}


def allocated(algorithm: Any) -> int:
    """Bytes of all tensors of the replay memories."""
    replays = [learner.replay for learner in algorithm.learners.values()]
    tensors = [
        x for replay in replays for x in vars(replay).values() if isinstance(x, torch.Tensor) and x._base is None
    ]
    trees = [level for replay in replays if replay.priorities is not None for level in replay.priorities._levels]
    return sum(x.nbytes for x in (*tensors, *trees))


@pytest.mark.parametrize("name", CASES)
def test_the_size_is_that_of_what_is_allocated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changes, options = CASES[name]
    env = SpotEnv(8, horizon=1000, **options)
    config = SACConfig(**SMALL, **KERNELS, **changes)
    told = sum(off_policy_storage.memory_parts(env, config, 40, env.state_size if name == "state" else 0).values())
    slack = 2000 if name == "state" else 0  # a tree of priorities has whole nodes
    assert told == pytest.approx(allocated(SAC(env, config)), abs=slack + 0.5)
    monkeypatch.setattr(off_policy_storage, "free_bytes", lambda device: told - 1)
    monkeypatch.setattr(torch, "zeros", None)  # nothing may be allocated
    with pytest.raises(
        RookeryError, match=r"replay memory of 320 control steps would take .* MiB .* of memory are free: give"
    ):
        SAC(env, config)


def test_last_observations_of_truncated_episodes_count() -> None:
    """Against a memory filled with short episodes."""
    env = SpotEnv(8, horizon=2)
    config = SACConfig(**SMALL)
    algorithm = SAC(env, config)
    obs, _ = env.reset(0)
    collect(algorithm, env, obs, 120)
    told = sum(off_policy_storage.memory_parts(env, config, 40, 0).values())
    assert 0.8 * told < allocated(algorithm) <= told


@pytest.mark.parametrize("kind", [(SAC, SACConfig), pytest.param((TD3, TD3Config), marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("obs", "randomize", "fixed", "in_bytes"),
    [
        ("rgb", "none", {}, True),
        ("rgb", "default", {}, False),
        ("rgb", "none", {"observation_noise": 1.0}, False),
        ("segmentation", "default", {}, True),
        ("depth", "none", {}, False),
    ],
)
def test_pictures_of_whole_numbers_are_stored_in_bytes_and_learnt_from_as_they_were_seen(
    kind: Any, obs: str, randomize: str, fixed: dict[str, float], in_bytes: bool
) -> None:
    env = make("drone-hover", 4, randomize=randomize, fixed=fixed, config={"obs": obs, "episode_s": 0.1}, seed=1)
    algorithm = kind[0](env, kind[1](**SMALL, encoder="cnn"))
    learner = algorithm.learners["drone"]
    (picture,) = (t for t in env.groups["drone"].observation if t.shape)
    assert (0 if learner.replay.codec is None else learner.replay.codec.count) == (picture.size if in_bytes else 0)
    seen, following = [], []
    now, _ = env.reset(0)
    for _ in range(30):
        actions = algorithm.act(now)
        result = env.step(actions)
        algorithm.observe(now, actions, result)
        seen.append(now["drone"])
        last = result[0]["drone"].clone()
        if "final_observation" in result[4]:
            ended = result[2] | result[3]
            last[ended] = result[4]["final_observation"]["drone"][ended]
        following.append(last)
        now = result[0]
    rows = learner.replay.take(torch.arange(30 * 4), 0.9)
    assert torch.equal(rows.observation, torch.cat(seen).flatten(0, 1))
    kept = ~rows.terminated
    assert torch.equal(rows.next_observation[kept], torch.cat(following).flatten(0, 1)[kept])
    assert len(seen[3].unique()) > 3
    env.close()


def test_free_memory_is_what_the_kernel_says(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from rookery.policies.storage import free_memory

    assert free_bytes() > 1 << 20
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  100 kB\nMemAvailable:  60 kB\n")
    monkeypatch.setattr(free_memory, "MEMINFO", meminfo)
    monkeypatch.setattr(free_memory, "CGROUP", tmp_path)
    assert free_bytes() == 60 * 1024
    for name, text in (("max", "40000\n"), ("current", "15000\n"), ("stat", "anon 5\ninactive_file 5000\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert free_bytes() == 30_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_bytes() == 60 * 1024
    meminfo.unlink()
    assert free_bytes() == float("inf")
