"""The settings of PPO, one sentence for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rookery.policies.algorithms.checks import check_bounds, check_types, check_unused
from rookery.policies.algorithms.encoder_config import EncoderConfig
from rookery.sim.errors import RookeryError


@dataclass(frozen=True)
class PPOConfig(EncoderConfig):
    """Settings of `PPO`. The defaults suit a thousand or more worlds on a CPU and robots that act at 50 to 100 Hz."""

    # Samples
    rollout_steps: int = 32
    """Control steps that each world makes between two updates (T)."""
    epochs: int = 4
    """How often an update goes through the collected samples."""
    minibatches: int = 4
    """Parts into which each epoch's shuffled samples are cut; one optimizer step is made on each."""
    gamma: float = 0.99
    """Discount per control step."""
    lam: float = 0.95
    """Lambda of generalized advantage estimation, per action: 0 trusts the critic after one step, 1 only the rewards."""
    normalize_advantages: bool = True
    """Bring the advantages of an update (over active agents) to mean 0 and standard deviation 1."""

    # Policy
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the policy's hidden layers."""
    network: str = ""
    """Factory of another network for the policy, as "package.module:function" of an installed package or
    "my_file.py:function": called with the sizes (inputs, outputs), it gives a torch.nn.Module; empty for a perceptron of
    `hidden`."""
    memory: Literal["none", "gru"] = "none"
    """Memory before the policy's network and before the critic's, each its own: none, or a gated recurrent unit. An update
    goes back in time through the rollout (`rollout_steps`), and its minibatches are whole sequences."""
    memory_size: int = 64
    """Numbers in the state of each memory."""
    mirror: bool = False
    """Let the networks of robots whose task declares their mirror act alike on both sides: every sample teaches both."""
    activation: Literal["tanh", "elu", "relu"] = "tanh"
    """Activation after every hidden layer, of the policy and the critic."""
    initial_std: float = 0.5
    """Standard deviation of the actions, in units of the normalized action, at the start of training."""
    clip: float = 0.2
    """How far the probability ratio of an action may move from 1 before the sample's gradient is cut off."""
    entropy_coef: float = 0.0
    """Weight of the policy's entropy in the objective; above 0 keeps the actions noisy for longer."""
    normalize_observations: bool = True
    """Bring observations to mean 0 and standard deviation 1 with running statistics, which travel with the policy."""
    obs_clip: float = 10.0
    """Limit of the normalized observations."""
    share: bool = True
    """Whether all agents of a group learn one set of weights; otherwise each learns its own, as separate learners."""
    separate: tuple[str, ...] = ()
    """Names of groups whose agents each learn their own weights although `share` is true."""
    policies: tuple[str, ...] = ()
    """Further sets of weights, as NAME=AGENTS with names of agents, groups or teams between commas: "attack=near_0,near_1". The
    agents of a set share its weights; those that no set names learn as `share` and `separate` say."""

    # Auxiliary state estimator
    estimator: Literal["off", "predict", "privileged"] = "off"
    """What the policy's network gets of the targets that the task declares: nothing, a state estimator's predictions from the
    observation, or the true values, which no robot knows: the most that predictions can bring."""
    estimator_hidden: tuple[int, ...] = (128, 64)
    """Widths of the state estimator's hidden layers."""
    estimator_learning_rate: float = 1e-3
    """Learning rate of the state estimator's own Adam."""
    actor_frames: int | None = None
    """Newest frames of an observation with history that go to the policy's network (state estimator and critic get all);
    None means 1 with a state estimator, and all without."""

    # Critic
    critic: Literal["own", "central"] = "own"
    """The critic's input: the agent's own observation, or (MAPPO) the environment's whole state besides it."""
    critic_hidden: tuple[int, ...] | None = None
    """Widths of the critic's hidden layers; None takes the policy's."""
    value_coef: float = 1.0
    """Weight of the value loss (half the squared error, or Huber) against the policy's."""
    value_loss: Literal["mse", "huber"] = "mse"
    """Half the squared error, or Huber, which is linear beyond `huber_delta`."""
    huber_delta: float = 10.0
    """Where the Huber loss turns linear, in units of the critic's output."""
    value_clip: float | None = None
    """Limit of the critic's move in one update, in units of its output (PPO2's clipped loss); None for no limit."""
    normalize_values: bool = True
    """Let the critic regress returns normalized by running statistics (ValueNorm of the MAPPO paper)."""
    critic_warmup: int = 0
    """Updates at the start in which the critic alone learns, and after them as many in which the learning rate rises: for a
    policy that was taken over from elsewhere."""
    reference_kl_coef: float = 0.0
    """Weight of the policy's divergence from the one that training started from (`--init`), which stays as it was."""
    value_norm_beta: float = 0.99999
    """Memory of those statistics per update; the default is the reference's, all but a plain average over the run."""

    # Skills below a high level (--skills)
    learn_skills: Literal["off", "together", "alternating"] = "off"
    """Whether the skills' policies learn too: in every update, together with the high level, or by turns with it."""
    skill_turns: int = 10
    """Updates of each turn where they alternate; the high level has the first."""
    skill_learning_rate: float = 1e-4
    """Learning rate of skills' policies; 0 leaves them as they are."""
    skill_std: float = 0.1
    """Standard deviation of the skills' actions at the start of training, and of the stored skills' in `skill_kl_coef`."""
    skill_kl_coef: float = 1e-4
    """Weight of a skill's divergence from what it was when it was stored."""
    skill_warmup: int = 4
    """Updates in which a skill's critic alone learns; see `critic_warmup`."""

    # Optimizer
    learning_rate: float = 1e-3
    """Learning rate of Adam, at the start where the schedule changes it."""
    schedule: Literal["fixed", "linear", "adaptive"] = "adaptive"
    """Keep the rate, let it fall to zero at the last step, or divide and multiply it by 1.5 to hold `target_kl`."""
    target_kl: float = 0.01
    """Divergence of the policy in one update that "adaptive" aims at: above twice it slows, below half it speeds up."""
    learning_rate_min: float = 1e-5
    """Lower bound of the adaptive rate; a `learning_rate` below it is the bound itself."""
    learning_rate_max: float = 1e-2
    """Upper bound of the adaptive rate; a `learning_rate` above it is the bound itself."""
    max_grad_norm: float = 1.0
    """Limit of the gradient's norm over all weights of a policy and its critic."""
    compiled: bool = True
    """Compute gradients in a compiled kernel where the networks are small enough (see ppo_compiled.py); the results are those
    of torch but for rounding."""

    def __post_init__(self) -> None:
        check_types(self)
        super().__post_init__()
        check_bounds(self, ("rollout_steps", "epochs", "minibatches", "hidden", "critic_hidden", "estimator_hidden"), 1)
        check_bounds(self, ("actor_frames", "memory_size"), 1)
        check_bounds(self, ("critic_warmup", "entropy_coef", "value_coef", "reference_kl_coef"), 0)
        check_bounds(self, ("skill_learning_rate", "skill_kl_coef", "skill_warmup"), 0)
        check_bounds(self, ("skill_turns",), 1)
        check_bounds(self, ("skill_std",), 0.0, exclude_low=True)
        if self.learn_skills == "off":
            names = ("skill_learning_rate", "skill_std", "skill_kl_coef", "skill_warmup")
            check_unused(self, names, "skills that learn", "learn_skills=together")
        if self.learn_skills != "alternating":
            check_unused(self, ("skill_turns",), "skills that learn by turns", "learn_skills=alternating")
        check_bounds(self, ("gamma", "lam", "value_norm_beta"), 0.0, 1.0)
        positive = ("initial_std", "clip", "obs_clip", "learning_rate", "target_kl", "max_grad_norm", "huber_delta")
        rates = ("estimator_learning_rate", "learning_rate_min", "learning_rate_max", "value_clip")
        check_bounds(self, (*positive, *rates), 0.0, exclude_low=True)
        if self.learning_rate_min > self.learning_rate_max:
            raise RookeryError(
                f"learning_rate_min is {self.learning_rate_min} and learning_rate_max {self.learning_rate_max}: give bounds of "
                "the adaptive rate of which the lower one is not above the upper one."
            )
        if self.memory == "none":
            check_unused(self, ("memory_size",), "networks with memory", "memory=gru")
        others = self.estimator != "off" or self.network or self.memory != "none" or self.encoder != "none"
        if self.mirror and (self.normalize_observations or others):
            raise RookeryError(
                "mirror is for perceptrons of observations as the task declares them: give mirror=false (--no-mirror), or "
                "normalize_observations=false, estimator=off, memory=none, encoder=none and no network."
            )

    @property
    def learning_rate_bounds(self) -> tuple[float, float]:
        """Bounds of the adaptive rate; the rate that was asked for at the start is never outside them."""
        return min(self.learning_rate_min, self.learning_rate), max(self.learning_rate_max, self.learning_rate)
