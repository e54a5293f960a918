"""An environment of pictures: a bright column stands somewhere, and the action is to say where.

Agents observe a number that says nothing, then the pictures of their cameras. The column stands at one place in an episode, a
different one for each agent; only the last camera shows it, the others noise.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.sim.env import Env
from rookery.sim.specs import ActionSpec, Group, Term

ROWS, COLUMNS = 6, 12


def spot_group(agents: int = 1, cameras: int = 1, channels: int = 1, history: int = 1) -> Group:
    """Terms, with a number on either side of the pictures."""
    shape = (cameras, ROWS, COLUMNS, channels)
    picture = Term("depth", cameras * ROWS * COLUMNS * channels, "m", "camera", shape=shape)
    action = ActionSpec("point", ("place",), (-1.0,), (1.0,), ("1",), (0.1,))
    return Group(agents, (Term("number", 1), picture, Term("more", 2)), action, history)


class SpotEnv(Env):
    control_dt = 0.01
    task_id = "spot"
    causes = ()

    def __init__(self, num_envs=8, agents=1, cameras=1, channels=1, history=1, horizon=4, seed=0):
        self.num_envs = num_envs
        self.max_episode_steps = horizon
        self.device = torch.device("cpu")
        self.groups = {"eye": spot_group(agents, cameras, channels, history)}
        self.state_size = 3
        self.generator = torch.Generator().manual_seed(seed)
        self.place = torch.zeros(num_envs, agents)
        self.clock = torch.zeros(num_envs, dtype=torch.int64)
        self.frames: Tensor | None = None

    def _draw(self, ids: Tensor) -> None:
        self.place[ids] = torch.rand(len(ids), self.place.shape[1], generator=self.generator) * 2.0 - 1.0
        self.clock[ids] = 0

    def _frame(self) -> Tensor:
        shape = self.groups["eye"].observation[1].shape
        lead = self.place.shape
        pictures = 0.1 * torch.randn(*lead, *shape, generator=self.generator)
        column = ((self.place + 1.0) * 0.5 * COLUMNS).long().clamp(max=COLUMNS - 1)
        lit = torch.nn.functional.one_hot(column, COLUMNS).float()
        pictures[:, :, -1] += lit[:, :, None, :, None]
        numbers = torch.randn(*lead, 3, generator=self.generator)
        return torch.cat((numbers[..., :1], pictures.flatten(2), numbers[..., 1:]), -1)

    def _obs(self, begun: Tensor) -> dict[str, Tensor]:
        """Shift a frame in; where an episode begins, it fills the history."""
        history = self.groups["eye"].history
        new = self._frame().unsqueeze(2)
        full = new.expand(-1, -1, history, -1)
        old = full if self.frames is None else torch.cat((self.frames[:, :, 1:], new), 2)
        self.frames = torch.where(begun[:, None, None, None], full, old).clone()
        return {"eye": self.frames.flatten(2)}

    def reset(self, seed=None):
        if seed is not None:
            self.generator.manual_seed(seed)
        self._draw(torch.arange(self.num_envs))
        return self._obs(torch.ones(self.num_envs, dtype=torch.bool)), {}

    def stagger(self):
        self.clock[:] = torch.arange(self.num_envs) % self.max_episode_steps

    def step(self, actions):
        error = (actions["eye"].squeeze(-1).clamp(-1.0, 1.0) - self.place).abs()
        self.clock += 1
        truncated = self.clock >= self.max_episode_steps
        info = {}
        if truncated.any():
            ids = truncated.nonzero().squeeze(1)
            assert self.frames is not None
            info["final_observation"] = {"eye": self.frames.flatten(2).clone()}
            info["final_state"] = self.state
            info["episode"] = {
                "ids": ids,
                "return": {"eye": -error[ids].mean(1)},
                "length": self.clock[ids].clone(),
                "metrics": {"success": (error[ids].mean(1) < 0.2).float()},
                "cause": torch.zeros(len(ids), dtype=torch.int64),
                "reward_terms": {"eye/error": -error[ids].mean(1)},
            }
            self._draw(ids)
        return self._obs(truncated), {"eye": -error}, torch.zeros_like(truncated), truncated, info

    @property
    def state(self):
        return torch.stack((self.place.sum(1), self.place[:, 0], self.clock.float()), 1)

    def state_dict(self):
        assert self.frames is not None
        out = {"place": self.place, "clock": self.clock, "frames": self.frames}
        return {k: v.clone() for k, v in out.items()} | {"rng": self.generator.get_state()}

    def load_state_dict(self, state):
        self.place.copy_(state["place"])
        self.clock.copy_(state["clock"])
        self.frames = state["frames"].clone()
        self.generator.set_state(state["rng"])

    def close(self):
        pass
