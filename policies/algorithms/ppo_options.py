"""PPO of decisions that last: agents decide at moments of their own, and only decisions are samples.

An environment whose `deciding` says who decides now (a hierarchy, see policies/hierarchy) makes one control step at a time.
Only who decides is asked for an action, and nothing is learned from the control steps in between. With rewards r, a discount
g a step, and a decision at step t that stood for d steps (Sutton, Precup and Singh 1999, "Between MDPs and semi-MDPs",
equation 3):

    advantage(t) = r_t + g r_t+1 + ... + g^d V(t+d) - V(t) + g^d lambda advantage(t+d)

    control step   0    1    2    3    4    5    6    7
    decides        yes  -    -    yes  -    yes  -    -  | decides: yes
    follows        x    x    x    V3   x    V5   x    x    V8        x: discounted rewards up to the next V
    sample         A0             A3        A5

An option that ends with its episode is cut there: nothing follows a termination, and a new decision would follow a time
limit, V of the last observation. An option that is under way when the rollout ends is a sample of the next one: its decision is
carried over with the rewards so far, and the decision before it has its value to go on from. So no option is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.policies.algorithms.ppo_learner import GroupLearner
from rookery.policies.algorithms.ppo_targets import final_values
from rookery.policies.nn.build import perceptron_of
from rookery.policies.nn.compiled import serves
from rookery.policies.storage.decisions import Decisions
from rookery.policies.storage.prefix import check_state
from rookery.policies.storage.rollout import ActionDraws, Rollout, Samples, moments
from rookery.policies.training.reduction import ALONE
from rookery.sim.arrays import indices
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.policies.algorithms.options_compiled import CompiledDecisions
    from rookery.policies.algorithms.ppo_config import PPOConfig

__all__ = ["Credit", "OptionLearner", "Options", "option_credit"]


@dataclass
class Options:
    """Decisions of one rollout over M = N A agents, R in number.

    Args:
        reward: [T, M] of control steps.
        discount: [T, M] or one number, of what follows each step.
        terminated, truncated: [T, M] bool.
        final: [T, M] value of the last observation where an episode was truncated.
        row: [T, M] int64, the decision that was taken there, -1 for none.
        carried: [M] int64, the decision that was under way when the rollout began, -1 for none.
        carried_reward, carried_discount: [M] its discounted rewards until then, and the discount of what follows.
        last: [M] value of the observation after the last step, of agents that decide there.
        due: [M] bool, who decides there.
    """

    reward: Tensor
    discount: float | Tensor
    terminated: Tensor
    truncated: Tensor
    final: Tensor
    row: Tensor
    carried: Tensor
    carried_reward: Tensor
    carried_discount: Tensor
    last: Tensor
    due: Tensor


@dataclass
class Credit:
    """Outcome of decisions.

    Args:
        advantage: [R], 0 of those that are under way.
        open: [R] bool: under way when the rollout ends.
        reward, discount: [R] of those, their discounted rewards so far, and the discount of what follows.
    """

    advantage: Tensor
    open: Tensor
    reward: Tensor
    discount: Tensor


def option_credit(o: Options, value: Tensor, lam: float) -> Credit:
    """Generalized advantage estimates of decisions, see the module.

    Args:
        o: the rollout.
        value: [R] V at each decision.
        lam: weight of longer estimates, per decision.
    """
    out = Credit(
        torch.zeros_like(value), torch.zeros_like(value, dtype=torch.bool), *(torch.zeros_like(value) for _ in "rd")
    )
    follows, carry = o.last, torch.zeros_like(o.last)
    reward, discount, under = torch.zeros_like(o.last), torch.ones_like(o.last), ~o.due
    for t in range(len(o.reward) - 1, -2, -1):
        if t >= 0:
            row, gain, r = o.row[t], o.discount if isinstance(o.discount, float) else o.discount[t], o.reward[t]
            over = o.terminated[t] | o.truncated[t]
            follows = torch.where(o.truncated[t], o.final[t], follows).masked_fill_(o.terminated[t], 0.0)
            carry = carry.masked_fill(over, 0.0)
            under = under & ~over
        else:
            row, gain, r = o.carried, o.carried_discount, o.carried_reward
        reward, discount = r + gain * reward, gain * discount
        x = r + gain * follows
        decides = row >= 0
        v = value[row.clamp(min=0)]
        advantage = torch.where(under, 0.0, x - v + gain * lam * carry)
        mine = row[decides]
        for name, found in (("advantage", advantage), ("open", under), ("reward", reward), ("discount", discount)):
            getattr(out, name)[mine] = found[decides]
        follows, carry = torch.where(decides, v, x), torch.where(decides, advantage, gain * carry)
        reward, discount = reward.masked_fill(decides, 0.0), discount.masked_fill(decides, 1.0)
        under = under & ~decides
    return out


class OptionLearner(GroupLearner):
    """One group's learner where agents decide at moments of their own.

    Attributes:
        decisions: of the rollout, first those that were carried over.
        carried: by field, the decisions that are under way between rollouts, [N A, ...]: `has` says whose.

    Raises:
        RookeryError: a setting that it cannot serve.
    """

    def __init__(self, name: str, spec: Any, worlds: int, state_size: int, config: PPOConfig, *rest: Any) -> None:
        if config.memory != "none" or config.estimator != "off":
            raise RookeryError(
                "a high level has neither a memory nor a state estimator yet: leave memory and estimator out."
            )
        super().__init__(name, spec, worlds, state_size, config, *rest)
        if self.sets > 1:
            raise RookeryError(
                "agents that decide at moments of their own share their weights: leave share and separate out, or name sets of "
                "agents by --policies."
            )
        count = worlds * self.spec.count
        # what single control steps bring
        self.rollout = Rollout(config.rollout_steps, worlds, self.spec.count, 0, spec.action, 0, self.device)
        self.decisions = Decisions(count, self.spec.observation_size, spec.action, state_size, self.device)
        self.carried = {f: x.new_zeros(count, *x.shape[1:]) for f, x in self.decisions.rows().items() if f != "index"}
        self.carried |= {f: torch.zeros(count, device=self.device) for f in ("log_prob", "reward", "discount")}
        self.carried["has"] = torch.zeros(count, dtype=torch.bool, device=self.device)
        self._taken: list[tuple[int, int, int]] = []  # step, and its decisions from the first to before the last
        self._generator: torch.Generator | None = None
        self._learned: Tensor | None = None
        self._kernel: CompiledDecisions | None = None
        actor = perceptron_of(self.chains.actor)
        if config.compiled and actor is not None and serves(self.chains.actor, self.device):
            from rookery.policies.algorithms.options_compiled import CompiledDecisions

            self._kernel = CompiledDecisions(self.parameters, actor, spec.action)

    # Collecting

    def start(self, generator: torch.Generator) -> None:
        self.rollout.clear()
        self._generator = generator
        self.std = self.log_std.exp()
        if self._kernel is not None:
            self._kernel.start(self.std, self.observations, self.config.normalize_observations)
        self._taken.clear()
        self.decisions.begin()
        before = indices(self.carried["has"])
        self.decisions.reserve(len(before), self._draw)
        self.decisions.add({"index": before} | {f: x[before] for f, x in self.carried.items()})

    def _draw(self, rows: ActionDraws) -> None:
        """Draw the noise of decisions."""
        assert self._generator is not None
        self.head.start(rows, self._generator, ALONE)

    def sample(
        self, t: int, obs: Tensor, state: Tensor | None, active: Tensor | None, privileged_targets: Tensor | None = None,
        reveal_future_mask: Tensor | None = None, action_mask: Tensor | None = None, deciding: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        assert deciding is not None
        self.rollout.set_active(t, active)
        index = indices(deciding if active is None else deciding & active)
        rows, allowed = obs.flatten(0, 1), None if action_mask is None else action_mask.flatten(0, 1)
        out = obs.new_zeros(len(rows), self.spec.action.size)
        decisions = self.decisions
        first = decisions.end
        decisions.reserve(len(index), self._draw)
        if self._kernel is not None:
            self._kernel(decisions, index, rows, allowed, out)
        elif len(index):
            self._decide(index, rows, allowed, out)
        if len(index) and self.states is not None and state is not None:
            world = index // obs.shape[1]
            self.states.gather(state, world, self.config.normalize_observations, decisions.rows()["state"][first:])
        self._taken.append((t, first, decisions.end))
        return out.view(*obs.shape[:2], -1)

    def _decide(self, index: Tensor, obs: Tensor, allowed: Tensor | None, out: Tensor) -> None:
        """Append decisions and give their actions, see `option_kernels.decide`."""
        decisions = self.decisions
        first = decisions.end
        decisions.end += len(index)
        rows = decisions.drawn.worlds(first, decisions.end)
        decisions.index[first : decisions.end] = index
        seen = rows.observation[0, :, 0]
        self.observations.gather(obs, index, self.config.normalize_observations, seen)
        outputs = self.actor.forward_agents(seen[:, None, seen.shape[-1] - self.actor_inputs :])
        self.head.sample(rows, 0, outputs, self.std, None if allowed is None else allowed[index].unsqueeze(1))
        out[index] = rows.action[0, :, 0]

    # Learning

    def samples(
        self, last_obs: Tensor, last_state: Tensor | None, last_active: Tensor | None, deciding: Tensor | None = None
    ) -> Samples:
        """Advantages and targets of the decisions that are over; the others are carried over."""
        assert deciding is not None
        c, roll = self.config, self.rollout
        rows, row, carried = self._decisions()
        critic_input = self._critic_rows(rows["observation"], rows.get("state"))
        value = self.values(critic_input)
        denormalize = self.returns.denormalize if self.returns is not None else (lambda x: x)
        due = deciding if last_active is None else deciding & last_active
        index = indices(due)
        last = torch.zeros(due.numel(), device=self.device)
        if len(index):
            last_rows = self.observations.gather(last_obs.flatten(0, 1), index, record=False)
            world = index // self.spec.count
            own = None
            if self.states is not None and last_state is not None:
                own = self.states.gather(last_state, world, record=False)
            last[index] = denormalize(self.values(self._critic_rows(last_rows, own)))[0]
        terminated, truncated = (x.unsqueeze(-1).expand_as(roll.reward) for x in (roll.terminated, roll.truncated))
        leaves = roll.leaves(last_active)
        terminated = terminated if leaves is None else terminated | leaves
        gain = roll.discount(c.gamma)
        options = Options(
            roll.reward.flatten(1), gain if isinstance(gain, float) else gain.flatten(1), terminated.flatten(1),
            truncated.flatten(1), final_values(self, denormalize).flatten(1), row, carried, self.carried["reward"],
            self.carried["discount"], last, due.flatten(),
        )  # fmt: skip
        credit = option_credit(options, denormalize(value)[0], c.lam)
        over = indices(~credit.open)
        self._carry(rows, credit)
        return self._samples(rows, over, critic_input, value, credit, denormalize)

    def _samples(
        self,
        rows: dict[str, Tensor],
        over: Tensor,
        critic_input: Tensor,
        value: Tensor,
        credit: Credit,
        denormalize: Any,
    ) -> Samples:
        """The decisions `over` as samples; none where every option goes on."""
        advantage = credit.advantage[over].unsqueeze(0)
        returns = advantage + denormalize(value)[:, over]
        self.explained_variance = torch.zeros((), device=self.device)
        if len(over):
            mean, std = moments(advantage, None, self.reduction)
            deviation = moments(returns, None, self.reduction)[1].clamp(min=1e-8)
            self.explained_variance = 1.0 - (std / deviation).square().mean()
            if self.config.normalize_advantages:
                advantage = (advantage - mean) / (std + 1e-8)
            if self.returns is not None:
                self.returns.update(returns)
                returns = self.returns.normalize(returns)
        seen = critic_input[:, over]
        actor_input = seen
        if not self._one_input:
            obs = rows["observation"][over].unsqueeze(0)
            actor_input = obs[..., obs.shape[-1] - self.actor_inputs :]
        options = rows.get("choice_log_probs")
        self._learned = options if options is None or not len(over) else options[over]
        out = Samples(
            actor_input, seen, rows["action"][over].unsqueeze(0), rows["log_prob"][over].unsqueeze(0), advantage, returns,
            value[:, over], None, choice_log_probs=None if options is None else options[over].unsqueeze(0),
        )  # fmt: skip
        return self.compared(out) if len(over) else out

    def _decisions(self) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """All decisions by field [R, ...], those carried over first; where each was taken [T, M], and who carried which [M]."""
        roll = self.rollout
        steps, count = roll.reward.shape[0], roll.reward[0].numel()
        rows = self.decisions.rows()
        before = rows["index"][: int(self.carried["has"].sum())]
        row = torch.full((steps, count), -1, dtype=torch.int64, device=self.device)
        carried = torch.full((count,), -1, dtype=torch.int64, device=self.device)
        carried[before] = torch.arange(len(before), device=self.device)
        for t, first, last in self._taken:
            row[t, rows["index"][first:last]] = torch.arange(first, last, device=self.device)
        drawn = self.decisions.drawn.worlds(0, self.decisions.end)
        rows["log_prob"] = self.head.log_prob(lambda x: x.flatten(0, 2).unsqueeze(0), drawn, self.log_std)[0]
        rows["log_prob"][: len(before)] = self.carried["log_prob"][before]  # of the policy that took them
        return rows, row, carried

    def _critic_rows(self, obs: Tensor, state: Tensor | None) -> Tensor:
        """Inputs [1, R, C] of the critic for normalized observations [R, O] and states [R, S]."""
        return (obs if state is None else torch.cat((state, obs), -1)).unsqueeze(0)

    def _carry(self, rows: dict[str, Tensor], credit: Credit) -> None:
        """Keep the decisions that are under way for the next rollout."""
        for x in self.carried.values():
            x.zero_()
        under = indices(credit.open)
        index = rows["index"][under]
        for f, x in self.carried.items():
            if f in rows:
                x[index] = rows[f][under]
        self.carried["reward"][index] = credit.reward[under]
        self.carried["discount"][index] = credit.discount[under]
        self.carried["has"][index] = True

    def entropy(self) -> Tensor:
        return self.head.entropy(self._learned, self.log_std).mean()

    # Keeping

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | {f"carried/{f}": x for f, x in self.carried.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        own = {f"carried/{f}": x for f, x in self.carried.items()}
        check_state(own, state)
        super().load_state_dict({k: v for k, v in state.items() if k not in own})
        for name, x in own.items():
            x.copy_(state[name])
