"""The deployed policies of a PPO learner."""

from __future__ import annotations

from rookery.policies.algorithms.ppo_learner import GroupLearner
from rookery.policies.nn.recurrent import Recurrent
from rookery.policies.policy import Policy


def policies_of(learner: GroupLearner) -> dict[str, Policy]:
    """The deterministic policies as they are now: one under the group's name where it is of all its agents, else "<group>_<i>"
    for each agent, which those of a set share."""
    out: dict[str, Policy] = {}
    c = learner.config
    estimator = learner.estimator
    for g in range(learner.sets):
        policy = Policy(
            learner.spec.observation_size,
            learner.spec.action.outputs,
            () if c.network else c.hidden,
            c.activation,
            c.obs_clip,
            learner.actor_inputs,
            c.estimator_hidden,
            0 if estimator is None else estimator.size,
            module=c.network,
            memory=c.memory,
            memory_size=c.memory_size,
            encoder=learner.encoder,
            squash="none" if learner.spec.action.choices else "clip",
        )
        policy.mean.copy_(learner.observations.mean)
        policy.std.copy_(learner.observations.std)
        learner.actor.write_to(policy.body if c.network else policy.layers, g)
        if learner.actor.encoder is not None:
            learner.actor.encoder.write_to(policy.encoder, g)
        if isinstance(learner.actor, Recurrent):
            learner.actor.gru.write_to(policy.cell, g)
        if estimator is not None:
            policy.target_mean.copy_(estimator.scale.mean)
            policy.target_std.copy_(estimator.scale.std)
            estimator.network.write_to(policy.estimator, g)
        group, agents = learner.members.group, learner.members.agents
        if learner.members.whole and learner.sets == 1:
            return {group: policy}
        out |= dict.fromkeys([f"{group}_{i}" for i in (agents if learner.sets == 1 else agents[g : g + 1])], policy)
    return out
