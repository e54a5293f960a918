"""Start a training from a policy that has learned another task, or the same one under other settings.

Only the policy is taken over, as exactly as its observation allows: terms are matched by name, and inputs that the other task
did not have, a state estimator's predictions among them, begin with weights of zero. The critic and the exploration begin
afresh: with `critic_warmup` the critic alone learns at first.

The normaliser's statistics are fixed at those of the stored policy. Were they to go on, exploration would change them, and the
policy with them although its weights stay: a component that hardly moved under the stored policy has a small standard
deviation, which noise in the actions multiplies. A policy that opened the drawer of table-drawer-open in every episode opened
it in none after ten updates of the critic's warm-up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from rookery.policies.algorithms.ppo import PPO
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.algorithms.ppo_learner import GroupLearner
from rookery.policies.nn.encoder import Encoded
from rookery.policies.nn.mlp import MLP
from rookery.policies.nn.network import Network
from rookery.policies.policy import Policy
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group


@torch.no_grad()
def warm_start(ppo: PPO, policies: dict[str, Policy], groups: Mapping[str, Group]) -> None:
    """Put stored policies into a PPO that has not begun.

    Args:
        ppo: changed in place.
        policies: by group.
        groups: of the task that they were trained in; their terms name the inputs.

    Raises:
        RookeryError: a group, an action kind or a network of another shape.
    """
    for name, learner in ppo.learners.items():
        policy = policies.get(name)
        stored = groups.get(name)
        if policy is None or stored is None:
            raise RookeryError(f"the policy to start from has no group {name!r}, it has {', '.join(policies)}.")
        _check_fit(ppo.config, learner, policy, stored)
        _take_over(ppo.config, learner, policy, stored)
        if learner.symmetry is not None and not learner.symmetry.holds(learner.parameters):
            raise RookeryError("the policy to start from does not act alike left and right: leave mirror out.")


def _check_fit(config: PPOConfig, learner: GroupLearner, policy: Policy, stored: Group) -> None:
    """Refuse a stored policy whose network, frames or actions are not this learner's."""
    if policy.targets:
        raise RookeryError(
            "a policy with a state estimator cannot be taken over from another task: resume its own run, or start afresh."
        )
    if policy.memory_size or config.memory != "none":
        raise RookeryError(
            "a policy with memory cannot be taken over, nor one without into one with memory: resume its own run, or leave "
            "--init or --memory out."
        )
    if policy.module or config.network or policy.squash != "clip":
        raise RookeryError(
            "PPO starts only from a perceptron whose actions are clipped: leave --init out, or take a policy of PPO, imitation "
            "or cloning without a network of its own."
        )
    frames, own = policy.actor_inputs // stored.frame_size, learner.actor_inputs // learner.spec.frame_size
    if frames > own:
        shown = f"--actor-frames {frames}" if learner.spec.history >= frames else f"--task-config history={frames}"
        raise RookeryError(
            f"the policy to start from takes the last {frames} observations, and this one the last {own}: give {shown}, where "
            "the task has them."
        )
    if policy.encoder_spec or learner.encoder:
        _check_encoders(config, learner, policy, stored)
    kind = learner.spec.action.kind
    if stored.action.kind != kind:
        raise RookeryError(f"the policy to start from acts by {stored.action.kind!r}, and this task by {kind!r}.")
    if (policy.hidden, policy.activation) != (tuple(config.hidden), config.activation):
        raise RookeryError(
            f"the policy to start from has hidden layers {list(policy.hidden)} with {policy.activation}, and this one "
            f"{list(config.hidden)} with {config.activation}: give --hidden and --activation as there."
        )


def _check_encoders(config: PPOConfig, learner: GroupLearner, policy: Policy, stored: Group) -> None:
    """Refuse pictures that do not go through the same convolutions, in as many frames."""
    old, new = policy.encoder_spec, learner.encoder
    if old is None or new is None:
        has = "no encoder of pictures, and this one has" if old is None else "an encoder of pictures, and this one none"
        raise RookeryError(f"the policy to start from has {has}: give --encoder as there.")
    names, own = ([t.name for t in g.observation if t.shape] for g in (stored, learner.spec))
    sizes = [[(p.rows, p.columns, p.channels) for p in spec.pictures] for spec in (old, new)]
    settings = [(spec.channels, spec.kernels, spec.strides) for spec in (old, new)]
    if names != own or sizes[0] != sizes[1] or settings[0] != settings[1]:
        raise RookeryError(
            f"the policy to start from has an encoder of {names} of {sizes[0]} with channels, kernels and strides of "
            f"{settings[0]}, and this one of {own} of {sizes[1]} with {settings[1]}: give the same."
        )
    if old.frames(policy.actor_inputs) != new.frames(learner.actor_inputs):
        raise RookeryError(
            "a policy with an encoder is taken over by one that sees as many frames: give history as there."
        )
    pixels = [p.start + i for p in old.pictures for i in range(p.size)]
    plain = (
        not policy.mean.view(-1, old.frame)[:, pixels].any()
        and (policy.std.view(-1, old.frame)[:, pixels] == 1.0).all()
    )
    scales = [[t.scale for t in g.observation if t.shape] for g in (stored, learner.spec)]
    if not config.normalize_observations and not (plain and scales[0] == scales[1]):
        raise RookeryError(
            "the policy to start from normalises its pictures, and this one does not: give normalize_observations=true."
        )


def _take_over(config: PPOConfig, learner: GroupLearner, policy: Policy, stored: Group) -> None:
    """Copy the weights, the first layer's columns term by term, and fix the normaliser. Frames older than those of the
    stored policy begin with weights of zero."""
    first, *rest = (layer for layer in policy.layers if isinstance(layer, nn.Linear))
    normalizes = config.normalize_observations
    # Without a normaliser of its own, the learner has the stored one folded into the first layer.
    hidden = policy.observation_size - policy.actor_inputs  # components of frames that the network does not see
    weight, features = _unpacked(policy, first.weight)
    weight = weight if normalizes else weight / policy.std[hidden:]
    bias = first.bias if normalizes else first.bias - weight @ policy.mean[hidden:]
    first_weight = torch.zeros(learner.actor.inputs, weight.shape[0])  # frames, the newest last, then predictions
    frame = learner.spec.frame_size
    newest = learner.actor_inputs - frame
    ages = range(policy.actor_inputs // stored.frame_size)
    history = learner.spec.history
    mean = torch.zeros(history, frame)
    std = torch.ones(history, frame)
    taken = torch.zeros(history, frame, dtype=torch.bool)
    slices = stored.slices()
    scales = {t.name: t.scale for t in stored.observation}
    start = 0
    for term in learner.spec.observation:
        columns = slice(start, start + term.size)
        start += term.size
        old = slices.get(term.name)
        if old is None or old.stop - old.start != term.size:
            continue
        scale = scales[term.name] / term.scale
        for age in ages:
            ours = slice(newest - age * frame + columns.start, newest - age * frame + columns.stop)
            before = hidden + age * stored.frame_size
            theirs = weight[:, old.start - before : old.stop - before]
            first_weight[ours] = theirs.T * (1.0 if normalizes else scale)
        for age in range(history):  # frames that the stored policy did not have get the statistics of its oldest one
            before = min(age, stored.history - 1) * stored.frame_size
            theirs_of_age = slice(old.start - before, old.stop - before)
            mean[history - 1 - age, columns] = policy.mean[theirs_of_age] / scale
            std[history - 1 - age, columns] = policy.std[theirs_of_age] / scale
        taken[:, columns] = True
    if normalizes:
        flat: list[Tensor] = [x.flatten().to(learner.device) for x in (mean, std, taken)]
        learner.observations.set_statistics(*flat)
    if learner.encoder is not None:
        first_weight = torch.cat((first_weight[learner.encoder.kept(learner.actor_inputs)], features))
    head = learner.actor
    for g in range(learner.sets):
        if isinstance(head, Encoded):
            head.encoder.read_from(policy.encoder, g)
        _write(head.head if isinstance(head, Encoded) else head, g, first_weight, bias, rest)


def _unpacked(policy: Policy, weight: Tensor) -> tuple[Tensor, Tensor]:
    """A first layer's weights [H, actor_inputs], zero for pictures, and those of the encoder's features [features, H], from
    its weights [H, in] behind the encoder, if there is one."""
    if policy.encoder_spec is None:
        return weight, weight.new_zeros(0, len(weight))
    kept = policy.encoder_spec.kept(policy.actor_inputs)
    whole = weight.new_zeros(len(weight), policy.actor_inputs)
    whole[:, kept] = weight[:, : len(kept)]
    return whole, weight[:, len(kept) :].T


def _write(mlp: Network, g: int, first_weight: Tensor, bias: Tensor, rest: Sequence[nn.Linear]) -> None:
    """Put a first layer [in, H] and the others into the perceptron g."""
    assert isinstance(mlp, MLP)
    mlp.weights[0][g].copy_(first_weight)
    mlp.biases[0][g, 0].copy_(bias)
    for k, layer in enumerate(rest, start=1):
        mlp.weights[k][g].copy_(layer.weight.T)
        mlp.biases[k][g, 0].copy_(layer.bias)
