"""Speed of rsl_rl's PPO on our drone-hover: worlds step in `rookery`, and rsl_rl acts, stores and learns.

    benchmarks/peers/.venv-rsl-rl/bin/python benchmarks/peers/rsl_rl_speed.py [--cases train-256 update-2048]

    train-N    control steps per second of N worlds while they are collected and learnt from, by turns
    update-N   gradient steps per second, collection off the clock; a minibatch is N * 24 / 4 samples

The environment of this peer has our package beside rsl_rl, so that both trainers step the very same worlds. Settings are
those below for both (ours: benchmarks/ppo.py); neither writes logs or checkpoints. Torch may use all processors.
"""

from __future__ import annotations

from typing import Any

from slices import Slice, alone, timed

TASK = "drone-hover"
WORLDS = (256, 2048)
KINDS = ("train", "update")
NAMES = [f"{kind}-{n}" for n in WORLDS for kind in KINDS]

STEPS = 24  # of a rollout
EPOCHS = 5
MINIBATCHES = 4
HIDDEN = (64, 64)
ACTIVATION = "elu"
LEARNING_RATE = 1e-3
GAMMA = 0.99
LAMBDA = 0.95
CLIP = 0.2
INITIAL_STD = 0.5

MODEL = {"class_name": "MLPModel", "hidden_dims": list(HIDDEN), "activation": ACTIVATION, "obs_normalization": False}


def settings() -> dict[str, Any]:
    """rsl_rl's training configuration."""
    gaussian = {"class_name": "GaussianDistribution", "init_std": INITIAL_STD, "std_type": "scalar"}
    algorithm = {
        "class_name": "PPO",
        "num_learning_epochs": EPOCHS,
        "num_mini_batches": MINIBATCHES,
        "learning_rate": LEARNING_RATE,
        "schedule": "fixed",
        "gamma": GAMMA,
        "lam": LAMBDA,
        "clip_param": CLIP,
        "entropy_coef": 0.0,
        "value_loss_coef": 1.0,
        "use_clipped_value_loss": False,
    }
    return {
        "num_steps_per_env": STEPS,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "algorithm": algorithm,
        "actor": {**MODEL, "distribution_cfg": gaussian},
        "critic": dict(MODEL),
        "multi_gpu": None,
    }


def adapter(worlds: int) -> Any:
    """Our environment of one group with one agent, as rsl_rl wants it."""
    import torch
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict

    import rookery

    class Adapter(VecEnv):
        def __init__(self) -> None:
            self.env = rookery.make(TASK, num_envs=worlds)
            ((self.name, group),) = self.env.groups.items()
            self.num_envs = worlds
            self.num_actions = group.action.size
            self.max_episode_length = self.env.max_episode_steps
            self.device = "cpu"
            self.cfg: dict[str, Any] = {}
            self._obs = self._wrap(self.env.reset(0)[0])
            self.env.stagger()

        def _wrap(self, obs: Any) -> Any:
            return TensorDict({"policy": obs[self.name].squeeze(1)}, batch_size=[worlds])

        def get_observations(self) -> Any:
            return self._obs

        def step(self, actions: Any) -> Any:
            obs, reward, terminated, truncated, _ = self.env.step({self.name: actions.unsqueeze(1)})
            self._obs = self._wrap(obs)
            done = torch.logical_or(terminated, truncated)
            return self._obs, reward[self.name].squeeze(1), done, {"time_outs": truncated.float()}

    return Adapter()


def build(name: str) -> Slice:
    """A slice of whole iterations, or of updates alone."""
    import torch
    from rsl_rl.algorithms import PPO

    kind, _, count = name.partition("-")
    if name not in NAMES:
        raise ValueError(f"no case {name!r}: there are {', '.join(NAMES)}")
    torch.manual_seed(0)
    env = adapter(int(count))
    algorithm = PPO.construct_algorithm(env.get_observations(), env, settings(), "cpu")
    algorithm.train_mode()

    def collect() -> None:
        """As rsl_rl's OnPolicyRunner.learn does it, less its log."""
        obs = env.get_observations()
        with torch.inference_mode():
            for _ in range(STEPS):
                obs, reward, done, extras = env.step(algorithm.act(obs))
                algorithm.process_env_step(obs, reward, done, extras)
            algorithm.compute_returns(obs)

    return iterations(kind, int(count), collect, algorithm.update)


def iterations(kind: str, worlds: int, collect: Any, update: Any) -> Slice:
    """The slice of a trainer: `collect` makes a rollout and `update` learns from it."""
    if kind == "train":

        def both() -> int:
            collect()
            update()
            return STEPS

        return timed(worlds, lambda: None, both)

    def learn() -> int:
        update()
        return EPOCHS * MINIBATCHES

    return timed(1, collect, learn)


if __name__ == "__main__":
    alone(__doc__, NAMES, build)
