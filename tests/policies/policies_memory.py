"""Random control steps in a replay memory."""

from __future__ import annotations

import torch

from rookery.policies.storage.replay import Replay

OBS = 2
ACT = 1


def fill(replay: Replay, worlds: int, agents: int, seed: int, steps: int) -> list[dict[str, torch.Tensor]]:
    """Random steps into the memory; the same transitions of every agent as a list, oldest first."""
    g = torch.Generator().manual_seed(seed)
    rows = []
    obs = torch.rand(worlds, agents, OBS, generator=g)
    active = torch.rand(worlds, agents, generator=g) < 0.8
    for _ in range(steps):
        action = torch.rand(worlds, agents, ACT, generator=g)
        reward = torch.rand(worlds, agents, generator=g)
        terminated = torch.rand(worlds, generator=g) < 0.2
        truncated = torch.rand(worlds, generator=g) < 0.3  # both may hold
        after = torch.rand(worlds, agents, OBS, generator=g)  # what the step leads to, in the old episode
        done = terminated | truncated
        fresh = torch.rand(worlds, agents, OBS, generator=g)
        following = torch.where(done[:, None, None], fresh, after)
        next_active = torch.rand(worlds, agents, generator=g) < 0.8
        final = after if done.any() else None
        states = (10.0 * x[:, 0] for x in (obs, following, after)) if replay.state.shape[-1] else ()
        replay.add(obs, action, reward, following, terminated, truncated, final, active, next_active, *states)
        for n in range(worlds):
            for a in range(agents):
                cut = bool(truncated[n] and not terminated[n])
                over = bool(terminated[n]) or (not cut and not bool(next_active[n, a]))
                rows.append(
                    {
                        "observation": obs[n, a],
                        "action": action[n, a],
                        "reward": reward[n, a],
                        "next_observation": after[n, a],
                        "terminated": torch.tensor(over),
                        "over": over or cut,
                        "ended": done[n],
                        "active": active[n, a],
                    }
                )
        obs = following
        active = next_active
    return rows
