"""Small decision processes with choices, whose best values are known.

All agents take part in worlds of their own; observations say everything.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.sim.actions import check_actions
from rookery.sim.env import Env, StepResult
from rookery.sim.specs import ActionSpec, Discrete, Group, Term


class Process(Env):
    """N worlds with one agent; a subclass says what a step does.

    Args:
        observed: length of an observation.
        action: of the agent.
        length: steps of an episode, which ends by its time limit.
    """

    causes = ("over",)
    control_dt = 0.1

    def __init__(self, num_envs: int, observed: int, action: ActionSpec, length: int, seed: int = 0) -> None:
        self.task_id = type(self).__name__.lower()
        self.num_envs = num_envs
        self.device = torch.device("cpu")
        self.groups = {"agent": Group(1, (Term("state", observed),), action)}
        self.max_episode_steps = length
        self.generator = torch.Generator().manual_seed(seed)
        self.place = torch.zeros(num_envs, dtype=torch.int64)
        self.clock = torch.zeros(num_envs, dtype=torch.int64)
        self.total = torch.zeros(num_envs)

    def begin(self, ids: Tensor) -> None:
        """Places of new episodes."""

    def act(self, action: Tensor) -> Tensor:
        """Rewards [N] of actions [N, D]; moves `place`."""
        raise NotImplementedError

    def observe(self) -> Tensor:
        """[N, O]"""
        raise NotImplementedError

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        if seed is not None:
            self.generator.manual_seed(seed)
        self._begin(torch.arange(self.num_envs))
        return self._observed(), {}

    def _begin(self, ids: Tensor) -> None:
        self.begin(ids)
        self.clock[ids] = 0
        self.total[ids] = 0.0

    def _observed(self) -> dict[str, Tensor]:
        return {"agent": self.observe().float()[:, None]}

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        reward = self.act(check_actions(self, actions)["agent"][:, 0])
        self.clock += 1
        self.total += reward
        ended = self.clock >= self.max_episode_steps
        obs, info = self._observed(), {}
        if ended.any():
            ids = ended.nonzero().squeeze(1)
            info["final_observation"] = obs
            info["episode"] = {
                "ids": ids, "return": {"agent": self.total[ids].clone()}, "length": self.clock[ids].clone(), "metrics": {},
                "cause": torch.zeros_like(ids), "reward_terms": {},
            }  # fmt: skip
            self._begin(ids)
            obs = self._observed()
        return obs, {"agent": reward[:, None]}, torch.zeros_like(ended), ended, info

    @property
    def episode_start(self) -> Tensor:
        return self.clock == 0

    def state_dict(self) -> dict[str, Tensor]:
        own = {"place": self.place, "clock": self.clock, "total": self.total, "generator": self.generator.get_state()}
        return {k: v.clone() for k, v in own.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.place, self.clock, self.total = (state[k].clone() for k in ("place", "clock", "total"))
        self.generator.set_state(state["generator"])

    def close(self) -> None: ...


class Corridor(Process):
    """Six cells in a row; at the left end a step pays 0.1, at the right end 1. Episodes begin in the second cell.

    In 12 steps the best is to go right: three steps without pay, and from then on 1 each, since the pay is for the cell that is
    reached: 9. Staying left pays 1.2.
    """

    BEST = 9.0

    def __init__(self, num_envs: int = 64, seed: int = 0) -> None:
        move = ActionSpec("move", choices=(Discrete("direction", ("left", "stay", "right"), neutral=1),))
        super().__init__(num_envs, 6, move, 12, seed)

    def begin(self, ids: Tensor) -> None:
        self.place[ids] = 1

    def act(self, action: Tensor) -> Tensor:
        self.place = (self.place + action[:, 0].long() - 1).clamp(0, 5)
        return torch.where(self.place == 5, 1.0, torch.where(self.place == 0, 0.1, 0.0))

    def observe(self) -> Tensor:
        return torch.nn.functional.one_hot(self.place, 6)


class Locks(Process):
    """Two dials with 3 and 4 positions, whose pay is known: 0.1 times the first and 0.01 times the second index, the more the
    better; but of each dial one position is barred, drawn anew at every step. A barred position must never be chosen.

    Best: the highest position that is not barred. Each dial's highest is barred with a probability of one in 3 and one in 4.
    """

    SIZES = (3, 4)
    BEST = 4 * (0.1 * (2 * 2 / 3 + 1 / 3) + 0.01 * (3 * 3 / 4 + 2 / 4))

    def __init__(self, num_envs: int = 64, seed: int = 0) -> None:
        dials = tuple(Discrete(f"dial_{k}", tuple(map(str, range(n)))) for k, n in enumerate(self.SIZES))
        super().__init__(num_envs, 1, ActionSpec("turn", choices=dials, masked=True), 4, seed)
        self.barred = torch.zeros(num_envs, 2, dtype=torch.int64)

    def begin(self, ids: Tensor) -> None:
        for k, n in enumerate(self.SIZES):
            self.barred[ids, k] = torch.randint(n, (len(ids),), generator=self.generator)

    def act(self, action: Tensor) -> Tensor:
        assert (action.long() != self.barred).all(), "a barred position was chosen"
        self.begin(torch.arange(self.num_envs))
        return 0.1 * action[:, 0] + 0.01 * action[:, 1]

    @property
    def action_mask(self) -> dict[str, Tensor]:
        masks = [torch.nn.functional.one_hot(self.barred[:, k], n) == 0 for k, n in enumerate(self.SIZES)]
        return {"agent": torch.cat(masks, -1)[:, None]}

    def observe(self) -> Tensor:
        return torch.zeros(self.num_envs, 1)

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | {"barred": self.barred.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.barred = state["barred"].clone()


class Darts(Process):
    """One of three boards and two numbers: where to throw, and how. The board that counts is shown; on it the pay is
    ``1 - |throw - middle|^2``, with the middle of that board, on another -1.

    Best: the board that is shown, and its middle: 1 a step, so 5.
    """

    BEST = 5.0
    MIDDLES = torch.tensor([[0.5, -0.5], [-0.3, 0.0], [0.0, 0.7]])

    def __init__(self, num_envs: int = 64, seed: int = 0) -> None:
        numbers = ("x", "y"), (-1.0, -1.0), (1.0, 1.0), ("m", "m"), (0.0, 0.0)
        spec = ActionSpec("throw", *numbers, choices=(Discrete("board", ("a", "b", "c")),))
        super().__init__(num_envs, 3, spec, 5, seed)

    def begin(self, ids: Tensor) -> None:
        self.place[ids] = torch.randint(3, (len(ids),), generator=self.generator)

    def act(self, action: Tensor) -> Tensor:
        board, throw = action[:, 0].long(), action[:, 1:].clamp(-1.0, 1.0)
        pay = 1.0 - (throw - self.MIDDLES[board]).square().sum(-1)
        reward = torch.where(board == self.place, pay, -1.0)
        self.begin(torch.arange(self.num_envs))
        return reward

    def observe(self) -> Tensor:
        return torch.nn.functional.one_hot(self.place, 3)


class Quivers(Darts):
    """Each board has a throw of its own, and all one height, whose best value is 0.4 m.

    Best: as of Darts, at that height.
    """

    def __init__(self, num_envs: int = 64, seed: int = 0) -> None:
        names = tuple(f"{board}.{axis}" for board in "abc" for axis in "xy")
        numbers = (*names, "height"), (-1.0,) * 7, (1.0,) * 7, ("m",) * 7, (0.0,) * 7
        choices = (Discrete("board", ("a", "b", "c")),)
        spec = ActionSpec("throw", *numbers, choices=choices, read_by=(0, 0, 1, 1, 2, 2, -1))
        Process.__init__(self, num_envs, 3, spec, 5, seed)

    def act(self, action: Tensor) -> Tensor:
        board, height = action[:, 0].long(), action[:, 7].clamp(-1.0, 1.0)
        throw = action[:, 1:7].unflatten(-1, (3, 2))[torch.arange(self.num_envs), board]
        return super().act(torch.cat((action[:, :1], throw), -1)) - (height - 0.4).square()
