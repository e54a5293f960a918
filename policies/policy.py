"""The deployed policy of one agent group: a chain of stages, deterministic, without optimizer.

    policy = Policy(standard(16, 4, hidden=(64, 64)))      # normalize, perceptron, squash; see stages/standard.py
    action = policy(obs)

This is what is stored in a run or zoo folder, played, evaluated and exported. A policy without state is a function of the
observation (`forward`). One with memory also takes its state and gives the next one (`step`); at an episode's start the state
is `initial_state`. `step` serves both: without memory the state is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain as join
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rookery.policies.stages.chain import Link
from rookery.policies.stages.estimator import Estimator
from rookery.policies.stages.part import StageModule
from rookery.policies.stages.torch_chain import ChainModule, StepContext
from rookery.sim.errors import RookeryError

__all__ = ["Layer", "Policy", "layers_of"]


class Policy(ChainModule):
    """Observations [..., O] to actions [..., D] by a chain of stages.

    Actions are in [-1, 1]; those of an action with K choices begin with the indices of the options that are chosen.

    Args:
        links: the stages, see `rookery.policies.stages.chain`.

    Attributes:
        observation_size, action_size: O and D, of a policy for a team those of all its agents.
        agents: of that team; 1 without.
        state_size: H, numbers that its stages keep from step to step; 0 without memory.
        targets: M, length of what a state estimator in it predicts; 0 without.
        options: C, of all choices together; 0 without choices.
        mask_size: C where not every option is allowed at all times, else 0.
        events: names of the E events of the task at which a high level in it decides.

    Raises:
        RookeryError: stages that do not fit together, or a module that cannot be made.
    """

    def __init__(self, links: Sequence[Link]) -> None:
        super().__init__(links)
        self.observation_size = self.chain.inputs
        self.action_size = self.chain.outputs
        self.agents = self.chain.agents
        self.state_size = self.chain.state_size
        self.targets = self.chain.targets
        self.options = self.chain.options
        self.mask_size = self.chain.mask_size
        self.events = self.chain.events

    def forward(self, obs: Tensor, known_targets: Tensor | None = None, action_mask: Tensor | None = None) -> Tensor:
        """Normalized actions [..., D] of a policy without memory.

        Args:
            obs: observations [..., O].
            known_targets: [..., M] targets as the task scales them, NaN where the state estimator predicts them; None for
                NaN everywhere.
            action_mask: [..., C] bool, the options that are allowed; of a policy with `mask_size`.

        Raises:
            RookeryError: the policy has memory, or the mask is none.
        """
        if self.state_size:
            raise RookeryError(
                "this policy has memory: call step(obs, state), at an episode's start with initial_state()."
            )
        return self.step(obs, obs.new_zeros(*obs.shape[:-1], 0), known_targets, action_mask)[0]

    def initial_state(self, *lead: int) -> Tensor:
        """The state at an episode's start: zeros [*lead, H]."""
        weights = next(join(self.parameters(), self.buffers()), torch.zeros(()))
        return weights.new_zeros(*lead, self.state_size)

    def step(
        self,
        obs: Tensor,
        state: Tensor,
        known_targets: Tensor | None = None,
        action_mask: Tensor | None = None,
        **more: Any,
    ) -> tuple[Tensor, Tensor]:
        """Normalized actions [..., D] and the next state [..., H].

        Args:
            obs, known_targets, action_mask: as in `forward`.
            state: [..., H], of the step before.
            more: as of `step_with_logits`.

        Raises:
            RookeryError: the mask is none.
        """
        action, after, _ = self.step_with_logits(obs, state, known_targets, action_mask, **more)
        return action, after

    def step_with_logits(
        self, obs: Tensor, state: Tensor, known_targets: Tensor | None = None, action_mask: Tensor | None = None,
        events: Tensor | None = None, controlled: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """`step`, and the logits [..., C] of all options, of which a mask changes nothing; C is 0 without choices.

        Args:
            obs, state, known_targets, action_mask: as in `step`.
            events: [..., E] bool: which of `events` have happened since the control step before, at which the high level of a
                hierarchy decides; None for none of them.
            controlled: [..., D] actions of the task's classical controller now, of a policy in which it is a skill.

        Raises:
            RookeryError: the mask is none, or the events are others in number.
        """
        if self.mask_size or action_mask is not None:
            self._check_mask(action_mask, obs)
        if events is not None and events.shape[-1] != len(self.events):
            raise RookeryError(
                f"this policy decides at {len(self.events)} events ({', '.join(self.events)}), got {list(events.shape)}: give "
                "[..., E] bool in their order."
            )
        if obs.dim() == 2:
            context = StepContext(state, known_targets, action_mask, events, controlled)
            action = self.run(obs, context)
            return action, context.after, action[:, :0] if context.logits is None else context.logits
        lead = obs.shape[:-1]
        rows = obs.reshape(-1, self.observation_size)
        known = None if known_targets is None else known_targets.reshape(len(rows), self.targets)
        mask = None if action_mask is None else action_mask.reshape(len(rows), self.mask_size)
        now = None if events is None else events.reshape(len(rows), len(self.events))
        given = None if controlled is None else controlled.reshape(len(rows), self.action_size)
        own = self.step_with_logits(rows, state.reshape(len(rows), self.state_size), known, mask, now, given)
        sizes = (self.action_size, self.state_size, self.options)
        action, after, logits = (x.reshape(*lead, size) for x, size in zip(own, sizes, strict=True))
        return action, after, logits

    def _check_mask(self, mask: Tensor | None, obs: Tensor) -> None:
        if not self.mask_size:
            raise RookeryError("this policy may take every option at all times: leave action_mask out.")
        wanted = (*obs.shape[:-1], self.mask_size)
        if mask is None or mask.dtype is not torch.bool or tuple(mask.shape) != wanted:
            got = "none" if mask is None else f"{mask.dtype} {list(mask.shape)}"
            raise RookeryError(
                f"this policy chooses among the options that are allowed now: give action_mask, torch.bool {list(wanted)}, got "
                f"{got}."
            )

    def skills(self, state: Tensor) -> list[str]:
        """The name of the skill that acts for each of its agents, by the state [H] after a step; [] without skills."""
        if not self.chain.decisions:
            return []
        held = self.chain.decisions[0]
        names = held.link.rules.names
        first = held.state.start + 1
        return [names[int(state[first + i])] if len(names) > 1 else names[0] for i in range(self.agents)]

    def predict(self, obs: Tensor) -> Tensor:
        """The state estimator's predictions of its targets [..., M], as the task scales them.

        Raises:
            RookeryError: the policy has no state estimator.
        """
        leaf = next((x for x in self.chain.outer if isinstance(x.stage, Estimator)), None)
        if leaf is None:
            raise RookeryError("this policy has no state estimator: train it with --estimator predict.")
        part = self.part(leaf.name)
        assert isinstance(part, StageModule)
        x = self.input_of(leaf, obs.reshape(-1, self.observation_size))
        assert isinstance(leaf.stage, Estimator)
        return leaf.stage.predict(part.weights, x).reshape(*obs.shape[:-1], self.targets)

    def fault(self) -> str:
        """The first tensor that is not finite, or whose standard deviations are not above zero, in words; "" where all is
        well."""
        declared = self.chain.weights()
        for name, values in self.state_dict().items():
            if not values.isfinite().all():
                return f"NaN or infinity in {name}"
            if name in declared and declared[name].positive and not (values > 0.0).all():
                return f"a standard deviation of zero or below in {name}"
        return ""

    def to_json(self) -> list[dict[str, Any]]:
        """The stages as they stand in the contract; `Policy(StageChain.from_json(...).links)` rebuilds it."""
        return self.chain.to_json()


class Layer(NamedTuple):
    """Weights [out, in] and biases [out] of one layer of a perceptron."""

    weight: Tensor
    bias: Tensor


def layers_of(policy: Policy) -> list[Layer]:
    """The layers of a policy's perceptron, from the first to the last, as it holds them."""
    weights = dict(policy.part("perceptron").named_parameters())
    return [Layer(weights[f"weight_{k}"], weights[f"bias_{k}"]) for k in range(len(weights) // 2)]
