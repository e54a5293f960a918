"""Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347) for one or many agents.

The whole algorithm reads in this order: `collect` T steps of N worlds, then `update`: values and advantages of the
rollout (agents.Agents.samples, buffer.gae), then a few epochs of minibatches, each one `learn`. With several agents in
a group this is IPPO, and with ``critic="central"`` MAPPO (Yu et al. 2021, arXiv 2103.01955).

Gradients of the loss are written out (they are four lines, in `learn`) and handed to networks.MLP.backward; a test
compares them with autograd. Nothing here waits for the device but one transfer of log figures per iteration. On a CPU
each minibatch is divided among a few threads, each with memory and gradients of its own (see sim/threads.py).

Where the time goes, on 2 cores of an AMD EPYC with 1024 worlds, 22 observations, 4 actions, 64x64 tanh, 32 steps and
4 epochs x 4 minibatches (benchmarks/ppo_vs_sb3.py --task random --epochs 4): 9 ms of 82 ms an iteration are acting and
storing, 5 ms values and advantages, 2 ms shuffling, 66 ms networks and losses; of those three quarters are matrix
products near the processor's limit, so that what is left to win is small. That makes 400,000 samples/s, Stable-
Baselines3 does 190,000. With drone-hover on MuJoCo the environment takes another 170 to 240 ms.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.algorithms.ppo_learner import Agents, Samples, Worker
from rookery.policies.policy import Policy
from rookery.policies.training import checkpoint
from rookery.policies.training.logging import EpisodeStatistics, Progress, RunLog
from rookery.sim.errors import RookeryError
from rookery.sim.threads import one_thread_each

if TYPE_CHECKING:
    from rookery.sim.envs.vec_env import VecEnv

__all__ = ["PPO", "Interrupted", "PPOConfig"]

Interrupted = checkpoint.Interrupted


class PPO:
    """Trains one policy for each group of an environment.

    Args:
        env: the environment; its device is where learning happens.
        config: settings.
        extra: JSON values stored verbatim in every checkpoint; ``extra["contract"]`` goes beside the policy.

    Attributes:
        agents: by group name, the networks and all that belongs to them.
        steps: control steps made so far, counted over all worlds.
        iteration: updates made so far.
        episodes: figures of finished episodes.

    Raises:
        RookeryError: settings that this environment cannot serve.
    """

    def __init__(self, env: VecEnv, config: PPOConfig | None = None, extra: dict[str, Any] | None = None) -> None:
        self.env = env
        self.config = config or PPOConfig()
        self.extra = dict(extra or {})
        self.device = torch.device(env.device)
        objectives = getattr(env, "objectives", ())
        if objectives:
            raise RookeryError(
                f"PPO learns from a reward of one number, this one is a vector of {', '.join(objectives)}: wrap the "
                f"environment in rookery.sim.envs.scalarize.LinearScalarization, or give weights (--weights {objectives[0]}=1)."
            )
        self._generator = torch.Generator(self.device).manual_seed(self.config.seed)
        initial = torch.Generator().manual_seed(self.config.seed)
        for name in self.config.separate:
            if name not in env.groups:
                raise RookeryError(f"separate names group {name!r}: this task has {', '.join(env.groups)}.")
        central = self.config.critic == "central"
        size = env.state_size if central else 0
        if central and not size:
            raise RookeryError('critic="central" needs the state of the environment, and this one has none: use "own".')
        self.agents = {
            name: Agents(name, group, env.num_envs, size, self.config, initial, self.device)
            for name, group in env.groups.items()
        }
        if self.config.predictor_mode != "off" and all(a.predictor is None for a in self.agents.values()):
            raise RookeryError(
                f'predictor_mode="{self.config.predictor_mode}" needs targets to predict, and no group of this task '
                'declares any: use "off".'
            )
        self._threads = ThreadPoolExecutor(64, "learner", initializer=torch.set_num_threads, initargs=(1,))
        self.steps = 0
        self.iteration = 0
        self.total_steps = 0
        self.seconds = 0.0
        self.episodes = EpisodeStatistics(self.config.success_window)
        self._now: dict[str, Tensor] | None = None  # observations by group, "state" and "active.<group>"

    # Acting

    @torch.no_grad()
    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The policies' actions without exploration, [N, A, D] by group, for observations [N, A, O].

        With a predictor, they must be those of this trainer's environment now: what the agents are told is read there.
        """
        privileged_targets, given = self._told()
        out = {}
        for k, a in self.agents.items():
            told = a.predictor.scale.normalize(privileged_targets[k]) if a.predictor is not None else None
            seen = a.see(a.observations.normalize(obs[k]), told, given)
            out[k] = a.mean_action(seen).clamp(-1.0, 1.0)
        return out

    def _told(self) -> tuple[dict[str, Tensor], Tensor | None]:
        """By group, the true targets [N, A, M] of those with a predictor, and in which worlds the future is given [N]."""
        if all(a.predictor is None for a in self.agents.values()):
            return {}, None
        return self.env.privileged_targets or {}, self.env.reveal_future_mask

    @torch.no_grad()
    @one_thread_each
    def collect(self) -> None:
        """Fill the rollouts with `config.steps` steps of every world, with exploration."""
        if self._now is None:
            obs, _ = self.env.reset()
            self.env.stagger()
            self._look(obs)
        assert self._now is not None
        for a in self.agents.values():
            a.start(self._generator)
        for t in range(self.config.steps):
            now = self._now
            actions = {
                k: a.sample(
                    t,
                    now[f"obs.{k}"],
                    now.get("state"),
                    now.get(f"active.{k}"),
                    now.get(f"privileged_targets.{k}"),
                    now.get("given"),
                )
                for k, a in self.agents.items()
            }
            obs, reward, terminated, truncated, info = self.env.step(actions)
            for k, a in self.agents.items():
                a.record(t, reward[k], terminated, truncated, info)
            if "episode" in info:
                self.episodes.add(info["episode"])
            self._look(obs)
        self.steps += self.config.steps * self.env.num_envs

    def _look(self, obs: dict[str, Tensor]) -> None:
        """Keep the current observations, and what goes with them, until the next step."""
        self._now = {f"obs.{k}": v for k, v in obs.items()}
        if self.config.critic == "central":
            self._now["state"] = self.env.state
        active = self.env.active
        if active is not None:
            self._now |= {f"active.{k}": v.clone() for k, v in active.items() if v is not None}
        privileged_targets, given = self._told()
        self._now |= {f"privileged_targets.{k}": v for k, v in privileged_targets.items()}
        if given is not None:
            self._now["given"] = given.clone()

    # Learning

    @torch.no_grad()
    @one_thread_each
    def update(self) -> dict[str, float]:
        """Learn from the collected samples; returns the losses and their like, by "<group>/<name>"."""
        c = self.config
        now = self._now
        if now is None:
            raise RookeryError("update() has nothing to learn from: call collect() first.")
        figures: dict[str, Tensor] = {}
        for name, a in self.agents.items():
            self._set_rate(a)
            if self.iteration == c.critic_warmup > 0:
                # Adam divides by the size of gradients of long ago: the policy's were zero, and its first steps would be huge
                a.adam.reset()
            samples = a.samples(now[f"obs.{name}"], now.get("state"), now.get(f"active.{name}"))
            sums = torch.zeros(5, a.sets, device=self.device)
            for epoch in range(c.epochs):
                before = sums[2].clone()
                for batch, rows in a.epoch(samples, self._generator):
                    sums += self.learn(a, batch, rows)
                if c.schedule == "adaptive":
                    self._adapt(a, (sums[2] - before) / c.minibatches, last=epoch == c.epochs - 1)
            means = (sums / (c.epochs * c.minibatches)).mean(1)
            for i, key in enumerate(("policy_loss", "value_loss", "kl", "clip_fraction", "predictor_loss")):
                if key != "predictor_loss" or a.predictor is not None:
                    figures[f"{name}/{key}"] = means[i]
            figures[f"{name}/std"] = a.log_std.exp().mean()
            figures[f"{name}/entropy"] = (a.log_std + 1.4189385).sum(-1).mean()
            figures[f"{name}/explained_variance"] = a.explained_variance
            figures[f"{name}/learning_rate"] = a.learning_rate.mean()
            a.finish()
        self.iteration += 1
        values = torch.stack(list(figures.values())).tolist()  # the one wait for the device
        return dict(zip(figures, values, strict=True))

    def learn(self, a: Agents, batch: Samples, rows: slice) -> Tensor:
        """One optimiser step on the minibatch `rows`; returns policy loss, value loss, KL, clip fraction and predictor
        loss, [5, G].

        With z = (action - mean) / std, log p = -|z|^2 / 2 - sum log std, ratio = p / p_old, advantage A, weight w = 1/n
        (0 for inactive agents), and each thread taking a part of the rows:

            policy loss  = -sum w min(ratio A, clip(ratio) A)      d/d log p = -w ratio A where that is the smaller
            d log p / d mean = z / std                             d log p / d log std = z^2 - 1
            value loss   = sum w error^2 / 2 (or Huber)            d/d value = w error (limited by Huber's delta)
            KL(old|new) ~= sum w (ratio - 1 - log ratio)           (Schulman's low-variance estimate)
        """
        size = rows.stop - rows.start
        parts = len(a.workers)
        bounds = [rows.start + size * i // parts for i in range(parts + 1)]
        count = size if batch.active is None else batch.active[:, rows].sum(1, keepdim=True).clamp(min=1)
        jobs = [(a, w, batch, slice(i, j), count) for w, i, j in zip(a.workers, bounds, bounds[1:], strict=False)]
        others = [self._threads.submit(self._gradients, *job) for job in jobs[1:]]
        sums = self._gradients(*jobs[0])
        for worker, other in zip(a.workers[1:], others, strict=True):
            sums += other.result()
            a.gradients += worker.gradients
        if self.iteration >= self.config.critic_warmup:
            a.workers[0].log_std -= self.config.entropy_coef
        a.adam.step(a.learning_rate)
        if a.predictor is not None:
            a.predictor.step()
        return sums

    def _gradients(self, a: Agents, worker: Worker, batch: Samples, rows: slice, count: int | Tensor) -> Tensor:
        """One thread's part of `learn`: fills the worker's gradients, returns its part of the sums."""
        c = self.config
        worker.gradients.zero_()
        if worker.predictor is not None:
            worker.predictor.gradients.zero_()
        sums = torch.zeros(5, a.sets, device=self.device)
        inverse_std = torch.exp(-a.log_std)
        log_std = a.log_std.sum(-1)
        for s in batch.chunks(rows, a.chunk):
            w: Any = 1.0 / count if s.active is None else s.active / count
            z = (s.action - worker.actor.forward(s.observation)).mul_(inverse_std)
            squares = z.square()
            log_ratio = squares.sum(-1).mul_(-0.5).sub_(log_std).sub_(s.log_prob).clamp_(max=20.0)
            ratio = log_ratio.exp()
            free = ratio * s.advantage
            held = ratio.clamp(1.0 - c.clip, 1.0 + c.clip).mul_(s.advantage)
            pull = torch.where(free <= held, free, 0.0).mul_(-1.0 * w).unsqueeze(2)
            if self.iteration < c.critic_warmup:
                pull.zero_()
            worker.actor.backward(z.mul_(inverse_std).mul_(pull))
            worker.log_std += squares.sub_(1.0).mul_(pull).sum(1, keepdim=True)

            value = worker.critic.forward(s.critic_input).squeeze(2)
            value_loss, slope = self._value_loss(value, s)
            worker.critic.backward(slope.mul_(c.value_coef * w).unsqueeze(2))

            if worker.predictor is not None and s.privileged_targets is not None:
                sums[4] += worker.predictor.learn(s.critic_input, s.privileged_targets, w)

            sums[0] -= (torch.minimum(free, held) * w).sum(1)
            sums[1] += (value_loss * w).sum(1)
            sums[3] += (((ratio - 1.0).abs() > c.clip) * w).sum(1)
            sums[2] += ratio.sub_(1.0).sub_(log_ratio).mul_(w).sum(1)
        return sums

    def _value_loss(self, value: Tensor, s: Samples) -> tuple[Tensor, Tensor]:
        """The critic's loss of each row and its derivative by the value, both [G, R]."""
        c = self.config
        error = value - s.target
        slope = error.clamp(-c.huber_delta, c.huber_delta) if c.value_loss == "huber" else error
        loss = slope * (error - 0.5 * slope)
        if c.value_clip is not None:
            move = value - s.value
            far = s.value + move.clamp(-c.value_clip, c.value_clip) - s.target
            far_slope = far.clamp(-c.huber_delta, c.huber_delta) if c.value_loss == "huber" else far
            clipped = far_slope * (far - 0.5 * far_slope)
            slope = torch.where((move.abs() > c.value_clip) & (loss < clipped), 0.0, slope)
            loss = torch.maximum(loss, clipped)
        return loss, slope if slope is not error else error.clone()

    def _set_rate(self, a: Agents) -> None:
        """The learning rate of an update, but for what `_adapt` does. After the critic's warm-up it rises over as many updates
        again: fresh from its reset, Adam moves every weight by the whole rate at each step, whatever the gradient's noise."""
        c = self.config
        since = self.iteration - c.critic_warmup
        rising = min(1.0, (since + 1) / (c.critic_warmup + 1)) if c.critic_warmup and since >= 0 else 1.0
        if c.schedule == "adaptive":
            if since == 0 < c.critic_warmup:
                a.learning_rate.fill_(c.learning_rate * rising)
            return
        rate = c.learning_rate
        if c.schedule == "linear" and self.total_steps:
            done = (self.steps - c.steps * self.env.num_envs) / self.total_steps
            rate *= max(0.0, 1.0 - done)
        a.learning_rate.fill_(rate * rising)

    def _adapt(self, a: Agents, kl: Tensor, last: bool) -> None:
        """Slow down after any epoch that went too far [G]; speed up only after a whole update that stayed near."""
        c = self.config
        rate = a.learning_rate
        far = (kl > 2.0 * c.target_kl).unsqueeze(1)
        near = (kl < 0.5 * c.target_kl).unsqueeze(1) & last
        new = torch.where(far, rate / 1.5, torch.where(near, rate * 1.5, rate))
        rate.copy_(new.clamp_(c.learning_rate_min, c.learning_rate_max))

    # Running

    def train(self, total_steps: int, run_dir: Path | str, progress: Progress | None = None) -> dict[str, Any]:
        """Collect and update until `total_steps`, with logs, checkpoints and a line of progress.

        Args:
            total_steps: control steps over all worlds, those before a resume included.
            run_dir: run folder; gets checkpoints/, policy.safetensors, contract.json, progress.csv, TensorBoard files.
            progress: called with the figures of each iteration; None shows them on the terminal.

        Returns:
            the figures of the last iteration, with "stopped": "steps" or "success".

        Raises:
            Interrupted: Ctrl-C, after the iteration was finished and a checkpoint written.
            RookeryError: the folder cannot be written, or training diverged.
        """
        self.total_steps = total_steps
        run_dir = Path(run_dir)
        row: dict[str, Any] = {}
        stopped = "steps"
        with RunLog(run_dir, self.steps, total_steps, progress) as log, checkpoint.Interruption() as interruption:
            log.resume(self.steps)
            saved = -1
            while self.steps < total_steps:
                row = self._iterate()
                log.write(row)
                if interruption.wanted:
                    raise Interrupted(self.save(run_dir))
                c = self.config
                if c.target_success is not None and (self.episodes.success or 0.0) >= c.target_success:
                    stopped = "success"
                    break
                if self.iteration % c.checkpoint_every == 0:
                    self.save(run_dir)
                    saved = self.steps
            if saved != self.steps:
                self.save(run_dir)
        return {**row, "stopped": stopped}

    def _iterate(self) -> dict[str, Any]:
        """One collect and update, timed; returns the row for the logs."""
        start = time.perf_counter()
        self.collect()
        middle = time.perf_counter()
        figures = self.update()
        end = time.perf_counter()
        self.seconds += end - start
        agents = sum(a.spec.count for a in self.agents.values())
        samples = self.config.steps * self.env.num_envs * agents
        row: dict[str, Any] = {
            "steps": self.steps,
            "iteration": self.iteration,
            "seconds": self.seconds,
            "samples_per_s": samples / (end - start),
            "collect_s": middle - start,
            "learn_s": end - middle,
            **self.episodes.summarise(self.steps),
            **figures,
        }
        bad = [k for k, v in figures.items() if v != v]
        if bad:
            raise RookeryError(
                f"training diverged: {bad[0]} is not a number after {self.steps} steps; lower the learning rate, "
                "or look for rewards or observations without bounds."
            )
        return row

    def policies(self) -> dict[str, Policy]:
        """The deterministic policies as they are now, by group (or "<group>_<i>" where agents learn separately)."""
        return {k: p for a in self.agents.values() for k, p in a.policies().items()}

    # Keeping

    def save(self, run_dir: Path | str) -> Path:
        """Write a checkpoint and the run's current policy; returns the checkpoint's folder.

        Raises:
            RookeryError: the disk is full or the folder cannot be written; older checkpoints are left as they are.
        """
        return checkpoint.save(self, Path(run_dir))

    def load(self, folder: Path | str) -> None:
        """Continue from a checkpoint, or from the newest one of a run folder.

        Raises:
            RookeryError: it is missing, damaged, of a newer version, or does not fit this environment and config.
        """
        checkpoint.load(self, Path(folder))
