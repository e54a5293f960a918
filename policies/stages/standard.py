"""The chain that Rookery's own algorithms make policies of."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.policies.stages.chain import Beside, Link, StageChain
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.estimator import Estimator
from rookery.policies.stages.gru import GRU
from rookery.policies.stages.module import Module
from rookery.policies.stages.normalize import Normalize
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.select import Select, newest
from rookery.policies.stages.squash import SQUASHES, Squash, SquashFunction
from rookery.sim.errors import unknown

__all__ = ["ACTIVATIONS", "is_plain", "standard", "trunk"]

ACTIVATIONS = ("tanh", "elu", "relu")


def standard(
    observation_size: int,
    action_size: int,
    hidden: Sequence[int] = (64, 64),
    activation: str = "tanh",
    obs_clip: float = 10.0,
    squash: str = "clip",
    *,
    actor_inputs: int | None = None,
    encoder: Sequence[Link] = (),
    estimator: Sequence[int] = (),
    targets: int = 0,
    memory_size: int = 0,
    module: str = "",
    choose: Choose | None = None,
) -> list[Link]:
    """The stages of a policy, most of which are optional.

        observation --normalize--+--newest frames--encoder--+--GRU--perceptron or module--+--choose--+--> action
                                 +--state estimator---------+                             +--squash--+

    Args:
        observation_size: O.
        action_size: D, and in place of a choice a logit for each of its options: what perceptron or module give.
        hidden: widths of the perceptron's hidden layers.
        activation: "tanh", "elu" or "relu", of perceptron and state estimator.
        obs_clip: limit of the normalized observation.
        squash: "clip" to [-1, 1], or "tanh".
        actor_inputs: how many components at the observation's end, its newest frames, go on; None for all.
        encoder: stages that they go through.
        estimator: widths of the state estimator's hidden layers; unused without targets.
        targets: M, length of what it predicts; 0 for no state estimator.
        memory_size: H, numbers in the state of a GRU before the perceptron; 0 for none.
        module: "package.module:function" of a factory of the network in place of the perceptron; "" for none.
        choose: of an action with choices, whose logits come before the numbers.

    Raises:
        RookeryError: an unknown activation or squash, or sizes that no stage can have.
    """
    if activation not in ACTIVATIONS:
        raise unknown("activation", activation, ACTIVATIONS)
    if squash not in SQUASHES:
        raise unknown("squash", squash, SQUASHES)
    count = observation_size if actor_inputs is None else actor_inputs
    before: list[Link] = [*newest(observation_size, count), *encoder]
    if targets:
        predicts = Estimator(observation_size, tuple(estimator), targets, activation, obs_clip)  # type: ignore[arg-type]
        whole = (Select(observation_size, ((0, observation_size),)),)
        before = [Beside((tuple(before) or whole, (predicts,)))]
    size = before[-1].outputs if before else observation_size
    return [
        Normalize(observation_size, float(obs_clip)),
        *before,
        *trunk(size, action_size, hidden, activation, memory_size, module),
        *_last(action_size, squash, choose),  # type: ignore[arg-type]
    ]


def _last(size: int, squash: SquashFunction, choose: Choose | None) -> list[Link]:
    """From the network's outputs to the action: choices first, then numbers in [-1, 1]."""
    if choose is None:
        return [Squash(size, squash)]
    count = choose.inputs
    if count == size:
        return [choose]
    numbers = (Select(size, ((count, size),)), Squash(size - count, squash))
    return [Beside(((Select(size, ((0, count),)), choose), numbers))]


def trunk(
    inputs: int, outputs: int, hidden: Sequence[int], activation: str, memory_size: int = 0, module: str = ""
) -> list[Link]:
    """A GRU, where there is memory, and a perceptron or a module; see `standard`."""
    memory: list[Link] = [GRU(inputs, memory_size)] if memory_size else []
    width = memory_size or inputs
    if module:
        return [*memory, Module(width, outputs, module)]
    return [*memory, Perceptron(width, tuple(hidden), outputs, activation)]  # type: ignore[arg-type]


def is_plain(chain: StageChain) -> bool:
    """True where a chain is a perceptron on the whole observation, whose actions are clipped, and nothing else."""
    last = chain.links[-1]
    return chain.kinds == ["normalize", "perceptron", "squash"] and isinstance(last, Squash) and last.function == "clip"
