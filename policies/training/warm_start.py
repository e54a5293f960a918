"""Start a training from a policy that has learned another task, or the same one under other settings.

Only the policy is taken over, as exactly as its observation allows: terms are matched by name, and inputs that the other task
did not have, a state estimator's predictions among them, begin with weights of zero. Stages other than a perceptron and
convolutions of pictures are taken over where the policy has the very same stages and terms. The critic and the exploration
begin afresh: with `critic_warmup` the critic alone learns at first.

The normalizer's statistics are fixed at those of the stored policy. Were they to go on, exploration would change them, and the
policy with them although its weights stay: a component that hardly moved under the stored policy has a small standard
deviation, which noise in the actions multiplies. A policy that opened the drawer of table-drawer-open in every episode opened
it in none after ten updates of the critic's warm-up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.policies.algorithms.chains import pictures_in
from rookery.policies.nn.encoder import Encoded
from rookery.policies.nn.network import Network
from rookery.policies.policy import Layer, Policy, layers_of
from rookery.policies.stages.chain import Beside, Link, StageChain
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.normalize import Normalize
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.pictures import Convolutions
from rookery.policies.stages.select import Select
from rookery.policies.stages.squash import Squash
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group

if TYPE_CHECKING:
    from rookery.policies.algorithms.base import Algorithm
    from rookery.policies.training.starting import Starting


def with_limit_of(config: Any, policies: Mapping[str, Policy]) -> Any:
    """The settings of a training that starts from stored policies: normalized observations are limited as there.

    A normalizer with the usual limit may be folded into the first layer of a learner of raw observations, since hardly anything
    is ten standard deviations off. With another limit the learner normalizes as the policy does.

    Args:
        config: as asked for.
        policies: by group.

    Raises:
        RookeryError: another `obs_clip` was asked for, or the policies' limits differ.
    """
    limits = {name: _limit(policy) for name, policy in policies.items()}
    if len(set(limits.values())) > 1:
        shown = ", ".join(f"{limit} in {name}" for name, limit in limits.items())
        raise RookeryError(f"the policies to start from have other limits of observations each, {shown}: start afresh.")
    (limit,) = set(limits.values())
    usual = type(config).obs_clip
    if config.obs_clip not in (limit, usual):
        raise RookeryError(
            f"the policy to start from limits normalized observations to {limit}, and obs_clip is {config.obs_clip}: leave "
            "obs_clip out."
        )
    if limit == usual:
        return config
    if config.normalize_observations:
        return replace(config, obs_clip=limit)
    return replace(config, obs_clip=limit, normalize_observations=any(map(_normalizes, policies.values())))


def _check_limit(config: Any, policy: Policy) -> None:
    """Refuse settings under which the policy's observations would be limited otherwise; see `with_limit_of`."""
    limit = _limit(policy)
    folded = _normalizes(policy) and not config.normalize_observations
    if limit != config.obs_clip or (folded and limit != type(config).obs_clip):
        raise RookeryError(
            f"the policy to start from limits normalized observations to {limit}, and this one "
            f"{'raw' if folded else 'normalized'} ones to {config.obs_clip}: give obs_clip={limit} and "
            f"normalize_observations={str(config.normalize_observations or folded).lower()}."
        )


def _limit(policy: Policy) -> float:
    """Limit of normalized observations."""
    first = policy.chain.links[0]
    assert isinstance(first, Normalize)  # as of every policy that is stored
    return first.clip


def _normalizes(policy: Policy) -> bool:
    """False where the normalizer changes nothing within its limit."""
    mean, std = (policy.get_buffer(f"normalize.{name}") for name in ("mean", "std"))
    return bool(mean.any()) or bool((std != 1.0).any())


@torch.no_grad()
def warm_start(algorithm: Algorithm, policies: dict[str, Policy], groups: Mapping[str, Group]) -> None:
    """Put stored policies into an algorithm that has not begun.

    Args:
        algorithm: changed in place; one that can start from policies.
        policies: by group.
        groups: of the task that they were trained in; their terms name the inputs.

    Raises:
        RookeryError: a group, an action kind or a network of another shape, or another limit of observations, see
            `with_limit_of`.
    """
    for name, learner in algorithm.starting().items():
        policy = policies.get(name)
        stored = groups.get(name)
        if policy is None or stored is None:
            raise RookeryError(f"the policy to start from has no group {name!r}, it has {', '.join(policies)}.")
        config = learner.config
        _check_limit(config, policy)
        if _is_same(config, learner, policy, stored):
            _copy(learner, policy)
        else:
            _check_fit(config, learner, policy, stored)
            _take_over(config, learner, policy, stored)
        learner.begun()


def _is_same(config: Any, learner: Starting, policy: Policy, stored: Group) -> bool:
    """True where a policy with an encoder of its own kind is this learner's, term by term.

    Raises:
        RookeryError: it is, but for its normalizer.
    """
    own, theirs = ((g.observation, g.history, g.action.kind) for g in (learner.spec, stored))
    same = StageChain(tuple(learner.chains.policy)) == policy.chain and own == theirs
    plain = config.encoder in ("none", "cnn") or policy.state_size or policy.targets
    if not same or plain:
        return False
    if _normalizes(policy) and not config.normalize_observations:
        raise RookeryError(
            "the policy to start from normalizes its observations, and this one does not: give --normalize-observations."
        )
    return True


def _copy(learner: Starting, policy: Policy) -> None:
    """Take over all weights, and fix the normalizer."""
    mean, std = (policy.get_buffer(f"normalize.{name}").to(learner.device) for name in ("mean", "std"))
    learner.observations.set_statistics(mean, std, torch.ones_like(mean, dtype=torch.bool))
    for g in range(learner.sets):
        learner.actor.read_from(policy.parameters(), g)


@dataclass(frozen=True)
class _Shape:
    """The part that is taken over: newest components of the observation, pictures among them, and the perceptron."""

    actor_inputs: int
    pictures: Convolutions | None
    perceptron: Perceptron


def _shape(policy: Policy) -> _Shape:
    """The shape of a stored policy.

    Raises:
        RookeryError: it has other stages.
    """
    links = list(policy.chain.links[1:-1])
    count = policy.observation_size
    if links and isinstance(links[0], Select):
        count = links.pop(0).outputs
    pictures = pictures_in(links[:-1])
    expected = [] if pictures is None else pictures.beside_numbers()
    last = links[-1] if links else None
    if not isinstance(last, Perceptron) or links[:-1] != expected or not _is_plain_end(policy.chain.links[-1]):
        raise RookeryError(
            "a training starts only from a perceptron, perhaps behind convolutions, whose actions are clipped, or from the "
            f"very same stages on the very same terms, and this policy has {policy.chain.words}: leave --init out, or take a "
            "policy of PPO, imitation or cloning."
        )
    return _Shape(count, pictures, last)


def _is_plain_end(link: Link) -> bool:
    """True where numbers are clipped, with choices before them or not; see `standard`."""
    if isinstance(link, Beside):
        return all(isinstance(branch[0], Select) and _is_plain_end(branch[-1]) for branch in link.branches)
    return isinstance(link, Choose) or (isinstance(link, Squash) and link.function == "clip")


def _check_fit(config: Any, learner: Starting, policy: Policy, stored: Group) -> None:
    """Refuse a stored policy whose stages, frames or actions are not this learner's."""
    if policy.targets:
        raise RookeryError(
            "a policy with a state estimator cannot be taken over from another task: resume its own run, or start afresh."
        )
    if policy.state_size or config.memory != "none":
        raise RookeryError(
            "a policy with memory cannot be taken over, nor one without into one with memory: resume its own run, or leave "
            "--init or --memory out."
        )
    old = _shape(policy)
    if config.network or config.encoder not in ("none", "cnn"):
        raise RookeryError(
            "a policy is taken over by a perceptron, perhaps behind convolutions, or by the very same stages on the very same "
            "terms: leave --init out, or give --network and --encoder as there."
        )
    frames, own = old.actor_inputs // stored.frame_size, learner.actor_inputs // learner.spec.frame_size
    if frames > own:
        shown = f"--actor-frames {frames}" if learner.spec.history >= frames else f"--task-config history={frames}"
        raise RookeryError(
            f"the policy to start from takes the last {frames} observations, and this one the last {own}: give {shown}, where "
            "the task has them."
        )
    if old.pictures or pictures_in(learner.chains.actor):
        _check_encoders(config, learner, policy, stored)
    kind = learner.spec.action.kind
    if stored.action.kind != kind:
        raise RookeryError(
            f"the policy to start from acts by {stored.action.kind!r}, and this task by {kind!r}: take one of a task "
            "with the same."
        )
    given, wanted = (_components(group.action) for group in (stored, learner.spec))
    if given != wanted:
        raise RookeryError(
            f"the policy to start from has the actions {given}, and this task {wanted}: take one of a task with the same."
        )
    network = old.perceptron
    if (network.hidden, network.activation) != (tuple(config.hidden), config.activation):
        raise RookeryError(
            f"the policy to start from has hidden layers {list(network.hidden)} with {network.activation}, and this one "
            f"{list(config.hidden)} with {config.activation}: give --hidden and --activation as there."
        )


def _components(action: ActionSpec) -> str:
    """Choices with their options, and the number of continuous components."""
    choices = [f"{choice.name} ({', '.join(choice.options)})" for choice in action.choices]
    return ", ".join([*choices, f"{len(action.names)} numbers"])


def _check_encoders(config: Any, learner: Starting, policy: Policy, stored: Group) -> None:
    """Refuse pictures that do not go through the same convolutions, in as many frames."""
    old, new = _shape(policy).pictures, pictures_in(learner.chains.actor)
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
    if old.frames != new.frames:
        raise RookeryError(
            "a policy with an encoder is taken over by one that sees as many frames: give history as there."
        )
    pixels = [p.start + i for p in old.pictures for i in range(p.size)]
    plain = (
        not policy.get_buffer("normalize.mean").view(-1, old.frame)[:, pixels].any()
        and (policy.get_buffer("normalize.std").view(-1, old.frame)[:, pixels] == 1.0).all()
    )
    scales = [[t.scale for t in g.observation if t.shape] for g in (stored, learner.spec)]
    if not config.normalize_observations and not (plain and scales[0] == scales[1]):
        raise RookeryError(
            "the policy to start from normalizes its pictures, and this one does not: give normalize_observations=true."
        )


def _take_over(config: Any, learner: Starting, policy: Policy, stored: Group) -> None:
    """Copy the weights, the first layer's columns term by term, and fix the normalizer. Frames older than those of the
    stored policy begin with weights of zero."""
    first, *rest = layers_of(policy)
    shape = _shape(policy)
    old_mean, old_std = (policy.get_buffer(f"normalize.{name}") for name in ("mean", "std"))
    normalizes = config.normalize_observations
    # Without a normalizer of its own, the learner has the stored one folded into the first layer.
    hidden = policy.observation_size - shape.actor_inputs  # components of frames that the network does not see
    weight, features = _unpacked(shape, first.weight)
    weight = weight if normalizes else weight / old_std[hidden:]
    bias = first.bias if normalizes else first.bias - weight @ old_mean[hidden:]
    first_weight = torch.zeros(learner.actor.inputs, weight.shape[0])  # frames, the newest last, then predictions
    frame = learner.spec.frame_size
    newest = learner.actor_inputs - frame
    ages = range(shape.actor_inputs // stored.frame_size)
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
            mean[history - 1 - age, columns] = old_mean[theirs_of_age] / scale
            std[history - 1 - age, columns] = old_std[theirs_of_age] / scale
        taken[:, columns] = True
    if normalizes:
        flat: list[Tensor] = [x.flatten().to(learner.device) for x in (mean, std, taken)]
        learner.observations.set_statistics(*flat)
    pictures = pictures_in(learner.chains.actor)
    if pictures is not None:
        first_weight = torch.cat((first_weight[pictures.kept], features))
    head = learner.actor
    for g in range(learner.sets):
        if isinstance(head, Encoded):
            head.encoder.read_from([p for n, p in policy.named_parameters() if n.startswith("pictures.")], g)
        _write(head.head if isinstance(head, Encoded) else head, g, first_weight, bias, rest)


def _unpacked(shape: _Shape, weight: Tensor) -> tuple[Tensor, Tensor]:
    """A first layer's weights [H, actor_inputs], zero for pictures, and those of the encoder's features [features, H], from
    its weights [H, in] behind the encoder, if there is one."""
    if shape.pictures is None:
        return weight, weight.new_zeros(0, len(weight))
    kept = shape.pictures.kept
    whole = weight.new_zeros(len(weight), shape.actor_inputs)
    whole[:, kept] = weight[:, : len(kept)]
    return whole, weight[:, len(kept) :].T


def _write(mlp: Network, g: int, first_weight: Tensor, bias: Tensor, rest: Sequence[Layer]) -> None:
    """Put a first layer [in, H] and the others into the perceptron g."""
    mlp.read_from([first_weight.T, bias, *(x for layer in rest for x in layer)], g)
