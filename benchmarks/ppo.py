"""Speed of our PPO on drone-hover, for comparison with rsl_rl's: the cases and settings of peers/rsl_rl_speed.py.

python benchmarks/ppo.py [--cases train-256 update-2048] [--seconds 1] [--rounds 5]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import rsl_rl_speed as peer
from slices import Slice, alone


def build(name: str) -> Slice:
    """A slice of whole iterations, or of updates alone."""
    import rookery
    from rookery.policies.algorithms.ppo import PPO, PPOConfig

    kind, _, count = name.partition("-")
    if name not in peer.NAMES:
        raise ValueError(f"no case {name!r}: there are {', '.join(peer.NAMES)}")
    config = PPOConfig(
        rollout_steps=peer.STEPS,
        epochs=peer.EPOCHS,
        minibatches=peer.MINIBATCHES,
        hidden=peer.HIDDEN,
        activation=peer.ACTIVATION,
        learning_rate=peer.LEARNING_RATE,
        schedule="fixed",
        gamma=peer.GAMMA,
        lam=peer.LAMBDA,
        clip=peer.CLIP,
        initial_std=peer.INITIAL_STD,
        normalize_observations=False,
    )
    env = rookery.make(peer.TASK, num_envs=int(count))
    algorithm = PPO(env, config)
    obs, _ = env.reset(0)
    env.stagger()

    def collect() -> None:
        nonlocal obs
        for _ in range(peer.STEPS):
            actions = algorithm.act(obs)
            result = env.step(actions)
            algorithm.observe(obs, actions, result)
            obs = result[0]

    return peer.iterations(kind, int(count), collect, lambda: algorithm.update(0.0))


if __name__ == "__main__":
    alone(__doc__ or "", peer.NAMES, build)
