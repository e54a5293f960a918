"""An environment in which a high level acts: its decisions command frozen skills.

Every step is one control step of all worlds. An agent takes a decision when its own option has ended, by its duration, a
condition or an event, while others are amid theirs: `deciding` says who, and the actions of the others are not read. Rewards
are those of single control steps: trainers add them up over each option, see docs/hierarchy.md.

Where one decision is for a team, the teams T stand in the agents' place: observations [N, T, O], rewards [N, T], and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rookery.policies.hierarchy.hierarchy import Hierarchy
from rookery.policies.hierarchy.level_kernels import CompiledCommands, see, take
from rookery.policies.policy import Policy
from rookery.policies.stages.decide import Each
from rookery.policies.stages.torch_chain import StepContext
from rookery.sim.actions import check_choices, check_shapes, not_finite
from rookery.sim.arrays import indices
from rookery.sim.buffers import check_tensors
from rookery.sim.env import Act, Env, StepResult, Team
from rookery.sim.env_wrapper import EnvWrapper
from rookery.sim.errors import RookeryError
from rookery.sim.events import counted, happening
from rookery.sim.teams import gathered, team_agents, teamwork

__all__ = ["HierarchicalEnv"]

if TYPE_CHECKING:
    from rookery.policies.hierarchy.learned_skills import LearnedSkill

Rows = dict[str, Tensor]
PREFIX = "hierarchy."


class Level:
    """The decisions of one group, of A agents or, where one decision is for a team, of A teams.

    Args:
        env: the wrapped environment.
        name: of the group.
        hierarchy: its skills.

    Attributes:
        left: [N, A] control steps that the skills may still act for.
        rows: [N A, O + D] observation now and latest decision.
        obs, decided: [N, A, O] and [N, A, D], the two parts of `rows`.
        memory: [N A, S] of the skills.
        told: [N A, E] bool, events of the last control step at which skills decide that are hierarchies themselves.
        due: [N, A] bool, who decides now.
        learners: of skills that explore and learn now.
    """

    def __init__(self, env: Env, name: str, hierarchy: Hierarchy) -> None:
        n, group, device = env.num_envs, hierarchy.group, torch.device(env.device)
        self.teams = team_agents(env, name) if hierarchy.agents > 1 else None
        count, size = hierarchy.high.count, hierarchy.agents * group.observation_size
        self.name = name
        self.hierarchy = hierarchy
        self.rules = hierarchy.rules
        self.policy = hierarchy.module().to(device)
        self._counted = counted(env, name)
        self._masked = self.rules.masked
        self._parts = [] if hierarchy.seen == ((0, size),) else [slice(a, b) for a, b in hierarchy.seen]
        self.learners: list[LearnedSkill] = []
        self.left = torch.zeros(n, count, device=device)
        self.rows = torch.zeros(n * count, size + hierarchy.high.action.size, device=device)
        self.obs, self.decided = (x.unflatten(0, (n, count)) for x in (self.rows[:, :size], self.rows[:, size:]))
        self.memory = torch.zeros(n * count, self.policy.state_size, device=device)
        self.told = torch.zeros(n * count, len(self.policy.events), dtype=torch.bool, device=device)
        self.due = torch.ones(n, count, dtype=torch.bool, device=device)
        cpu = device.type == "cpu"
        self._arrays = tuple(x.numpy() for x in (self.rows, self.left, self.due)) if cpu else ()
        self._commands = CompiledCommands.of(self.policy) if cpu else None
        self._sizes = np.array([len(choice.options) for choice in hierarchy.high.action.choices], np.int64)
        self._steps = np.array(self.rules.steps, np.float32)

    def begin(self, obs: Tensor) -> Tensor:
        """Forget all, for the group's observations of new episodes in all worlds; returns what the high level observes."""
        for x in (self.left, self.decided, self.memory, self.told):
            x.zero_()
        self.due.fill_(True)
        self.obs.copy_(self.own(obs))
        return self.seen(obs)

    def own(self, rows: Tensor) -> Tensor:
        """Rows [N, A, D] of those who decide, of rows of the group's agents."""
        return rows if self.teams is None else gathered(rows, self.teams)

    def of_agents(self, rows: Tensor) -> Tensor:
        """Rows [N, agents, D] of the group's agents, of those who decide."""
        return rows if self.teams is None else teamwork(rows, self.teams)

    def mean(self, values: Tensor) -> Tensor:
        """[N, A, ...] of those who decide, of the group's agents, [N, agents, ...]."""
        return values if self.teams is None else values[:, self.teams].mean(2)

    def any(self, values: Tensor) -> Tensor:
        """[N, A] bool, of the group's agents."""
        return values if self.teams is None else values[:, self.teams].any(2)

    def seen(self, obs: Tensor) -> Tensor:
        """The high level's observation, of the group's."""
        obs = self.own(obs)
        return torch.cat([obs[..., part] for part in self._parts], -1) if self._parts else obs

    def mask(self) -> Tensor | None:
        """[N, A, n] bool, the skills that may be chosen now; None for all."""
        mask = self.rules.mask(self.obs.flatten(0, 1)) if self._masked else None
        return None if mask is None else mask.unflatten(0, self.due.shape)

    def act(self, action: Tensor, controlled: Tensor | None) -> Tensor:
        """Actions of the group's robots for what the high level says [N, A, C], where it decides.

        Args:
            action: decisions.
            controlled: of the classical controller, as of the robots.
        """
        self.put(action)
        piloted = None if controlled is None else self.own(controlled).flatten(0, 1)
        context = StepContext(self.memory, events=self.told if self.policy.events else None, controlled=piloted)
        if self._commands is None:
            out = self.policy.run(self.rows, context)
        else:
            out = self.policy.run(self._commands(self.rows), context, first=self._commands.links)
        if self.memory.shape[1]:
            self.memory.copy_(context.after)
        if self.learners:
            each = self._each(self.rows.clone())
            acts = out.reshape(len(each), -1)
            for skill in self.learners:
                acts = skill.act(each, acts)
            out = acts.reshape(out.shape)
        return self.of_agents(out.view(*self.due.shape, -1))

    def put(self, action: Tensor) -> None:
        """Put decisions [N, A, C] in force where they are due, and count a control step."""
        action = action.flatten(0, 1)
        if self.rows.device.type == "cpu" and action.dtype is torch.float32:
            rows, left, due = self._arrays
            given = due.ravel(), action.contiguous().numpy(), self._sizes, self._steps
            if take(*given, self.obs.shape[-1], rows, left.ravel()) < 0:
                return
        self.take(action)

    def take(self, action: Tensor) -> None:
        """`put` in torch, of decisions [N A, C].

        Raises:
            RookeryError: a decision that is not finite, or no option.
        """
        rows, spec = self.decided.flatten(0, 1), self.hierarchy.high.action
        index = indices(self.due)
        given = action[index]
        if not given.isfinite().all():
            world = index[~given.isfinite().all(1)][0] // self.due.shape[1]
            raise not_finite(self.name, int(world))
        check_choices(self.name, spec, given)
        given[:, len(spec.choices) :].clamp_(-1.0, 1.0)
        rows[index] = given.to(rows.dtype)
        self.left.view(-1)[index] = self.rules.durations(given.to(rows.dtype))
        self.left -= 1.0

    def _each(self, rows: Tensor) -> Tensor:
        """Rows [R a, O + C] of single agents, of rows of observation and decision."""
        link = self.hierarchy.lower[0]
        if self.teams is None or not isinstance(link, Each):
            return rows
        return torch.stack([torch.cat([rows[:, a:b] for a, b in part], 1) for part in link.parts], 1).flatten(0, 1)

    def tell(self, result: StepResult) -> None:
        """Have the skills that learn note a control step of the wrapped environment; before `note`."""
        obs, reward, terminated, truncated, info = result
        decided = self.decided.flatten(0, 1)

        def rows(of: Tensor) -> Tensor:
            return self._each(torch.cat((self.own(of).flatten(0, 1), decided), 1))

        after = rows(obs[self.name])
        final = rows(info["final_observation"][self.name]) if "final_observation" in info else None
        earned = reward[self.name] if self.teams is None else reward[self.name][:, self.teams.flatten()]
        ended = tuple(x.repeat_interleave(earned.shape[1]) for x in (terminated, truncated))
        for skill in self.learners:
            skill.record(after, earned.flatten(), (ended[0], ended[1]), final, info)

    def note(self, obs: Tensor, ended: Tensor, events: Mapping[str, Tensor]) -> None:
        """Take the group's observations after a step; `ended` [N] says where a new episode has begun."""
        obs = self.own(obs)
        if self.memory.shape[1]:
            self.memory.view(*self.due.shape, -1).masked_fill_(ended[:, None, None], 0.0)
        if self.rows.device.type == "cpu":
            see(obs.contiguous().numpy(), ended.numpy(), *self._arrays)
        else:
            self.see(obs, ended)
        if self.rules.conditional:
            finished = self.rules.over(self.obs.flatten(0, 1), self.decided.flatten(0, 1))
            self.due |= finished.view_as(self.due)
        happened = happening(events, self.rules.events, self._counted)
        if happened is not None:
            self.due |= self.any(happened.any(2))
        if self.policy.events:
            below = happening(events, self.policy.events, self._counted)
            self.told.copy_(torch.zeros_like(self.told) if below is None else self.any(below).flatten(0, 1))

    def see(self, obs: Tensor, ended: Tensor) -> None:
        """`level_kernels.see` in torch."""
        self.obs.copy_(obs)
        self.left.masked_fill_(ended.unsqueeze(1), 0.0)
        self.due.copy_(self.left <= 0.0)

    def state(self) -> Rows:
        """The state that the next step depends on, by name."""
        values = {
            "left": self.left,
            "decided": self.decided,
            "memory": self.memory,
            "told": self.told,
            "due": self.due,
            "observation": self.obs,
        }
        return {f"{PREFIX}{self.name}.{k}": v for k, v in values.items() if v.numel()}


class HierarchicalEnv(EnvWrapper):
    """An Env whose actions are decisions: which skill acts, and with which parameters.

    Args:
        env: the wrapped environment.
        hierarchies: by group that has skills; the others act as before.

    Attributes:
        levels: decisions by group.

    Raises:
        RookeryError: a group that the environment lacks, or a controller where there is none.
    """

    def __init__(self, env: Env, hierarchies: Mapping[str, Hierarchy]) -> None:
        super().__init__(env)
        self.levels = {g: Level(env, g, h) for g, h in hierarchies.items()}
        self.groups = {g: hierarchies[g].high if g in hierarchies else group for g, group in env.groups.items()}
        self.teams = {team: self._who_decide(team) for team in env.teams}
        self._controller: Act | None = None
        if any(level.policy.chain.controlled for level in self.levels.values()):
            self._controller = env.controller()
            if self._controller is None:
                raise RookeryError(f"{env.task_id} has no classical controller that could be a skill: give a policy.")
        # observations of all groups now: the controller reads them
        self._obs: Rows = {
            g: torch.zeros(env.num_envs, spec.count, spec.observation_size, device=env.device)
            for g, spec in env.groups.items()
        }
        self._begun = False

    def reset(self, seed: int | None = None) -> tuple[Rows, dict[str, Any]]:
        obs, info = self.env.reset(seed)
        self._obs, self._begun = obs, True
        return {g: self.levels[g].begin(o) if g in self.levels else o for g, o in obs.items()}, info

    def _who_decide(self, team: str) -> Team:
        """Agents of a team, or itself in the place where it decides."""
        out = dict(self.env.teams[team])
        for g, level in self.levels.items():
            if level.teams is not None and out.get(g):
                out[g] = (level.teams.tolist().index(list(out[g])),)
        return out

    @torch.no_grad()
    def step(self, actions: Rows | Tensor) -> StepResult:
        if not self._begun:
            raise RookeryError("call reset() before the first step().")
        given = dict(check_shapes(self, actions))
        controlled = {} if self._controller is None else self._controller(self._obs)
        for g, level in self.levels.items():
            given[g] = level.act(given[g], controlled.get(g))
        obs, reward, terminated, truncated, info = self.env.step(given)
        self._obs = obs
        for g, level in self.levels.items():
            if level.learners:
                level.tell((obs, reward, terminated, truncated, info))
            level.note(obs[g], terminated | truncated, info.get("events", {}))
        if "final_observation" in info:
            info["final_observation"] = self._seen(info["final_observation"])
        if "final_active" in info:
            info["final_active"] = self._decide(info["final_active"])
        reward = {g: self.levels[g].mean(r) if g in self.levels else r for g, r in reward.items()}
        return self._seen(obs), reward, terminated, truncated, info

    def _decide(self, active: Rows) -> Rows:
        """Who of those that decide takes part, where `active` says it of the agents."""
        return {g: self.levels[g].any(a) if g in self.levels else a for g, a in active.items()}

    @property
    def active(self) -> Rows | None:
        active = self.env.active
        return None if active is None else self._decide(active)

    def _seen(self, obs: Rows) -> Rows:
        return {g: self.levels[g].seen(o) if g in self.levels else o for g, o in obs.items()}

    # What trainers read beside the loop

    @property
    def deciding(self) -> Rows | None:
        """{group: [N, A] bool}: who takes a decision now; None where all do at every control step."""
        levels = [level for level in self.levels.values() if not level.rules.fixed]
        return {level.name: level.due.clone() for level in levels} or None

    @property
    def action_mask(self) -> Rows | None:
        masks: Rows = dict(self.env.action_mask or {})
        for g, level in self.levels.items():
            if (own := level.mask()) is not None:
                masks[g] = own
        return masks or None

    @property
    def privileged_targets(self) -> Rows | None:
        """Those of groups without skills."""
        found = {g: x for g, x in (self.env.privileged_targets or {}).items() if g not in self.levels}
        return found or None

    def controller(self) -> Act | None:
        """None: the task's classical controller gives actions of the robot, not decisions."""
        return None

    def correction(self) -> Act | None:
        """None: it is of actions of the robot."""
        return None

    @property
    def acting(self) -> Env:
        return self.env

    def deployed(self, policies: dict[str, Any]) -> dict[str, Any]:
        """Policies that hold their high level and the skills, and act at every control step in `acting`."""
        return {name: self._with_skills(name, policy) for name, policy in policies.items()}

    def _with_skills(self, name: str, policy: Policy) -> Policy:
        group = name if name in self.groups else name.rpartition("_")[0]
        return self.levels[group].hierarchy.deployed(policy) if group in self.levels else policy

    def learned_skills(self, config: Any, seed: int) -> Any:
        """See rookery.policies.hierarchy.learned_skills."""
        from rookery.policies.hierarchy.learned_skills import LearnedSkills  # what only plays needs no trainer

        return LearnedSkills(self, config, seed)

    # Keeping

    def _own_state(self) -> Rows:
        out = {k: v for level in self.levels.values() for k, v in level.state().items()}
        others = {} if self._controller is None else {g: x for g, x in self._obs.items() if g not in self.levels}
        return out | {f"{PREFIX}{g}.observation": x for g, x in others.items()}

    def state_dict(self) -> Rows:
        return self.env.state_dict() | {k: v.cpu().clone() for k, v in self._own_state().items()}

    def check_state_dict(self, state: Rows) -> None:
        check_tensors(self._own_state(), state)
        self.env.check_state_dict(_below(state))

    def load_state_dict(self, state: Rows) -> None:
        self.check_state_dict(state)
        self.env.load_state_dict(_below(state))
        self._obs = {g: x.clone() for g, x in self._obs.items()}  # others may hold what a step has given
        for name, own in self._own_state().items():
            own.copy_(state[name])
        self._begun = True
        self._obs |= {g: level.of_agents(level.obs).clone() for g, level in self.levels.items()}


def _below(state: Rows) -> Rows:
    """The wrapped environment's part of a state."""
    return {k: v for k, v in state.items() if not k.startswith(PREFIX)}
