"""PPO's learning rate from update to update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.policies.algorithms.ppo_config import PPOConfig
    from rookery.policies.algorithms.ppo_learner import GroupLearner


def schedule_learning_rate(c: PPOConfig, learner: GroupLearner, updates: int, progress: float) -> None:
    """Set the learning rate of an update; "adaptive" changes it further in `adapt_learning_rate`.

    After the critic's warm-up it rises over as many updates again: fresh from its reset, Adam moves every weight by the
    whole rate at each step, whatever the gradient's noise.

    Args:
        c: settings.
        learner: whose rate.
        updates: made before.
        progress: share of the training, 0 to 1.
    """
    since = updates - c.critic_warmup
    rising = min(1.0, (since + 1) / (c.critic_warmup + 1)) if c.critic_warmup and since >= 0 else 1.0
    if c.schedule == "adaptive":
        if since == 0 < c.critic_warmup:
            learner.learning_rate.fill_(c.learning_rate * rising)
        return
    decay = 1.0 - progress if c.schedule == "linear" else 1.0
    learner.learning_rate.fill_(c.learning_rate * max(0.0, decay) * rising)


def adapt_learning_rate(c: PPOConfig, learner: GroupLearner, approx_kl: Tensor, last: bool) -> None:
    """Slow down after any epoch that went too far; speed up only after a whole update that stayed near.

    Args:
        c: settings.
        learner: whose rate.
        approx_kl: mean over the epoch's minibatches [G].
        last: whether this is the update's last epoch.
    """
    rate = learner.learning_rate
    too_far = (approx_kl > 2.0 * c.target_kl).unsqueeze(1)
    near = (approx_kl < 0.5 * c.target_kl).unsqueeze(1) & last
    new = torch.where(too_far, rate / 1.5, torch.where(near, rate * 1.5, rate))
    rate.copy_(new.clamp_(*c.learning_rate_bounds))
