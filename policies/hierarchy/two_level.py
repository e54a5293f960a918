"""A two-level policy: the policy in training commands a frozen one, a skill, by shifting what the skill observes.

    observation --+--> policy in training --> shift, m and m/s --+
                  |                                              +--> skill --> action of the robot
                  +--> the skill's own terms --------------------+

With a hover policy as the skill, a shift of its position error moves the point at which it hovers, and a shift of its
velocity makes it pass that point at a speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rookery.policies.policy import Policy
from rookery.sim.actions import check_actions, require_numbers
from rookery.sim.buffers import check_tensors
from rookery.sim.deployment import Deployment
from rookery.sim.env import Act, Env, StepResult
from rookery.sim.env_wrapper import EnvWrapper
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group, Term


class TwoLevelEnv(EnvWrapper):
    """An Env whose action is a command to a frozen policy.

    The action of each agent is, for each term in `shifts`, an offset that is added to the skill's observation of that term, in
    the term's unit and frame. The skill observes the terms that it was trained with, as the environment gives them (noise
    included), and its action is what the robot gets.

    Args:
        env: of one group, without a history.
        policy: the skill's network.
        skill: the group that the skill was trained as.
        shifts: by term of the skill, the largest offset, in the term's unit.

    Raises:
        RookeryError: the skill's terms or action are not those of the environment.
    """

    def __init__(self, env: Env, policy: Policy, skill: Group, shifts: Mapping[str, float]) -> None:
        super().__init__(env)
        if len(env.groups) != 1:
            raise RookeryError(f"a two-level policy needs one group, {env.task_id} has {list(env.groups)}.")
        ((self.name, group),) = env.groups.items()
        require_numbers(env.groups, "a two-level policy commands skills with")
        _check(env.task_id, group, skill)
        self.policy = policy.to(env.device).eval()
        self._group = group
        self._columns = torch.tensor(_columns(group, [t.name for t in skill.observation]), device=env.device)
        terms = {t.name: t for t in skill.observation}
        unknown = sorted(set(shifts) - set(terms))
        if unknown:
            raise RookeryError(f"the skill observes no {unknown[0]!r}: shift some of {', '.join(terms)}.")
        commanded = [terms[name] for name in shifts]
        self._targets = torch.tensor(_columns(skill, list(shifts)), device=env.device)
        self._widths = torch.tensor(
            [shifts[t.name] * t.scale for t in commanded for _ in range(t.size)], device=env.device
        )
        self._clip = torch.tensor([t.clip for t in skill.observation for _ in range(t.size)], device=env.device)
        self.groups = {self.name: replace(group, action=_command(commanded, shifts))}
        self._obs = torch.zeros(env.num_envs, group.count, group.observation_size, device=env.device)
        self._memory = policy.initial_state(env.num_envs, group.count)  # of the skill

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        obs, info = self.env.reset(seed)
        self._obs.copy_(obs[self.name])
        self._memory.zero_()
        return obs, info

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        command = check_actions(self, actions)[self.name].detach().clamp(-1.0, 1.0)
        result = self.env.step({self.name: self.act(self._obs, command)})
        self._obs.copy_(result[0][self.name])
        return result

    @torch.no_grad()
    def act(self, obs: Tensor, command: Tensor) -> Tensor:
        """The skill's action [N, A, D] for the observations [N, A, O] of the environment now, and commands [N, A, C] in
        [-1, 1]. A skill with memory takes a step of it."""
        x = obs[..., self._columns]
        x[..., self._targets] += command * self._widths
        if self.policy.state_size:
            self._memory.masked_fill_(self.env.episode_start[:, None, None], 0.0)
        action, memory = self.policy.step(torch.clamp(x, -self._clip, self._clip), self._memory)
        self._memory.copy_(memory)
        return action

    def controller(self) -> Act | None:
        """None: the task's classical controller gives actions of the robot, not commands."""
        return None

    def deployment(self) -> Deployment:
        """As the wrapped environment's, without actuation: a command goes to the skill."""
        return replace(self.env.deployment(), actuation={})

    def state_dict(self) -> dict[str, Tensor]:
        return self.env.state_dict() | {name: x.cpu().clone() for name, x in self._own_state().items()}

    def _own_state(self) -> dict[str, Tensor]:
        own = {"two_level.observation": self._obs}
        return own | ({"two_level.memory": self._memory} if self.policy.state_size else {})

    def check_state_dict(self, state: dict[str, Tensor]) -> None:
        check_tensors(self._own_state(), state)
        self.env.check_state_dict(_without_own(state))

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.check_state_dict(state)
        self.env.load_state_dict(_without_own(state))
        for name, own in self._own_state().items():
            own.copy_(state[name])


def _without_own(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The wrapped environment's part of a state."""
    return {k: v for k, v in state.items() if not k.startswith("two_level.")}


def two_level(
    env: Env, policies: Mapping[str, Policy] | None, groups: Mapping[str, Group] | None, shifts: Mapping[str, float]
) -> TwoLevelEnv:
    """`TwoLevelEnv` from a stored policy, see rookery.making."""
    if policies is None or groups is None:
        raise RookeryError(
            f"{env.task_id} commands a stored policy: give a run or a name of the zoo, not the controller."
        )
    name = next(iter(env.groups))
    if name not in policies:
        raise RookeryError(f"the skill's run has policies {list(policies)}, and {env.task_id} the group {name!r}.")
    return TwoLevelEnv(env, policies[name], groups[name], shifts)


def _command(terms: list[Term], shifts: Mapping[str, float]) -> ActionSpec:
    names = tuple(f"{t.name}[{i}]" for t in terms for i in range(t.size))
    high = tuple(float(shifts[t.name]) for t in terms for _ in range(t.size))
    units = tuple(t.unit for t in terms for _ in range(t.size))
    return ActionSpec("shift_of_skill_observation", names, tuple(-h for h in high), high, units, (0.0,) * len(names))


def _columns(group: Group, names: list[str]) -> list[int]:
    places = group.slices()
    return [i for name in names for i in range(places[name].start, places[name].stop)]


def _numbers(term: Term) -> tuple[int, str, float, float]:
    return term.size, term.unit, term.scale, term.clip


def _check(task: str, group: Group, skill: Group) -> None:
    if group.history > 1 or skill.history > 1:
        raise RookeryError("a two-level policy takes single frames: give history=1.")
    own = {t.name: t for t in group.observation}
    for t in skill.observation:
        mine = own.get(t.name, t)
        if t.name not in own or not mine.same_frame(t) or _numbers(mine) != _numbers(t):
            raise RookeryError(
                f"the skill observes {t.name!r}, and {task} has {'another' if t.name in own else 'none'}."
            )
    ours = (group.action.kind, group.action.names, group.action.low, group.action.high)
    theirs = (skill.action.kind, skill.action.names, skill.action.low, skill.action.high)
    if ours[:2] != theirs[:2] or not torch.allclose(torch.tensor(ours[2:]), torch.tensor(theirs[2:])):
        raise RookeryError(f"the skill acts by {skill.action.kind!r}, {task} by {group.action.kind!r} or other limits.")
