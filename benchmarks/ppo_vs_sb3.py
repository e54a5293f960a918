"""Samples per second, collecting and learning, of our PPO against Stable-Baselines3's on the same task and settings.

    python benchmarks/ppo_vs_sb3.py [--task drone-hover] [--num-envs 1024] [--seconds 10] [--json]

Both see the same environment (SB3 through the wrapper below), networks, rollout length, batch sizes, epochs and number
of threads, and run by turns in one process, so that a busy machine slows both. ``--task random`` has no physics: it
shows the trainers alone. A profile of our trainer follows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv as TheirVecEnv

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.sim.env import Env
from rookery.sim.specs import ActionSpec, Group, Term


class SB3Wrapper(TheirVecEnv):
    """A VecEnv of one group with one agent, as Stable-Baselines3 wants it."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.name, group = next(iter(env.groups.items()))
        size = group.observation_size
        act = group.action.size
        super().__init__(
            env.num_envs,
            gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32),
            gymnasium.spaces.Box(-1.0, 1.0, (act,), np.float32),
        )
        self._no_info: list[dict[str, Any]] = [{} for _ in range(env.num_envs)]

    def reset(self) -> np.ndarray:
        return self.env.reset()[0][self.name][:, 0].numpy().copy()

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = torch.from_numpy(np.ascontiguousarray(actions)).unsqueeze(1)

    def step_wait(self) -> Any:
        obs, reward, terminated, truncated, info = self.env.step({self.name: self._actions})
        done = terminated | truncated
        infos = self._no_info
        if bool(done.any()):
            infos = [{} for _ in range(self.num_envs)]
            final = info["final_observation"][self.name][:, 0].numpy()
            for i in done.nonzero().squeeze(1).tolist():
                infos[i] = {"terminal_observation": final[i], "TimeLimit.truncated": bool(truncated[i])}
        return obs[self.name][:, 0].numpy().copy(), reward[self.name][:, 0].numpy().copy(), done.numpy(), infos

    def close(self) -> None: ...

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, name: str, value: Any, indices: Any = None) -> None: ...

    def env_method(self, name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


class RandomEnv(Env):
    """Random numbers: no physics, no episodes."""

    device = torch.device("cpu")
    max_episode_steps = 1000
    control_dt = 0.01
    task_id = "random"

    def __init__(self, num_envs: int, obs: int = 22, act: int = 4) -> None:
        self.num_envs = num_envs
        action = ActionSpec("x", tuple(map(str, range(act))), (-1.0,) * act, (1.0,) * act, ("1",) * act, (0.0,) * act)
        self.groups = {"agent": Group(1, (Term("x", obs),), action)}
        self._obs = [{"agent": torch.randn(num_envs, 1, obs)} for _ in range(8)]
        self._reward = [{"agent": torch.randn(num_envs, 1)} for _ in range(8)]
        self._never = torch.zeros(num_envs, dtype=torch.bool)
        self._t = 0

    def reset(self, seed: int | None = None) -> Any:
        return self._obs[0], {}

    def stagger(self) -> None: ...

    def step(self, actions: Any) -> Any:
        self._t = (self._t + 1) % 8
        return self._obs[self._t], self._reward[self._t], self._never, self._never, {}

    def close(self) -> None: ...

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None: ...


class _Clock(BaseCallback):
    """Counts rollouts and notes when each began to be collected and ended."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[float] = []
        self.collected: list[float] = []

    def _on_rollout_start(self) -> None:
        self.begun.append(time.perf_counter())

    def _on_rollout_end(self) -> None:
        self.collected.append(time.perf_counter())

    def _on_step(self) -> bool:
        return True


class Ours:
    """Our trainer; `run(n)` makes n iterations and gives (collect s, learn s) of each."""

    def __init__(self, env: Any, config: PPOConfig) -> None:
        self.algorithm = PPO(env, config, seed=0)
        self.obs = env.reset(seed=0)[0]
        env.stagger()

    @torch.no_grad()
    def collect(self) -> None:
        """One rollout."""
        for _ in range(self.algorithm.rollout_steps):
            actions = self.algorithm.act(self.obs)
            result = self.algorithm.env.step(actions)
            self.algorithm.observe(self.obs, actions, result)
            self.obs = result[0]

    def run(self, n: int) -> list[tuple[float, float]]:
        out = []
        for _ in range(n):
            a = time.perf_counter()
            self.collect()
            b = time.perf_counter()
            self.algorithm.update(0.0)
            out.append((b - a, time.perf_counter() - b))
        return out

    def parts(self, n: int) -> dict[str, float]:
        """Share of each part of an iteration in its time, over n iterations."""
        ppo = self.algorithm
        learner = next(iter(ppo.learners.values()))
        timed = {
            "environment": (ppo.env, "step"),
            "values, advantages": (learner, "samples"),
            "networks, losses": (ppo, "loss_gradients"),
            "optimizer": (learner.adam, "step"),
            "learning": (ppo, "learn"),
            "update": (ppo, "update"),
        }
        spent = dict.fromkeys(timed, 0.0)
        main = threading.get_ident()

        def timing(part: str, real: Any) -> Any:
            def wrapped(*args: Any) -> Any:
                start = time.perf_counter()
                result = real(*args)
                if threading.get_ident() == main:
                    spent[part] += time.perf_counter() - start
                return result

            return wrapped

        for part, (owner, name) in timed.items():
            setattr(owner, name, timing(part, getattr(owner, name)))
        times = self.run(n)
        for owner, name in timed.values():
            delattr(owner, name)  # the class's own shows again
        collect = sum(c for c, _ in times)
        total = sum(c + u for c, u in times)
        shares = {k: spent[k] for k in ("environment", "values, advantages", "networks, losses", "optimizer")}
        shares["acting and storing"] = collect - spent["environment"]
        shares["threads waiting for each other"] = spent["learning"] - spent["networks, losses"] - spent["optimizer"]
        shares["shuffling, log figures"] = spent["update"] - spent["learning"] - spent["values, advantages"]
        return {k: v / total for k, v in sorted(shares.items(), key=lambda kv: -kv[1])}


def theirs(env: Any, config: PPOConfig) -> Any:
    """The same for Stable-Baselines3, with the same settings."""
    width = list(config.hidden)
    model = stable_baselines3.PPO(
        "MlpPolicy",
        SB3Wrapper(env),
        learning_rate=config.learning_rate,
        n_steps=config.rollout_steps,
        batch_size=config.rollout_steps * env.num_envs // config.minibatches,
        n_epochs=config.epochs,
        gamma=config.gamma,
        gae_lambda=config.lam,
        clip_range=config.clip,
        max_grad_norm=config.max_grad_norm,
        policy_kwargs={"net_arch": {"pi": width, "vf": width}, "activation_fn": torch.nn.Tanh},
        device="cpu",
        seed=0,
    )

    def run(n: int) -> list[tuple[float, float]]:
        clock = _Clock()
        model.learn(n * config.rollout_steps * env.num_envs, callback=clock, reset_num_timesteps=True)
        ends = [*clock.begun[1:], time.perf_counter()]
        return [(b - a, c - b) for a, b, c in zip(clock.begun, clock.collected, ends, strict=True)]

    return run


def compare(task: str, num_envs: int, seconds: float, config: PPOConfig) -> dict[str, Any]:
    """Run both by turns for about `seconds` each; medians over iterations."""
    mine = Ours(_make(task, num_envs), config)
    run_theirs = theirs(_make(task, num_envs), config)
    times: dict[str, list[tuple[float, float]]] = {"rookery": [], "sb3": []}
    mine.run(3), run_theirs(2)
    end = time.perf_counter() + 2.0 * seconds
    while time.perf_counter() < end:
        times["rookery"] += mine.run(3)
        times["sb3"] += run_theirs(2)
    samples = config.rollout_steps * num_envs
    result: dict[str, Any] = {"task": task, "num_envs": num_envs, "threads": torch.get_num_threads()}
    result |= {k: getattr(config, k) for k in ("rollout_steps", "epochs", "minibatches", "hidden")}
    for name, pairs in times.items():
        collect, learn = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        total = statistics.median(sum(p) for p in pairs)
        result[name] = {"collect_s": collect, "learn_s": learn, "samples_per_s": samples / total}
    result["ratio"] = result["rookery"]["samples_per_s"] / result["sb3"]["samples_per_s"]
    result["learn_ratio"] = result["sb3"]["learn_s"] / result["rookery"]["learn_s"]
    result["parts"] = mine.parts(5)
    result["operations"] = _operations(mine)
    return result


def _make(task: str, num_envs: int) -> Any:
    if task == "random":
        return RandomEnv(num_envs)
    import rookery

    return rookery.make(task, num_envs=num_envs)


def _operations(mine: Ours) -> dict[str, float]:
    """Share of each torch operation in the time of an update, on one of the learning threads; the eight largest."""
    from torch.profiler import ProfilerActivity, profile

    mine.collect()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        start = time.perf_counter()
        mine.algorithm.update(0.0)
        wall = time.perf_counter() - start
    rows = sorted(profiler.key_averages(), key=lambda e: -e.self_cpu_time_total)[:8]
    return {e.key: e.self_cpu_time_total * 1e-6 / wall for e in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="drone-hover", help="a task with one agent, or random")
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=32, help="control steps of each world between updates")
    parser.add_argument("--epochs", type=int, default=10, help="SB3's default, and what the drone tasks train with")
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each trainer")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    config = PPOConfig(
        learning_rate=3e-4,
        schedule="fixed",
        rollout_steps=args.steps,
        epochs=args.epochs,
        minibatches=args.minibatches,
        max_grad_norm=0.5,
    )
    result = compare(args.task, args.num_envs, args.seconds, config)
    if args.json:
        print(json.dumps(result))
        return
    print(
        f"{args.task}, {args.num_envs} worlds, {config.rollout_steps} steps, {config.epochs} epochs x {config.minibatches} "
        f"minibatches, 64x64 tanh, {result['threads']} threads"
    )
    print(f"{'':10}{'collect ms':>12}{'learn ms':>12}{'samples/s':>12}")
    for name in ("rookery", "sb3"):
        r = result[name]
        print(f"{name:10}{r['collect_s'] * 1e3:12.1f}{r['learn_s'] * 1e3:12.1f}{r['samples_per_s']:12.0f}")
    print(f"ratio {result['ratio']:.2f} (learning alone {result['learn_ratio']:.2f})")
    for title, table in (("our iteration", "parts"), ("operations of our update, on one thread", "operations")):
        print(f"\n{title}")
        for key, share in result[table].items():
            print(f"  {share:6.1%}  {key}")


if __name__ == "__main__":
    main()
