"""Networks that a stored policy can be put into before they learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    from rookery.policies.algorithms.chains import Chains
    from rookery.policies.nn.network import Network
    from rookery.policies.storage.normalizers import ObservationNorm
    from rookery.sim.specs import Group

__all__ = ["Starting"]


class Starting(Protocol):
    """The policy's part of one group in an algorithm.

    Attributes:
        config: settings of the algorithm.
        spec: the group.
        chains: stages of its networks.
        actor: the network that becomes the policy.
        actor_inputs: components of the newest frames that it gets.
        observations: normalizer before it.
        sets: independent sets of weights.
        device: where they are.
    """

    config: Any
    spec: Group
    chains: Chains
    actor: Network
    actor_inputs: int
    observations: ObservationNorm
    sets: int
    device: torch.device

    def begun(self) -> None:
        """Take note that a policy has been put in.

        Raises:
            RookeryError: it cannot begin with that one.
        """
