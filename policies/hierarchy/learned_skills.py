"""Skills that learn under their high level: each stored policy has a PPO of its own, with a critic of its own.

    control step        0        1        2        3        4
    high level          decides  -        -        decides  -
    skill               walk     walk     walk     stand    stand
    PPO of walk         x        x        x, cut   inactive inactive      cut: V of what walk would observe next follows
    PPO of stand        inactive ...               x        x

A skill's policy learns from the control steps in which it acts, from the rewards of the task, on what it observes: commands of
the high level among it. Where the high level goes over to a skill of another policy, the value of going on follows, as at a
time limit. The high level learns as without (ppo_options.py), both "together" in every update, or "alternating": while one of
them learns, the other is as it is; skills that do not learn act without exploration.

A divergence from the skill as it was stored holds it near to what it can do (HCSP's third stage, arXiv 2505.04317).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.policies.algorithms.ppo import PPO
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.hierarchy.hierarchy import SkillRole
from rookery.policies.hierarchy.skill_view import SkillView
from rookery.policies.stages.normalize import Normalize
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.torch_chain import ChainModule
from rookery.policies.torch_parts import copy_parts
from rookery.policies.training.warm_start import warm_start
from rookery.sim.buffers import under
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.policies.hierarchy.hierarchical_env import HierarchicalEnv, Level

__all__ = ["LearnedSkill", "LearnedSkills"]


def skill_config(config: PPOConfig, role: SkillRole) -> PPOConfig:
    """The settings of a skill's PPO: those of the high level, the skill's network, and what the settings say of skills.

    Raises:
        RookeryError: a policy that is no perceptron behind a normalizer.
    """
    links = role.source.policy.chain.links
    network = links[1] if len(links) == 3 else None
    if not isinstance(links[0], Normalize) or not isinstance(network, Perceptron):
        raise RookeryError(
            f"the skill {role.name!r} has {role.source.policy.chain.words}, and a skill that learns is a perceptron of its "
            f"observation: give learn = false to [skills.{role.name}], which keeps it as it is."
        )
    return replace(
        config, learn_skills="off", hidden=network.hidden, activation=network.activation, obs_clip=links[0].clip,
        normalize_observations=True, skill_turns=PPOConfig.skill_turns, skill_learning_rate=PPOConfig.skill_learning_rate,
        skill_std=PPOConfig.skill_std, skill_kl_coef=PPOConfig.skill_kl_coef, skill_warmup=PPOConfig.skill_warmup,
        initial_std=config.skill_std, learning_rate=config.skill_learning_rate or PPOConfig.learning_rate,
        reference_kl_coef=config.skill_kl_coef,
        schedule="linear" if config.schedule == "linear" else "fixed", entropy_coef=0.0, critic_warmup=config.skill_warmup,
        policies=(), separate=(), share=True, mirror=False, network="", memory="none", estimator="off", encoder="none",
        encoder_options=(),
    )  # fmt: skip


class LearnedSkill:
    """One policy of skills that learns.

    Args:
        env: the hierarchy.
        level: that commands it.
        role: its part in there.
        config: of the high level.
        seed: of exploration, the critic's weights and shuffles.
    """

    def __init__(self, env: HierarchicalEnv, level: Level, role: SkillRole, config: PPOConfig, seed: int) -> None:
        self.role = role
        self._level = level
        self._head = ChainModule((role.head,))
        self.view = SkillView(env, role.name, role.source.group, level.hierarchy.group.count)
        self.ppo = PPO(self.view, skill_config(config, role), seed)
        self._always = role.options is None
        source = role.source
        warm_start(self.ppo, {role.name: source.policy}, {role.name: source.group})
        self._pending: tuple[Any, ...] | None = None
        self._seen: Tensor | None = None
        self._action: Tensor | None = None
        self._forget()

    def _forget(self) -> None:
        """No step is under way."""
        self._pending = self._seen = self._action = None
        if not self._always:
            self.view.acting_now = torch.zeros(self.view.num_envs, 1, dtype=torch.bool, device=self.view.device)

    def observed(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """The skill's observations [M, O] of rows [M, O' + C] of observation and decision, zeros of others than its own, and
        whose they are [M] bool; None for everybody's."""
        seen = self._head(rows)
        if self.role.options is None:
            return seen, None
        option = rows[:, self.role.place]
        mine = torch.zeros_like(option, dtype=torch.bool)
        for k in self.role.options:
            mine = mine | (option == k)
        return torch.where(mine.unsqueeze(1), seen, 0.0), mine

    def act(self, rows: Tensor, out: Tensor) -> Tensor:
        """Actions [M, D]: with exploration where the skill acts, those of `out` elsewhere."""
        seen, mine = self.observed(rows)
        if self._pending is not None:
            self._finish(seen, mine)
        self._seen, name = seen, self.role.name
        self.view.acting_now = None if mine is None else mine.unsqueeze(1)
        self.ppo.look_again()
        self._action = self.ppo.act({name: seen.unsqueeze(1)})[name]
        own = self._action.squeeze(1)
        return own if mine is None else torch.where(mine.unsqueeze(1), own, out)

    def record(
        self, rows: Tensor, reward: Tensor, ended: tuple[Tensor, Tensor], final: Tensor | None, info: Any
    ) -> None:
        """Note a control step.

        Args:
            rows: [M, O' + C] after it, with the decision before.
            reward: [M].
            ended: terminated and truncated [M].
            final: [M, O' + C] at the ends of episodes, with the decision before; None where none ended.
            info: of the step.
        """
        states = self.view.each(info["final_state"]) if "final_state" in info and self.view.state_size else None
        now = self.view.state if self.view.state_size else None
        self._pending = (rows, reward, *ended, final, states, now)

    def _finish(self, seen: Tensor | None, mine: Tensor | None) -> None:
        """Hand the step before over, for observations [M, O] now and who acts by this policy [M]; None at the end of a rollout,
        where the skills of the step before go on."""
        assert self._pending is not None and self._seen is not None and self._action is not None
        rows, reward, terminated, truncated, final, states, now = self._pending
        self._pending = None
        held, _ = self.observed(rows)  # what it would observe if its decision went on
        last = held if final is None else self.observed(final)[0]
        reward = self._earned(rows, last, reward)
        acted = self.view.acting_now
        if acted is not None and mine is not None:
            left = acted.squeeze(1) & ~mine & ~terminated & ~truncated
            if states is not None or now is not None:
                assert now is not None
                states = now if states is None else torch.where(left.unsqueeze(1), now, states)
            truncated = truncated | left
        name = self.role.name
        more: dict[str, Any] = {"final_observation": {name: last.unsqueeze(1)}}
        if states is not None:
            more["final_state"] = states
        if acted is not None:
            more["final_active"] = {name: torch.ones_like(acted)}
        after = held if seen is None else seen
        done = (terminated | truncated).any()
        result = {name: after.unsqueeze(1)}, {name: reward.unsqueeze(1)}, terminated, truncated, more if done else {}
        self.ppo.observe({name: self._seen.unsqueeze(1)}, {name: self._action}, result)

    def _earned(self, rows: Tensor, last: Tensor, reward: Tensor) -> Tensor:
        """Rewards [M] of a step after which the skill observes `last` [M, O] by the decision in `rows`: the task's, or 1 where
        what it is rewarded for holds."""
        several = len(self.role.rewards) > 1 or self.role.options is not None
        for k, condition in self.role.rewards.items():
            if condition is not None:
                own = condition.holds(last).to(reward.dtype)
                reward = torch.where(rows[:, self.role.place] == k, own, reward) if several else own
        return reward

    def update(self, progress: float) -> dict[str, float]:
        """Learn, and have the hierarchy act by what was learned from now on."""
        self._finish(None, None)
        figures = self.ppo.update(progress)
        self.put()
        return {f"skills.{name}": value for name, value in figures.items()}

    def put(self) -> None:
        """Bring the learned weights to where the skill acts and is stored from."""
        policy = self.role.source.policy
        policy.load_state_dict(self.ppo.policies()[self.role.name].state_dict())
        copy_parts(self._level.policy, [policy])

    def begin(self) -> None:
        """Begin a rollout."""
        self._forget()


class LearnedSkills:
    """All policies of skills of an environment that learn.

    Args:
        env: a hierarchy.
        config: of the high level; `learn_skills` is not "off".
        seed: as of the high level.

    Raises:
        RookeryError: no skill, or one that cannot learn.
    """

    def __init__(self, env: HierarchicalEnv, config: PPOConfig, seed: int) -> None:
        self._config = config
        self._learns = config.skill_learning_rate > 0.0
        self.skills: list[LearnedSkill] = []
        for level in env.levels.values():
            level.learners = []
            self.skills += [
                LearnedSkill(env, level, role, config, seed) for role in level.hierarchy.roles if role.learns
            ]
        self._levels = env.levels
        if not self.skills:
            raise RookeryError(
                "learn_skills has no skill to train: all are controllers or have learn = false. Leave one out."
            )

    def _turn(self, updates: int) -> tuple[bool, bool]:
        """(the high level learns in an update, the skills do)."""
        if not self._learns:
            return True, False
        if self._config.learn_skills == "together":
            return True, True
        high = (updates // self._config.skill_turns) % 2 == 0
        return high, not high

    def begin(self, updates: int) -> None:
        """Begin the rollout of an update: skills explore if they are to learn."""
        explore = self._turn(updates)[1]
        for level in self._levels.values():
            level.learners = [s for s in self.skills if explore and s._level is level]
        for skill in self.skills:
            skill.begin()

    def high_level_learns(self, updates: int) -> bool:
        """True where an update is one of the high level."""
        return self._turn(updates)[0]

    def update(self, updates: int, progress: float) -> dict[str, float]:
        """Let the skills learn if it is their turn; figures by name."""
        if not self._turn(updates)[1]:
            return {}
        return {name: value for skill in self.skills for name, value in skill.update(progress).items()}

    def state_dict(self) -> dict[str, Tensor]:
        """All that their next update depends on."""
        return {f"{s.role.name}/{k}": v for s in self.skills for k, v in s.ppo.state_dict().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved state.

        Raises:
            RookeryError: it does not fit.
        """
        for skill in self.skills:
            skill.ppo.load_state_dict(under(skill.role.name, state, "/"))
            skill.put()

    def close(self) -> None:
        """Free threads."""
        for skill in self.skills:
            skill.ppo.close()
