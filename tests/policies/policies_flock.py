"""An environment of neighbors: the action is to be the mean of the offsets of those that are present.

The agent observes a number that says nothing, the offsets of its neighbors, of which there are some, and who is present.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.sim.env import Env
from rookery.sim.specs import ActionSpec, Group, Term


class FlockEnv(Env):
    """Args: num_envs; places for neighbors; the least and the most of them; seed."""

    control_dt = 0.01
    task_id = "flock"
    causes = ()
    max_episode_steps = 2
    state_size = 0

    def __init__(self, num_envs: int = 64, places: int = 4, least: int = 1, most: int = 2, seed: int = 0) -> None:
        self.num_envs = num_envs
        self.places, self.least, self.most = places, least, most
        self.device = torch.device("cpu")
        terms = (
            Term("number", 1),
            Term("offset", places, neighbors=places),
            Term("seen", places, neighbors=places, present=True),
        )
        action = ActionSpec("point", ("mean",), (-1.0,), (1.0,), ("1",), (0.0,))
        self.groups = {"bird": Group(1, terms, action)}
        self.generator = torch.Generator().manual_seed(seed)
        self.clock = 0
        self.wanted = torch.zeros(num_envs)

    def _obs(self) -> dict[str, Tensor]:
        count = torch.randint(self.least, self.most + 1, (self.num_envs, 1), generator=self.generator)
        seen = (torch.rand(self.num_envs, self.places, generator=self.generator).argsort(1) < count).float()
        offset = (2.0 * torch.rand(self.num_envs, self.places, generator=self.generator) - 1.0) * seen
        self.wanted = offset.sum(1) / count.squeeze(1)
        number = torch.randn(self.num_envs, 1, generator=self.generator)
        return {"bird": torch.cat((number, offset, seen), 1).unsqueeze(1)}

    def reset(self, seed=None):
        if seed is not None:
            self.generator.manual_seed(seed)
        self.clock = 0
        return self._obs(), {}

    def step(self, actions):
        error = actions["bird"].flatten() - self.wanted
        self.clock = (self.clock + 1) % self.max_episode_steps
        ended = torch.full((self.num_envs,), self.clock == 0)
        obs = self._obs()
        info = {"final_observation": obs} if self.clock == 0 else {}
        return obs, {"bird": -error.square().unsqueeze(1)}, torch.zeros_like(ended), ended, info

    def stagger(self):
        pass

    def close(self):
        pass

    def state_dict(self):
        return {
            "generator": self.generator.get_state(),
            "wanted": self.wanted.clone(),
            "clock": torch.tensor(self.clock),
        }

    def load_state_dict(self, state):
        self.generator.set_state(state["generator"])
        self.wanted = state["wanted"].clone()
        self.clock = int(state["clock"])
