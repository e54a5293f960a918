"""The deployed policies of a PPO learner."""

from __future__ import annotations

from rookery.policies.algorithms.ppo_learner import GroupLearner
from rookery.policies.policy import Policy
from rookery.policies.storage.normalizers import put_statistics


def policies_of(learner: GroupLearner) -> dict[str, Policy]:
    """The deterministic policies as they are now: one under the group's name where it is of all its agents, else "<group>_<i>"
    for each agent, which those of a set share."""
    out: dict[str, Policy] = {}
    estimator = learner.estimator
    group, agents = learner.members.group, learner.members.agents
    for g in range(learner.sets):
        policy = Policy(learner.chains.policy)
        put_statistics(policy, "normalize", learner.observations)
        if estimator is not None:
            put_statistics(policy, "estimator", estimator.scale)
            estimator.network.write_to(policy.part("estimator").parameters(), g)
        learned = [p for name, p in policy.named_parameters() if not name.startswith("estimator.")]
        learner.actor.write_to(learned, g)
        if learner.members.whole and learner.sets == 1:
            return {group: policy}
        out |= dict.fromkeys([f"{group}_{i}" for i in (agents if learner.sets == 1 else agents[g : g + 1])], policy)
    return out
