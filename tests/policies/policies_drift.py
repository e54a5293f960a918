"""A small environment in which what matters is not measured."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.sim.env import Env
from rookery.sim.envs.observation import ObservationPipeline
from rookery.sim.random import Streams
from rookery.sim.specs import ActionSpec, Group, Term

ACTION = ActionSpec("follow", ("u",), (-1.0,), (1.0,), ("m/s",), (0.0,))
HORIZON = 20


class Drift(Env):
    """Points drift along a line with a velocity that nobody measures; an agent earns for acting like that velocity.

    An episode's goal, which is not observed either, is revealed in the worlds of `reveal_future_mask`.
    """

    control_dt = 0.5
    device = torch.device("cpu")
    task_id = "drift"
    state_size = 0
    max_episode_steps = HORIZON

    def __init__(
        self, num_envs: int = 64, history: int = 2, agents: int = 1, reveal: bool = False, goal: bool = True
    ) -> None:
        velocity = Term("velocity", 1, "m/s", scale=0.5)
        future = Term("goal", 2, "m")
        seed = 0
        targets, names = ((velocity, future), ("goal",)) if goal else ((velocity,), ())
        spec = Group(agents, (Term("position", 1, "m"),), ACTION, history, targets, names)
        self.groups = {"point": spec}
        self.num_envs = num_envs
        self.reveal = reveal
        self.fixed_state = None
        self.taking_part = None
        self.generator = torch.Generator().manual_seed(seed)
        self.pipeline = ObservationPipeline(spec, num_envs, self.control_dt, Streams(num_envs, seed))
        self.x, self.v, self.goal = (torch.zeros(num_envs, agents, size) for size in (1, 1, 2))
        self.clock = torch.zeros(num_envs, dtype=torch.int64)

    def _begin(self, ids: Tensor, out: Tensor) -> None:
        for x, spread in ((self.x, 3.0), (self.goal, 1.0)):
            x[ids] = spread * torch.randn(x[ids].shape, generator=self.generator)
        self.v[ids] = torch.rand(self.v[ids].shape, generator=self.generator) * 2.0 - 1.0
        self.clock[ids] = 0
        self.pipeline.restart(ids, {"position": self.x}, out)

    def reset(self, seed=None):
        spec = self.groups["point"]
        obs = torch.empty(self.num_envs, spec.count, spec.observation_size)
        self._begin(torch.arange(self.num_envs), obs)
        return {"point": obs}, {}

    def stagger(self):
        self.clock.copy_(torch.arange(self.num_envs) % HORIZON)

    def step(self, actions):
        reward = -(actions["point"].clamp(-1.0, 1.0) - self.v).square().squeeze(-1)
        fresh = torch.rand(self.v.shape, generator=self.generator) * 2.0 - 1.0
        self.v = torch.where(torch.rand(self.v.shape, generator=self.generator) < 0.3, fresh, self.v)
        self.x += self.control_dt * self.v
        self.clock += 1
        obs = self.pipeline.push({"position": self.x})
        over = self.clock >= HORIZON
        never = torch.zeros(self.num_envs, dtype=torch.bool)
        info = {}
        if over.any():
            info["final_observation"] = {"point": obs}
            obs = obs.clone()
            self._begin(over.nonzero().squeeze(1), obs)
        return {"point": obs}, {"point": reward}, never, over, info

    @property
    def state(self):
        return super().state if self.fixed_state is None else self.fixed_state

    @property
    def active(self):
        return self.taking_part

    @property
    def privileged_targets(self):
        both = torch.cat((0.5 * self.v, self.goal), -1)
        return {"point": both[..., : self.groups["point"].target_size]}

    @property
    def reveal_future_mask(self):
        return torch.arange(self.num_envs) % 2 == 0 if self.reveal else None

    def close(self):
        pass

    def state_dict(self):
        own = {name: getattr(self, name).clone() for name in ("x", "v", "goal", "clock")}
        return own | self.pipeline.state_dict() | {"generator": self.generator.get_state()}

    def load_state_dict(self, state):
        for name in ("x", "v", "goal", "clock"):
            getattr(self, name).copy_(state[name])
        self.pipeline.load_state_dict(state)
        self.generator.set_state(state["generator"])
