"""From an algorithm's settings to stages: of the policy that is deployed, of its part that learns, and of the critic.

This is the one place that knows what the settings hidden, activation, memory, memory_size, encoder, network and estimator make
of a group. All algorithms build their networks of what they find here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rookery.policies.algorithms.encoder_config import EncoderConfig
from rookery.policies.stages import encoder_class
from rookery.policies.stages.chain import Beside, Link, StageChain
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.pictures import Convolutions, PictureOptions
from rookery.policies.stages.select import Select
from rookery.policies.stages.stage import Stage
from rookery.policies.stages.standard import standard, trunk
from rookery.policies.storage.normalizers import ObservationNorm
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group

__all__ = ["Chains", "check_encoder", "encoder_links", "observation_norm", "pictures_in", "policy_chains"]


@dataclass(frozen=True)
class Chains:
    """Stages of one group's networks.

    Args:
        policy: the deployed policy, from the observation to the action.
        actor: its part that the algorithm's loss moves, from the actor's input: the newest frames of a normalized observation,
            then what stands for a state estimator's predictions.
        critic: from the central state, if any, and the whole observation to one value.
        actor_inputs: components of the newest frames.
        targets: M, of the state estimator; 0 without.
    """

    policy: list[Link]
    actor: list[Link]
    critic: list[Link]
    actor_inputs: int
    targets: int


def policy_chains(config: Any, group: Group, state_size: int = 0, outputs: int | None = None) -> Chains:
    """The chains of an algorithm's settings.

    Args:
        config: with hidden, activation, obs_clip and the settings of `EncoderConfig`; those of memory, estimator, network and
            the critic's own where the algorithm has them.
        group: its observation, action and targets.
        state_size: S, of a central critic's state before the observation.
        outputs: of the actor; None for one number for each action, and a logit for each option of a choice.

    Raises:
        RookeryError: settings that do not go with the group's terms.
    """
    estimator = getattr(config, "estimator", "off")
    targets = group.target_size if estimator != "off" else 0
    frames = min(getattr(config, "actor_frames", None) or (1 if targets else group.history), group.history)
    size = group.frame_size * frames
    memory = config.memory_size if getattr(config, "memory", "none") != "none" else 0
    module = getattr(config, "network", "")
    encoder = encoder_links(config, group, frames)
    _check_no_states(config, encoder)
    policy = standard(
        group.observation_size, group.action.outputs, config.hidden, config.activation, config.obs_clip,
        getattr(config, "squash", "clip"),
        actor_inputs=size, encoder=encoder, targets=targets, memory_size=memory, module=module,
        estimator=getattr(config, "estimator_hidden", ()), choose=Choose.of(group.action) if group.action.choices else None,
    )  # fmt: skip
    before = _beside_rest(encoder, 0, size, targets)
    width = before[-1].outputs if before else size + targets
    number = group.action.outputs if outputs is None else outputs
    actor = [*before, *trunk(width, number, config.hidden, config.activation, memory, module)]
    hidden = getattr(config, "critic_hidden", None)
    before = _beside_rest(encoder_links(config, group, group.history), state_size, group.observation_size, 0)
    width = before[-1].outputs if before else state_size + group.observation_size
    critic = [*before, *trunk(width, 1, config.hidden if hidden is None else hidden, config.activation, memory)]
    return Chains(policy, actor, critic, size, targets)


def _beside_rest(encoder: Sequence[Link], before: int, size: int, after: int) -> list[Link]:
    """An encoder of the middle of a row, with the numbers before and after beside it; nothing without an encoder."""
    whole = before + size + after
    if not encoder or whole == size:
        return list(encoder)
    branches: list[tuple[Link, ...]] = [(Select(whole, ((before, before + size),)), *encoder)]
    if before:
        branches.insert(0, (Select(whole, ((0, before),)),))
    if after:
        branches.append((Select(whole, ((whole - after, whole),)),))
    return [Beside(tuple(branches))]


def encoder_links(config: EncoderConfig, group: Group, frames: int) -> list[Link]:
    """Stages that so many frames of a group's observation go through; nothing where the settings ask for nothing, or the group
    has nothing for it.

    Raises:
        RookeryError: options or terms that do not go together, such as a picture that is too small.
    """
    if config.encoder == "none":
        return []
    cls = encoder_class(config.encoder)
    options = cls.options_of(config.encoder_options)
    if cls is Convolutions:
        options = PictureOptions(config.encoder_channels, config.encoder_kernels, config.encoder_strides)
    links = cls.encoder(group, frames, config.activation, options)  # type: ignore[attr-defined]
    _check_encoder_links(links, cls, frames * group.frame_size)
    return links


def _check_no_states(config: Any, encoder: Sequence[Link]) -> None:
    """Refuse an encoder that remembers: it would be trained as if each step were an episode's first.

    Raises:
        RookeryError: a stage has a state.
    """
    for leaf in StageChain(tuple(encoder)).leaves if encoder else ():
        if leaf.stage.state_size:
            raise RookeryError(
                f"encoder={config.encoder} gave a stage with a state, {type(leaf.stage).__name__}, and one is learned "
                "through time in the one GRU of memory=gru alone: give stages without one, and take that GRU (--memory gru)."
            )


def _check_encoder_links(links: object, cls: type, size: int) -> None:
    """Refuse what `encoder` of a class that somebody else wrote may not give.

    Raises:
        RookeryError: no list of stages, or one that takes rows of another size than `size`, or has no outputs.
    """
    where = f"encoder() of {cls.__name__}"
    if not isinstance(links, (list, tuple)) or not all(isinstance(link, Link) for link in links):
        raise RookeryError(f"{where} gave {links!r}: give a list of stages, such as [cls(...)].")
    if links and links[0].inputs != size:
        raise RookeryError(
            f"{where} gave a stage of {links[0].inputs} inputs, and the observation has {size} numbers: make it for "
            "frames * group.frame_size of them."
        )
    for link in links:
        if link.outputs < 1:
            raise RookeryError(
                f"{where} gave a stage of {link.inputs} inputs and {link.outputs} outputs: give options (--encoder-options) "
                "with which it has at least one output."
            )


def check_encoder(config: EncoderConfig, groups: Iterable[Group]) -> None:
    """Refuse an encoder where no group observes what it is for.

    Raises:
        RookeryError: there is none, with the terms that there are.
    """
    groups = list(groups)
    if config.encoder == "none" or any(encoder_links(config, group, group.history) for group in groups):
        return
    cls = encoder_class(config.encoder)
    names = ", ".join(dict.fromkeys(t.name for group in groups for t in group.observation))
    raise RookeryError(
        f"encoder={config.encoder} needs {cls.needs}, and this task observes none ({names:.200}): {cls.way_out}, or "
        "encoder=none."
    )


def pictures_in(links: Sequence[Link]) -> Convolutions | None:
    """The stage of pictures in a chain."""
    for link in links:
        if isinstance(link, Convolutions):
            return link
        for branch in link.branches if isinstance(link, Beside) else ():
            if found := pictures_in(branch):
                return found
    return None


def observation_norm(config: Any, group: Group, device: torch.device | str = "cpu") -> ObservationNorm:
    """The normalizer of a group's observations: what its encoder wants to have one scale has one, and what it wants to see as
    it is stays so."""
    size = group.observation_size
    pools = list(range(size))
    fixed: list[int] = []
    _places(encoder_links(config, group, group.history), list(range(size)), pools, fixed)
    norm = ObservationNorm(size, config.obs_clip, device, pools if pools != list(range(size)) else None)
    if fixed:
        mask = torch.zeros(size, dtype=torch.bool, device=device)
        mask[fixed] = True
        zeros: Tensor = torch.zeros(size, device=device)
        norm.set_statistics(zeros, zeros + 1.0, mask)
    return norm


def _places(links: Sequence[Link], places: list[int] | None, pools: list[int], fixed: list[int]) -> None:
    """Follow the components of the observation at `places` through a chain, as far as they stay what they are."""
    for link in links:
        if places is None:
            return
        if isinstance(link, Beside):
            for branch in link.branches:
                _places(branch, places, pools, fixed)
            return
        if isinstance(link, Select):
            places = [places[i] for i in link.places]
            continue
        assert isinstance(link, Stage)  # what learns has no skills in it
        for place, pool in zip(places, link.pools() or (), strict=False):
            pools[place] = places[pool]
        fixed += [places[i] for i in link.fixed()]
        places = None
