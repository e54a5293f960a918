"""Proximal policy optimization (Schulman et al. 2017, arXiv 1707.06347) for one or many agents.

It reads in this order: `act` samples actions and `observe` stores what they led to, for T steps of N worlds; `update`
estimates advantages and value targets (GroupLearner.samples, storage.rollout.gae), then makes a few epochs of minibatches,
each one step of the optimizer (`learn`) along the gradients of the clipped surrogate and the value loss (`loss_gradients`).
With several agents in a group this is IPPO, and with ``critic="central"`` MAPPO (Yu et al. 2021, arXiv 2103.01955).
The gradients of the loss by the networks' outputs are written out, and `nn.network.Network.backward` carries them on to the
weights; a test compares them with autograd. Nothing here waits for the device but one transfer of log figures per update. On
a CPU each minibatch is divided among a few threads (nn/parallel.py). Small networks on a CPU take their gradients from a
compiled kernel (ppo_compiled.py); others use the torch operations below, its reference (benchmarks/updates.py has both).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.policies.algorithms.base import Algorithm
from rookery.policies.algorithms.chains import check_encoder
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.algorithms.ppo_learner import GroupLearner
from rookery.policies.algorithms.ppo_options import OptionLearner
from rookery.policies.algorithms.ppo_policies import policies_of
from rookery.policies.algorithms.ppo_rates import adapt_learning_rate, schedule_learning_rate
from rookery.policies.algorithms.ppo_targets import value_losses
from rookery.policies.algorithms.weight_sets import weight_sets
from rookery.policies.nn.actor_critic import Worker
from rookery.policies.nn.choices import Choices
from rookery.policies.nn.parallel import Threads, split
from rookery.policies.policy import Policy
from rookery.policies.storage.prefix import check_state, prefixed
from rookery.policies.storage.rollout import Samples
from rookery.policies.training.reduction import Reduction
from rookery.sim.actions import require_numbers
from rookery.sim.buffers import under
from rookery.sim.env import Env, StepResult
from rookery.sim.errors import RookeryError
from rookery.sim.seeding import restore_generator, torch_generator
from rookery.sim.threads import one_thread_each

if TYPE_CHECKING:
    from rookery.policies.hierarchy.learned_skills import LearnedSkills
    from rookery.policies.training.starting import Starting

__all__ = ["PPO", "PPOConfig"]

FIGURES = ("policy_loss", "value_loss", "approx_kl", "clip_fraction", "estimator_loss")
"""What `loss_gradients` sums up, in this order."""


class PPO(Algorithm):
    """Trains one policy for each group of an environment, or for each set of agents that its config names.

    Args:
        env: the environment; its device is where learning happens.
        config: settings.
        seed: of initial weights, exploration and shuffles.
        inputs: none.

    Attributes:
        learners: by set of weights (the group's name where `policies` has no other), networks and all that belongs to them.
        skills: those below, where they learn too; else None.
        updates: made so far.

    Raises:
        RookeryError: settings that this environment cannot serve.
    """

    Config = PPOConfig
    together = "sums"

    def __init__(
        self, env: Env, config: PPOConfig | None = None, seed: int = 0, inputs: Mapping[str, Any] | None = None
    ) -> None:
        self.env = env
        self.config: PPOConfig = config or PPOConfig()
        self.rollout_steps = self.config.rollout_steps
        self.device = torch.device(env.device)
        self.updates = 0
        self._check()
        self._generator = torch_generator(seed, self.device)
        initial = torch_generator(seed)
        state_size = env.state_size if self.config.critic == "central" else 0
        self.learners = {
            name: (OptionLearner if own.group in (env.deciding or {}) else GroupLearner)(
                name, env.groups[own.group], env.num_envs, state_size, self.config, initial, self.device, own
            )
            for name, own in weight_sets(env, self.config.policies).items()
        }
        self._estimates = any(learner.estimator is not None for learner in self.learners.values())
        if self.config.estimator != "off" and not self._estimates:
            raise RookeryError(
                f'estimator="{self.config.estimator}" needs targets to predict, and no group of this task '
                'declares any: use "off".'
            )
        self.skills: LearnedSkills | None = None
        if self.config.learn_skills != "off":
            self.skills = env.learned_skills(self.config, seed)
        self._threads = Threads()
        self._step = 0  # row of the rollout that the next action goes to
        self._context: dict[str, Tensor] = {}  # see _read_context
        self._last_obs: dict[str, Tensor] | None = None  # after the last row

    def _check(self) -> None:
        """Refuse an environment that PPO cannot learn in."""
        check_encoder(self.config, self.env.groups.values())
        if objectives := self.env.objectives:
            raise RookeryError(
                f"PPO learns from a reward of one number, this one is a vector of {', '.join(objectives)}: wrap the "
                f"environment in rookery.sim.envs.scalarize.LinearScalarization, or give weights (--weights {objectives[0]}=1)."
            )
        if self.config.mirror:
            require_numbers(self.env.groups, "mirror is for", "give mirror=false (--no-mirror)")
        for name in self.config.separate:
            if name not in self.env.groups:
                raise RookeryError(f"separate names group {name!r}: this task has {', '.join(self.env.groups)}.")
        if self.config.critic == "central" and not self.env.state_size:
            raise RookeryError('critic="central" needs the state of the environment, and this one has none: use "own".')

    # Collecting

    @torch.no_grad()
    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        t = self._step
        if t == 0:
            if self.skills is not None:
                self.skills.begin(self.updates)
            for learner in self.learners.values():
                learner.start(self._generator)
            if not self._context:
                self._context = self._read_context()
        context = self._context
        out: dict[str, Tensor] = {}
        for learner in self.learners.values():
            group = learner.members.group
            action = learner.sample(
                t, learner.own(obs[group]), context.get("state"), self._of(learner, "active"),
                self._of(learner, "privileged_targets"), context.get("reveal_future_mask"), self._of(learner, "action_mask"),
                self._of(learner, "deciding"),
            )  # fmt: skip
            if learner.members.whole:
                out[group] = action
                continue
            if group not in out:
                out[group] = action.new_zeros(self.env.num_envs, self.env.groups[group].count, action.shape[2])
            learner.put(action, out[group])
        return out

    def _of(self, learner: GroupLearner, what: str) -> Tensor | None:
        """Values of the context for a learner's agents now, [N, A, ...]."""
        found = self._context.get(f"{what}.{learner.members.group}")
        return None if found is None else learner.own(found)

    @torch.no_grad()
    def observe(self, obs: dict[str, Tensor], actions: dict[str, Tensor], result: StepResult) -> None:
        next_obs, reward, terminated, truncated, info = result
        for learner in self.learners.values():
            learner.record(self._step, reward[learner.members.group], terminated, truncated, info)
        self._context = self._read_context()
        self._last_obs = next_obs
        self._step += 1

    def look_again(self) -> None:
        """Read what stands beside the observations anew, where it has changed since the last step was observed."""
        self._context = self._read_context()

    def _read_context(self) -> dict[str, Tensor]:
        """Values beside the environment's observations now: "state" of a central critic, "active.<group>", "deciding.<group>",
        "action_mask.<group>", "privileged_targets.<group>" and "reveal_future_mask"; what there is none of is left out."""
        context: dict[str, Tensor] = {}
        if self.config.critic == "central":
            context["state"] = self.env.state
        for what, found in (("active", self.env.active), ("deciding", self.env.deciding)):
            context |= {f"{what}.{k}": v.clone() for k, v in (found or {}).items() if v is not None}
        masks = self.env.action_mask or {}
        for name, group in self.env.groups.items():
            if group.action.masked:
                Choices(group.action).check(masks[name], context.get(f"active.{name}"), name)
                context[f"action_mask.{name}"] = masks[name].clone()
        if self._estimates:
            context |= {f"privileged_targets.{k}": v for k, v in (self.env.privileged_targets or {}).items()}
            if (mask := self.env.reveal_future_mask) is not None:
                context["reveal_future_mask"] = mask.clone()
        return context

    def _context_shapes(self) -> dict[str, Tensor]:
        """Zeros of the names, shapes and types that `_read_context` gives."""
        n = self.env.num_envs
        context: dict[str, Tensor] = {}
        if self.config.critic == "central":
            context["state"] = torch.zeros(n, self.env.state_size)
        context |= {f"active.{k}": torch.zeros_like(v) for k, v in (self.env.active or {}).items() if v is not None}
        context |= {f"deciding.{k}": torch.zeros_like(v) for k, v in (self.env.deciding or {}).items()}
        for name, group in self.env.groups.items():
            if group.action.masked:
                context[f"action_mask.{name}"] = torch.zeros(n, group.count, group.action.options, dtype=torch.bool)
            if self._estimates and group.targets:
                size = sum(t.size for t in group.targets)
                context[f"privileged_targets.{name}"] = torch.zeros(n, group.count, size)
        if self._estimates and self.env.reveal_future_mask is not None:
            context["reveal_future_mask"] = torch.zeros(n, dtype=torch.bool)
        return context

    # Learning

    @torch.no_grad()
    @one_thread_each
    def update(self, progress: float) -> dict[str, float]:
        if self._last_obs is None or self._step < self.rollout_steps:
            raise RookeryError(
                f"update() has {self._step} of {self.rollout_steps} steps to learn from: act and observe first."
            )
        figures: dict[str, Tensor] = {}
        for name, learner in self.learners.items():
            schedule_learning_rate(self.config, learner, self.updates, progress)
            if self.updates == self.config.critic_warmup > 0:
                # Adam divides by the size of gradients of long ago: the policy's were zero, and its first steps would be huge
                learner.adam.reset()
            last = learner.own(self._last_obs[learner.members.group])
            who = (self._of(learner, what) for what in ("active", "deciding"))
            samples = learner.samples(last, self._context.get("state"), *who)
            for figure, mean in zip(FIGURES, self._learn_epochs(learner, samples).mean(1), strict=True):
                if figure != "estimator_loss" or learner.estimator is not None:
                    figures[f"{name}/{figure}"] = mean
            if learner.log_std.numel():
                figures[f"{name}/std"] = learner.log_std.exp().mean()
            figures[f"{name}/entropy"] = learner.entropy()
            figures[f"{name}/explained_variance"] = learner.explained_variance
            figures[f"{name}/learning_rate"] = learner.learning_rate.mean()
            if learner.reference is not None:
                figures[f"{name}/reference_kl"] = learner.reference.divergence_now
            learner.finish()
        values = torch.stack(list(figures.values())).tolist()  # the one wait for the device
        below = {} if self.skills is None else self.skills.update(self.updates, progress)
        self.updates += 1
        self._step = 0
        return dict(zip(figures, values, strict=True)) | below

    def _learn_epochs(self, learner: GroupLearner, samples: Samples) -> Tensor:
        """All epochs of minibatches; returns the means of FIGURES over minibatches, [5, G]."""
        c = self.config
        sums = torch.zeros(len(FIGURES), learner.sets, device=self.device)
        if self.skills is not None and not self.skills.high_level_learns(self.updates):
            return sums
        made = 0  # minibatches
        for epoch in range(c.epochs):
            before, first = sums.clone(), made
            for batch, rows, count in learner.epoch(samples, self._generator):
                sums += self.learn(learner, batch, rows, count)
                made += 1
            if c.schedule == "adaptive" and not self.policy_frozen and made > first:
                approx_kl = self.reduction.sum((sums - before)[FIGURES.index("approx_kl")]) / (made - first)
                adapt_learning_rate(c, learner, approx_kl, last=epoch == c.epochs - 1)
        return self.reduction.sum(sums) / max(1, made)

    def learn(self, learner: GroupLearner, batch: Samples, rows: slice, count: int | Tensor) -> Tensor:
        """One optimizer step on the minibatch `rows`, in which `count` samples count, [G, 1] or one number; returns FIGURES of
        these rows, [5, G]."""
        parts = split(rows, len(learner.workers), learner.sequence)
        jobs = [(learner, i, batch, part, count) for i, part in enumerate(parts)]
        sums = sum(self._threads.map(self._gradients, jobs))
        assert isinstance(sums, Tensor)
        for worker in learner.workers[1:]:
            learner.gradients += worker.gradients
        if not self.policy_frozen and not learner.head.partial:
            # d entropy / d log std = 1, in equal shares from all processes
            learner.workers[0].log_std_grad -= self.config.entropy_coef / self.reduction.size
        if learner.symmetry is not None:
            learner.symmetry.project(learner.gradients)
        learner.adam.step(learner.learning_rate)
        if learner.estimator is not None:
            learner.estimator.step()
        return sums

    def _gradients(self, learner: GroupLearner, i: int, batch: Samples, rows: slice, count: int | Tensor) -> Tensor:
        """`loss_gradients` in the memory of worker i, compiled where the networks allow it."""
        if learner.compiled:
            return learner.compiled[i].compute(batch, rows, count, self.policy_frozen)
        return self.loss_gradients(learner, learner.workers[i], batch, rows, count)

    def loss_gradients(
        self, learner: GroupLearner, worker: Worker, batch: Samples, rows: slice, count: int | Tensor
    ) -> Tensor:
        """Gradients of the loss over `rows`, in the worker's memory; returns FIGURES over these rows, [5, G].

        With ratio = p / p_old, advantage A and the weight of a sample w = 1 / count (0 for inactive agents):

            policy loss  = -sum w min(ratio A, clip(ratio) A)      d/d log p = -w ratio A where that is the smaller
            d log p / d outputs and log std                        ppo_heads.py, choices included
            value loss   = sum w error^2 / 2 (or Huber)            d/d value = w error (limited by Huber's delta)
            reference    = coef sum w KL(new|reference)            ppo_reference.py
            approx KL(old|new) = sum w (ratio - 1 - log ratio)     Schulman's k3, joschu.net/blog/kl-approx.html; of choices
                                                                   the divergence itself

        Args:
            learner: whose weights.
            worker: the calling thread's networks and gradients.
            batch: shuffled samples.
            rows: of the minibatch that are this thread's.
            count: samples of the whole minibatch that count, [G, 1] or one number.
        """
        c = self.config
        worker.zero_grad()
        sums = torch.zeros(len(FIGURES), learner.sets, device=self.device)
        head = learner.head
        for s in batch.chunks(rows, learner.chunk):
            w: Any = 1.0 / count if s.active is None else s.active / count
            mean = worker.mean_action(s)
            seen = head.compare(mean, s, learner.log_std)
            ratio = seen.log_ratio.exp()
            surrogate = ratio * s.advantage
            clipped_surrogate = ratio.clamp(1.0 - c.clip, 1.0 + c.clip).mul_(s.advantage)
            surrogate_grad = torch.where(surrogate <= clipped_surrogate, surrogate, 0.0).mul_(-1.0 * w).unsqueeze(2)
            if self.policy_frozen:
                surrogate_grad.zero_()
            entropy_coef = 0.0 if self.policy_frozen else c.entropy_coef
            grad = head.gradient(seen, surrogate_grad, w, worker, learner.log_std, entropy_coef)
            if learner.reference is not None and s.reference is not None and not self.policy_frozen:
                coef = c.reference_kl_coef * w
                grad += learner.reference.gradient(mean, s.reference, learner.log_std, coef, worker)
            worker.actor.backward(grad)

            value = worker.value(s)
            value_loss, value_grad = value_losses(c, value, s)
            worker.critic.backward(value_grad.mul_(c.value_coef * w).unsqueeze(2))

            if worker.estimator is not None and s.privileged_targets is not None:
                sums[4] += worker.estimator.learn(s.critic_input, s.privileged_targets, w)

            sums[0] -= (torch.minimum(surrogate, clipped_surrogate) * w).sum(1)
            sums[1] += (value_loss * w).sum(1)
            sums[3] += (((ratio - 1.0).abs() > c.clip) * w).sum(1)
            sums[2] += head.divergence(seen, ratio, s).mul_(w).sum(1)
        return sums

    @property
    def policy_frozen(self) -> bool:
        """True where the critic alone learns (`critic_warmup`)."""
        return self.updates < self.config.critic_warmup

    # Keeping

    def starting(self) -> Mapping[str, Starting]:
        return self.learners

    def policies(self) -> dict[str, Policy]:
        return {name: policy for learner in self.learners.values() for name, policy in policies_of(learner).items()}

    def state_dict(self) -> dict[str, Tensor]:
        """All that the next update depends on. Between updates the rollout is empty, and only then may it be saved.

        Raises:
            RookeryError: in the middle of a rollout.
        """
        if self._step:
            raise RookeryError(
                f"PPO is at step {self._step} of a rollout of {self.rollout_steps}: save after update()."
            )
        state = {f"{name}/{k}": v for name, g in self.learners.items() for k, v in g.state_dict().items()}
        state |= {f"context/{k}": v for k, v in self._context.items()}
        if self.skills is not None:
            state |= prefixed("skills", self.skills.state_dict())
        return state | {"generator": self._generator.get_state(), "updates": torch.tensor(self.updates)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        own = {k: v for k, v in self.state_dict().items() if not k.startswith(("context/", "skills."))}
        below = under("skills", state)
        context = {k.removeprefix("context/"): v for k, v in state.items() if k.startswith("context/")}
        state = {k: v for k, v in state.items() if not k.startswith(("context/", "skills."))}
        check_state(own, state)
        for name in state.keys() - own.keys():
            raise RookeryError(f"the saved state has {name!r}: it is of another config.")
        if context or int(state["updates"]):
            check_state(self._context_shapes(), context)
        if self.skills is not None:
            self.skills.load_state_dict(below)
        for name, learner in self.learners.items():
            prefix = f"{name}/"
            learner.load_state_dict({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
        restore_generator(self._generator, state["generator"])
        self.updates = int(state["updates"])
        self._context = {k: v.to(self.device) for k, v in context.items()}

    def world_axis(self, name: str) -> int | None:
        if name.startswith("context/"):
            return 0
        return 1 if "/memory." in name else None

    def share(self, reduction: Reduction) -> None:
        super().share(reduction)
        for learner in self.learners.values():
            learner.share(reduction)

    def close(self) -> None:
        self._threads.close()
        if self.skills is not None:
            self.skills.close()
