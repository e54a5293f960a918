"""The settings that all off-policy algorithms share, one sentence for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rookery.policies.algorithms.checks import changed, check_bounds, check_types, check_unused
from rookery.policies.algorithms.encoder_config import EncoderConfig
from rookery.sim.errors import RookeryError


@dataclass(frozen=True)
class OffPolicyConfig(EncoderConfig):
    """Settings of an `OffPolicy` algorithm."""

    squash: ClassVar[str] = "tanh"

    rollout_steps: int = 64
    """Control steps that every world makes between two updates."""
    updates_per_step: float = 1.0
    """Gradient steps for each control step that all worlds make at once, however many they are; may be below 1."""
    learning_starts: int = 1000
    """Control steps over all worlds in which actions are uniformly random and nothing is learnt."""
    batch: int = 256
    """Transitions of one gradient step."""
    buffer_size: int = 1_000_000
    """Control steps over all worlds that the replay memory holds."""
    gamma: float = 0.99
    """Discount per control step."""
    n_step: int = 1
    """Control steps in a row whose rewards are summed before the critics' estimate of the rest. More of them carry rewards back
    sooner, and depend more on the older policies that acted."""
    tau: float = 0.005
    """Share of the networks that their targets take over at each gradient step."""
    learning_rate: float = 3e-4
    """Learning rate of Adam for all networks, at the start where the schedule changes it."""
    schedule: Literal["fixed", "linear"] = "fixed"
    """Keep the rate, or let it fall to zero at the last step."""
    policy_every: int = 1
    """Gradient steps of the critics for each one of the policy."""
    policy_value: Literal["min", "mean", "first"] = "min"
    """What the policy climbs: the least of the critics (SAC), their mean (REDQ and DroQ), or the first one (TD3)."""
    critic: Literal["own", "central"] = "own"
    """What the critics see: the agent's own observation, or the state of the environment besides (MAPPO's critic, for SAC)."""
    memory: Literal["none", "gru"] = "none"
    """What the policy has before its network, and the critics before theirs: nothing, or a gated recurrent unit, learnt by
    backpropagation through sequences from stored states (R2D2, Kapturowski et al. 2019)."""
    memory_size: int = 64
    """Numbers in the state of each memory."""
    memory_steps: int = 16
    """Control steps of a sequence that networks with memory learn from; a batch holds batch / memory_steps sequences."""
    memory_burn_in: int = 0
    """Control steps before each sequence through which states run up from the stored ones, without being learnt from (R2D2
    takes half as many as are learnt from)."""
    critic_memory: bool = True
    """Give the critics a memory too; they can do without one where they see the state of the environment (critic="central")."""
    picture_shift: int = 0
    """Pixels by which each picture of a batch is shifted at most, along rows and columns (DrQ, Kostrikov et al. 2020, arXiv
    2004.13649, takes 4 of 84)."""
    critics: int = 2
    """Critics, each with weights of its own."""
    target_critics: int = 2
    """Critics whose least value is the target: a random subset at every gradient step, or all (REDQ, Chen et al. 2021, arXiv
    2101.05982, takes 2 of 10)."""
    critic_layer_norm: bool = False
    """Normalize the critics' hidden layers, which keeps values of unseen actions in bounds (RLPD, Ball et al. 2023, arXiv
    2302.02948)."""
    critic_dropout: float = 0.0
    """Share of the critics' hidden units that is zero in each call (DroQ, Hiraoka et al. 2021, arXiv 2110.02034: 0.01, with
    layer normalization and 20 updates per step)."""
    critic_batch_norm: bool = False
    """Normalize the critics' inputs and hidden layers by the statistics of a batch, in which present and next actions are
    together (CrossQ, Bhatt et al. 2024, arXiv 1902.05605)."""
    critic_unit_weights: bool = False
    """Bring the weights of each of the critics' units back to length 1 after every gradient step (XQC, Palenicek et al. 2025,
    arXiv 2509.25174)."""
    critic_hypersphere: bool = False
    """Give the critics a residual block for each hidden layer, four times as wide inside, whose weights and features have
    length 1 (SimbaV2, Lee et al. 2025, arXiv 2502.15280)."""
    return_limit: float | None = None
    """Divide rewards by the running standard deviation of discounted returns, and by more where the largest would be beyond
    this (SimbaV2 takes 5); none leaves them as they are."""
    atoms: int = 1
    """Values of each critic's distribution of returns, learnt by cross-entropy (C51, Bellemare et al. 2017, arXiv 1707.06887);
    1 predicts the mean return alone."""
    value_low: float = -10.0
    """First of these values; discounted returns below it count as it."""
    value_high: float = 10.0
    """Last of these values, likewise."""
    weight_decay: float = 0.0
    """Share of the learning rate by which the weights of policy and critics shrink at a gradient step (AdamW, Loshchilov and
    Hutter 2017, arXiv 1711.05101)."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of the policy and the critics."""
    activation: Literal["tanh", "elu", "relu"] = "relu"
    """Activation after every hidden layer."""
    normalize_observations: bool = True
    """Bring observations to mean 0 and standard deviation 1 with running statistics, which are a part of the policy."""
    obs_clip: float = 10.0
    """Limit of the normalized observations."""
    mirror: bool = False
    """Mirror every other transition of a batch, of robots whose task declares their mirror, so that both sides teach both."""
    demonstration_share: float = 0.5
    """Share of every batch that is drawn from the demonstrations, where there are any (RLPD takes half)."""
    priority_alpha: float = 0.0
    """Power of the critics' error by which a transition is drawn more often, at most 1; 0 draws uniformly (prioritized
    experience replay, Schaul et al. 2016, arXiv 1511.05952, takes 0.6)."""
    priority_beta: float = 0.4
    """How far importance weights make up for that at the start of the training, growing to 1, wholly, at its end (Schaul et al.
    take 0.4)."""
    hindsight_share: float = 0.0
    """Share of a batch whose goal is replaced by what was reached later in the episode, for tasks with a goal that is hard to
    reach by chance (hindsight experience replay, Andrychowicz et al. 2017, arXiv 1707.01495, takes 0.8)."""
    goal: str = ""
    """Term of the observation that says the goal, or components of it as TERM[0:3]: an offset from what is reached, or the goal
    itself beside `goal_achieved`."""
    goal_achieved: str = ""
    """Term of the observation that says what is reached, in the same units; empty where `goal` is an offset."""
    goal_within: float = 0.05
    """Distance within which the task takes a goal for reached, in the term's unit."""
    goal_reward: float = 1.0
    """Amount by which the task's reward of a step is greater where the goal is reached after it."""

    def __post_init__(self) -> None:
        check_types(self)
        super().__post_init__()
        whole = (
            "rollout_steps",
            "batch",
            "buffer_size",
            "hidden",
            "n_step",
            "policy_every",
            "critics",
            "target_critics",
            "atoms",
            "memory_size",
            "memory_steps",
        )
        check_bounds(self, whole, 1)
        check_bounds(self, ("learning_starts", "memory_burn_in", "picture_shift"), 0)
        check_bounds(self, ("updates_per_step", "tau", "learning_rate", "obs_clip"), 0.0, exclude_low=True)
        check_bounds(self, ("gamma", "tau"), 0.0, 1.0)
        check_bounds(self, ("critic_dropout",), 0.0, 0.9)
        check_bounds(self, ("demonstration_share", "weight_decay", "priority_alpha", "priority_beta"), 0.0, 1.0)
        check_bounds(self, ("return_limit",), 0.0, exclude_low=True)
        check_bounds(self, ("hindsight_share",), 0.0, 1.0)
        check_bounds(self, ("goal_within",), 0.0, exclude_low=True)
        self._check_critics()
        self._check_inputs()
        self._check_hindsight()
        if self.encoder != "cnn":
            check_unused(self, ("picture_shift",), "networks with an encoder of pictures", "encoder=cnn")
        if self.priority_alpha == 0.0:
            check_unused(self, ("priority_beta",), "transitions that are drawn by their error", "priority_alpha=0.6")
        if self.atoms == 1:
            check_unused(self, ("value_low", "value_high"), "critics that predict distributions", "atoms=101")
        elif not self.value_low < self.value_high:
            raise RookeryError(
                f"value_low is {self.value_low} and value_high {self.value_high}: give the least and the greatest discounted "
                "return that the critics should tell apart."
            )

    @property
    def sequence(self) -> int:
        """Transitions in a row that are drawn together: 1 without memory."""
        return 1 if self.memory == "none" else self.memory_steps

    @property
    def window(self) -> int:
        """Control steps in a row that are drawn together, burn-in included."""
        return 1 if self.memory == "none" else self.memory_burn_in + self.memory_steps

    def _check_inputs(self) -> None:
        """Raises RookeryError where settings of what networks learn from contradict others."""
        if self.mirror and self.critic == "central":
            raise RookeryError(
                'mirror is for critics that see observations alone: give mirror=false (--no-mirror), or critic="own".'
            )
        remade = [n for n in ("memory", "encoder") if getattr(self, n) != "none"]
        for name in ("mirror", "critic_batch_norm"):
            if remade and getattr(self, name):
                raise RookeryError(
                    f"{name} is for networks without {remade[0]}: give {name}=false, or {remade[0]}=none."
                )
        if self.memory == "none":
            names = ("memory_size", "memory_steps", "memory_burn_in", "critic_memory")
            check_unused(self, names, "networks with memory", "memory=gru")
            return
        if self.batch % self.memory_steps:
            raise RookeryError(
                f"a batch of {self.batch} holds no whole number of sequences of {self.memory_steps} steps: give a multiple of "
                "memory_steps."
            )
        for name, default in changed(self, ("n_step", "priority_alpha", "priority_beta", "picture_shift")):
            raise RookeryError(f"{name} is for networks without memory: give {name}={default:g}, or memory=none.")

    def _check_hindsight(self) -> None:
        """Raises RookeryError where a goal is missing, or settings do not go with other goals."""
        if self.hindsight_share == 0.0:
            names = ("goal", "goal_achieved", "goal_within", "goal_reward")
            check_unused(self, names, "transitions with other goals", "hindsight_share=0.8")
            return
        if not self.goal:
            raise RookeryError(
                "hindsight_share needs the goal: name the term of the observation that says it, goal=TERM."
            )
        for name, wanted in (("n_step", 1), ("memory", "none"), ("critic", "own"), ("encoder", "none")):
            if getattr(self, name) != wanted:
                raise RookeryError(
                    f"hindsight_share is for single steps of what an agent observes: give {name}={wanted}, or "
                    "hindsight_share=0."
                )

    def _check_critics(self) -> None:
        """Raises RookeryError where settings of the critics contradict each other."""
        if self.critic_hypersphere:
            others = [n for n in ("layer_norm", "batch_norm", "dropout") if getattr(self, f"critic_{n}")]
            if others:
                raise RookeryError(
                    f"critic_hypersphere has normalizations of its own: leave out critic_{others[0]}, or critic_hypersphere."
                )
            if len(set(self.hidden)) != 1:
                raise RookeryError(
                    f"critic_hypersphere has blocks of one width, and hidden is {list(self.hidden)}: give equal widths."
                )
        if self.critic_batch_norm and self.critic_layer_norm:
            raise RookeryError("critic_batch_norm and critic_layer_norm normalize the same layers: give one of them.")
        if self.target_critics > self.critics:
            raise RookeryError(
                f"target_critics is {self.target_critics}, of {self.critics} critics: give at most {self.critics}."
            )
