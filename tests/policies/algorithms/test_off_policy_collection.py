"""When off-policy algorithms begin to learn, and that what they store is of its own moment."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from policies_toy import ToyEnv, train

from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.sim.errors import RookeryError

TINY: dict[str, Any] = {"hidden": (4,), "batch": 4, "rollout_steps": 4, "learning_starts": 0, "buffer_size": 400}
GRU: dict[str, Any] = {"memory": "gru", "memory_size": 4, "memory_steps": 4}


@settings(max_examples=20)
@given(
    worlds=st.integers(1, 3), rollout=st.integers(1, 5), starts=st.integers(0, 40), burn_in=st.integers(-1, 6),
    ratio=st.sampled_from([0.01, 0.07, 0.25, 0.3, 1.0, 2.5]),
)  # fmt: skip
def test_a_training_is_too_short_where_it_ends_before_the_first_gradient_step(
    worlds: int, rollout: int, starts: int, burn_in: int, ratio: float
) -> None:
    """Against the update that gives the first figures; a burn-in of -1 stands for no memory."""
    memory = {} if burn_in < 0 else GRU | {"memory_burn_in": burn_in}
    changes = {"rollout_steps": rollout, "learning_starts": starts, "updates_per_step": ratio, "buffer_size": 600}
    sac = SAC(ToyEnv(worlds), SACConfig(**{**TINY, **changes, **memory, "compiled": False}))
    obs, first = sac.env.reset()[0], 0
    for done in range(1, 130):
        obs, (figures,) = train(sac, sac.env, obs, 1)
        if figures:
            first = done * rollout * worlds
            break
    assert first
    sac.check_length(first)
    with pytest.raises(
        RookeryError, match=f"first gradient step, which is after {first:,}: give --steps {first} or more"
    ):
        sac.check_length(first - rollout * worlds)


def test_worlds_together_make_the_random_steps() -> None:
    """4 steps of 4 worlds are 16: then the policy acts, here almost without noise."""
    td3 = TD3(ToyEnv(4), TD3Config(**TINY | {"learning_starts": 16, "exploration_noise": 1e-6}))
    obs, _ = train(td3, td3.env, td3.env.reset()[0], 1)
    torch.testing.assert_close(td3.act(obs)["point"], td3.policies()["point"](obs["point"]), atol=1e-4, rtol=0.0)


@pytest.mark.parametrize("burn_in", [0, 4])
def test_sequences_are_learnt_from_as_soon_as_there_is_one_also_in_the_smallest_memory(burn_in: int) -> None:
    window = burn_in + 4
    config = SACConfig(**{**TINY, **GRU, "memory_burn_in": burn_in, "rollout_steps": 2, "buffer_size": window * 4})
    sac = SAC(ToyEnv(4), config)
    _, figures = train(sac, sac.env, sac.env.reset()[0], window)
    assert [bool(f) for f in figures] == [2 * (i + 1) >= window for i in range(window)]


def test_the_smallest_memory_holds_one_rollout() -> None:
    sac = SAC(ToyEnv(4), SACConfig(**TINY | {"buffer_size": 16, "compiled": False}))
    assert all(train(sac, sac.env, sac.env.reset()[0], 4)[1])


def test_every_observation_counts_once_in_the_normalizer() -> None:
    sac = SAC(ToyEnv(4), SACConfig(**TINY))
    train(sac, sac.env, sac.env.reset()[0], 5)
    assert sac.learners["point"].norm.state_dict()["count"].unique().tolist() == [5 * 4 * 4]


class LiveEnv(ToyEnv):
    """`active` and `state` are buffers that a step overwrites, as an environment may have them."""

    state_size = 1

    def __init__(self) -> None:
        super().__init__(agents=2, drop_out=True)
        self._now = torch.ones(self.x.shape, dtype=torch.bool)
        self._ages = torch.zeros(self.num_envs, 1)

    def _refresh(self) -> None:
        self._now[:, 1:] = (self.clock < self.max_episode_steps // 2)[:, None]
        self._ages.copy_(self.clock[:, None])

    def reset(self, seed: int | None = None) -> Any:
        out = super().reset(seed)
        self._refresh()
        return out

    def step(self, actions: Any) -> Any:
        out = super().step(actions)
        out[4]["final_state"] = torch.full((self.num_envs, 1), math.nan)  # not read but where an episode was cut
        out[4]["final_state"][out[3]] = float(self.max_episode_steps)
        self._refresh()
        return out

    @property
    def active(self) -> dict[str, torch.Tensor]:
        return {"point": self._now}

    @property
    def state(self) -> torch.Tensor:
        return self._ages


def test_masks_and_states_are_those_before_the_step() -> None:
    sac = SAC(LiveEnv(), SACConfig(**TINY, critic="central"))
    train(sac, sac.env, sac.env.reset()[0], 6)
    replay = sac.learners["point"].replay
    seen = replay.observation[:24, :, 0, 1] * sac.env.max_episode_steps  # the agents see the clock too
    torch.testing.assert_close(replay.state[:24, :, 0], seen)
    assert torch.equal(replay.active[:24, :, 1], seen.round() < sac.env.max_episode_steps // 2)
    now = sac.env.active["point"]
    assert not now.all()
    # Who has left is told by the masks after the step, which are those before the next one.
    assert torch.equal(replay.left[:24], ~torch.cat((replay.active[1:24], now[None])))
    every = torch.arange(24 * 4 * 2)
    batch = replay.take(every, 0.9)
    after = torch.where(batch.terminated, batch.state[:, 0] + 1, batch.next_state[:, 0])
    torch.testing.assert_close(after, batch.state[:, 0] + 1)
