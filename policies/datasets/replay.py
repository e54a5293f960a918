"""Recorded actions once more, in an environment like the one they were recorded in: do the same numbers come out?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.schema import Episode, Facts
from rookery.sim.env import Act, Env
from rookery.sim.errors import RookeryError
from rookery.sim.threads import one_thread_each


@dataclass(frozen=True)
class Replayed:
    """Difference of a replayed episode from the recorded one.

    Args:
        episode: its number in the dataset.
        error: largest difference of an observation; 0 means bit for bit.
        step: control step at which an observation first differed or the episode ended otherwise; None where nothing does.
        same_end: it ended when and as it did.
        reward_error: largest difference of a reward. A task may let its reward depend on how all worlds do (the reach
            and loco-manipulation tasks sharpen theirs as errors fall): it differs where other worlds were not kept.
    """

    episode: int
    error: float
    step: int | None
    same_end: bool
    reward_error: float

    @property
    def exact(self) -> bool:
        """All observations are the same to the bit, and the end is."""
        return self.step is None and self.same_end


@torch.no_grad()
@one_thread_each
def replay(env: Env, data: Dataset, episodes: Sequence[int] | None = None) -> list[Replayed]:
    """Feed recorded actions and compare; episodes of one round are replayed together.

    Args:
        env: newly made with the dataset's task config, number of worlds, seed and physics; on another engine the
            differences are those of the engines.
        data: the recording.
        episodes: which; all by default.

    Raises:
        RookeryError: the environment has another number of worlds, or no such episode.
    """
    worlds = int(data.recording["num_envs"])
    fresh = env.state_dict()
    if env.num_envs != worlds:
        raise RookeryError(f"these demonstrations are of {worlds} worlds, the environment has {env.num_envs}.")
    chosen = list(range(len(data)) if episodes is None else episodes)
    for i in chosen:
        _known(data, i)
    rounds: dict[int, list[int]] = {}
    for i in chosen:
        rounds.setdefault(data.episodes[i].seed, []).append(i)
    out: dict[int, Replayed] = {}
    for seed, members in rounds.items():
        env.load_state_dict(fresh)
        out |= _round(env, seed, {i: data.episode(i) for i in members})
    return [out[i] for i in chosen]


def player(env: Env, data: Dataset, i: int) -> Act:
    """The actions of episode i as a policy, for a film of its world; the other worlds are given zeros."""
    _known(data, i)
    facts = data.episodes[i]
    columns = data.episode(i).columns
    step = -1

    def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
        nonlocal step
        step = min(step + 1, facts.length - 1)
        actions = _nothing(env)
        for g, a in actions.items():
            a[facts.world] = columns[f"action.{g}"][step]
        return actions

    return act


def _round(env: Env, seed: int, members: dict[int, Episode]) -> dict[int, Replayed]:
    obs, _ = env.reset(seed)
    error = dict.fromkeys(members, 0.0)
    first = dict[int, int | None].fromkeys(members)
    same_end = dict.fromkeys(members, False)
    reward_error = dict.fromkeys(members, 0.0)

    def compare(i: int, t: int, group: str, row: int, got: Tensor) -> None:
        expected = members[i].columns[f"observation.{group}"][row]
        if not torch.equal(got.cpu(), expected):
            error[i] = max(error[i], (got.cpu() - expected).abs().max().item())
            first[i] = t if first[i] is None else first[i]

    for i, episode in members.items():
        for g, o in obs.items():
            compare(i, 0, g, 0, o[episode.facts.world])
    running = dict(members)
    for t in range(max(e.facts.length for e in members.values())):
        actions = _nothing(env)
        for episode in running.values():
            for g, a in actions.items():
                a[episode.facts.world] = episode.columns[f"action.{g}"][t]
        obs, reward, terminated, truncated, info = env.step(actions)
        last_obs = info.get("final_observation", obs)
        for i, episode in list(running.items()):
            world = episode.facts.world
            for g in obs:
                compare(i, t, g, t + 1, last_obs[g][world])
                if f"reward.{g}" in episode.columns:
                    off = (reward[g][world].cpu() - episode.columns[f"reward.{g}"][t]).abs().max().item()
                    reward_error[i] = max(reward_error[i], off)
            ends = bool(terminated[world]), bool(truncated[world])
            same = ends == tuple(bool(episode.columns[n][t]) for n in ("terminated", "truncated"))
            if not same and first[i] is None:
                first[i] = t
            if any(ends) or not same or t + 1 == episode.facts.length:
                same_end[i] = same
                del running[i]
    return {i: Replayed(i, error[i], first[i], same_end[i], reward_error[i]) for i in members}


def _nothing(env: Env) -> dict[str, Tensor]:
    return {g: torch.zeros(env.num_envs, s.count, s.action.size, device=env.device) for g, s in env.groups.items()}


def _known(data: Dataset, i: int) -> Facts:
    if not 0 <= i < len(data):
        raise RookeryError(f"there is no episode {i}: these demonstrations have 0 to {len(data) - 1}.")
    return data.episodes[i]
