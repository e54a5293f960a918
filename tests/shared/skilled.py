"""Skills for small environments: policies whose action is a constant, and sets of them."""

from __future__ import annotations

from typing import Any

import torch

from rookery.policies.hierarchy.hierarchical_env import HierarchicalEnv
from rookery.policies.hierarchy.hierarchy import SkillSource, make_hierarchy
from rookery.policies.hierarchy.skill_set import skills_of
from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.standard import standard
from rookery.sim.env import Env
from rookery.sim.specs import Group
from rookery.sim.teams import team_agents


def constant(group: Group, value: float) -> Policy:
    """A policy that always acts by the same number."""
    policy = Policy(standard(group.observation_size, group.action.size, ()))
    layer = layers_of(policy)[0]
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.fill_(value)
    return policy.eval()


def skilled(env: Env, policies: dict[str, Policy], group: str = "", **settings: Any) -> HierarchicalEnv:
    """A hierarchy over an environment.

    Args:
        env: its only group has the skills, or `group`.
        policies: by the name that the settings give them.
        group: of several.
        settings: of the set; without `skills` each policy is one.
    """
    name = group or next(iter(env.groups))
    settings.setdefault("skills", {k: {"policy": k} for k in policies})
    sources = {k: SkillSource(policy, env.groups[name], env.control_dt) for k, policy in policies.items()}
    skills = skills_of(settings)
    agents = team_agents(env, name).shape[1] if skills.central else 1
    known = env.task_id, env.control_dt, env.event_names
    made = make_hierarchy(skills, env.groups[name], sources, *known, agents)
    return HierarchicalEnv(env, {name: made})
