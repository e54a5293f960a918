"""Episodes from an environment, all worlds at once, so that they can be made again bit for bit.

Worlds are recorded in rounds. Round b puts the environment back to how it was made, resets it with ``seed + b`` and runs
until every world has ended its first episode; later ones are not looked at. So every world counts once, short episodes
are no more likely than long ones, and an episode depends on nothing but the environment's own seed, the round's seed,
the world's place and the actions: `replay` feeds these and gets the same numbers.

    seed 7            world 0: ##########            kept
    (round 0)         world 1: #####.....            kept; what it does while the others go on is not
    seed 8            world 0: #######               kept
    (round 1)         world 1: ##########            dropped: with only_success it must succeed
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rookery.policies.datasets.schema import Episode, Facts
from rookery.policies.datasets.video import Filming, Shots
from rookery.policies.datasets.writer import Writer
from rookery.sim.actions import require_numbers
from rookery.sim.env import Act, Env
from rookery.sim.errors import RookeryError
from rookery.sim.threads import one_thread_each

MEMORY = 4e9
"""Most bytes that a round may hold."""
MOST_EPISODES = 1_000_000
"""Names of their files have six digits."""
PATIENCE = 10
"""Attempts for each episode to keep (or each world) before the recorder gives up."""


@dataclass(frozen=True)
class RecordingSummary:
    """Result of `record`: episodes kept, attempts in all, those that succeeded (None: no such metric) and control steps
    kept."""

    episodes: int
    attempts: int
    successes: int | None
    frames: int


def record(
    env: Env,
    act: Act,
    writer: Writer,
    episodes: int,
    *,
    seed: int = 0,
    only_success: bool = False,
    filming: Filming | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RecordingSummary:
    """Record episodes.

    Args:
        env: newly made; never stepped before.
        act: from observations {group: [N, A, O]} to actions {group: [N, A, D]}: a policy or a task's classical controller.
        writer: takes them, in the order of rounds and worlds.
        episodes: how many to keep.
        seed: of the first round; the next ones follow it.
        only_success: keep only those that succeed, and give up after ten times as many attempts as episodes are to be kept.
        filming: a camera, whose video goes with every episode.
        progress: called after each round with episodes kept and attempts so far.

    Raises:
        RookeryError: fewer than one episode or more than a million asked for, or more than the disk has room for; none
            succeeded, the task has no metric "success", or the disk is full.
    """
    if not 1 <= episodes <= MOST_EPISODES:
        raise RookeryError(f"episodes is {episodes}: give 1 to {MOST_EPISODES}.")
    recorder = _Recorder(env, act, filming is not None)
    attempts = 0
    successes = 0
    frames = 0
    judged = True
    while len(writer) < episodes and attempts < PATIENCE * max(episodes, env.num_envs):
        made = recorder.round(seed + attempts // env.num_envs)
        attempts += env.num_envs
        judged = made[0].facts.success is not None if made else judged
        if only_success and not judged:
            raise RookeryError(f"{env.task_id} has no metric 'success': leave out --only-success.")
        if made and not len(writer):
            _check_room(made, episodes, writer)
        successes += sum(bool(e.facts.success) for e in made)
        for episode in made:
            if len(writer) == episodes or (only_success and not episode.facts.success):
                continue
            if filming is not None:
                filming.film(recorder.shots, episode.facts.world, episode.facts.length, writer)
            writer.add(episode)
            frames += episode.facts.length
        if progress is not None:
            progress(len(writer), attempts)
    if not len(writer):
        raise RookeryError(
            f"none of {attempts} episodes succeeded: let another policy act, or give the task values under which this one can "
            "succeed, or leave out --only-success."
        )
    return RecordingSummary(len(writer), attempts, successes if judged else None, frames)


def _check_room(made: list[Episode], episodes: int, writer: Writer) -> None:
    """Refuse more episodes like these than the disk has room for, before the first is written."""
    size = sum(c.numel() * c.element_size() for e in made for c in e.columns.values()) / len(made)
    free = shutil.disk_usage(writer.folder).free
    if episodes * size > free:
        raise RookeryError(
            f"{episodes} episodes of {size / 1e6:.3g} MB do not fit on the disk of {writer.folder}, which has {free / 1e9:.3g} "
            "GB free: record fewer with --episodes, or elsewhere with --out."
        )


class _Terms:
    """Raw observation and reward terms of a control step, before worlds that ended begin anew."""

    def __init__(self) -> None:
        self.observation: dict[str, Tensor] = {}
        self.reward: dict[str, Tensor] = {}

    def __call__(self, kind: str, terms: dict[str, dict[str, Tensor]]) -> None:
        into = self.observation if kind == "observation" else self.reward
        into.update({f"{g}.{name}": v.clone() for g, named in terms.items() for name, v in named.items()})


class _Recorder:
    """One environment and the memory of a round, [T + 1, N, ...] by column."""

    def __init__(self, env: Env, act: Act, filmed: bool) -> None:
        require_numbers(env.groups, "demonstrations hold")
        self.env = env
        self.act = act
        self._fresh = env.state_dict()
        self._terms = _Terms()
        env.record_terms(self._terms)
        self._memory: dict[str, Tensor] = {}
        self.shots: Shots | None = Shots(env) if filmed else None

    @torch.no_grad()
    @one_thread_each
    def round(self, seed: int) -> list[Episode]:
        """The first episode of every world, but for those whose physics diverged."""
        env = self.env
        n = self.env.num_envs
        env.load_state_dict(self._fresh)
        obs, _ = env.reset(seed)
        self._note_state(0, obs)
        facts: dict[int, Facts] = {}
        running = torch.ones(n, dtype=torch.bool, device=env.device)
        for t in range(env.max_episode_steps):
            if self.shots is not None:
                self.shots.note(t, running)
            actions = {g: a.detach().float().clamp(-1.0, 1.0) for g, a in self.act(obs).items()}
            self._note(t, {f"action.{g}": a for g, a in actions.items()})
            self._note(t, {f"active.{g}": a for g, a in (env.active or {}).items()})
            obs, reward, terminated, truncated, info = env.step(actions)
            self._note(t, {f"reward.{g}": r for g, r in reward.items()})
            self._note(t, {f"reward_term.{name}": r for name, r in self._terms.reward.items()})
            self._note(t, {"terminated": terminated, "truncated": truncated})
            self._note_state(t + 1, info.get("final_observation", obs))
            ended = (terminated | truncated) & running
            if ended.any():
                facts |= _facts(env, info["episode"], seed, ended)
                running &= ~ended
                if not running.any():
                    break
        return [self._episode(facts[world]) for world in sorted(facts) if facts[world].cause != "diverged"]

    def _note_state(self, t: int, obs: dict[str, Tensor]) -> None:
        self._note(t, {f"observation.{g}": o for g, o in obs.items()})
        self._note(t, {f"term.{name}": v for name, v in self._terms.observation.items()})

    def _note(self, t: int, values: dict[str, Tensor]) -> None:
        for name, value in values.items():
            if name not in self._memory:
                self._make(name, value)
            self._memory[name][t] = value

    def _make(self, name: str, value: Tensor) -> None:
        rows = self.env.max_episode_steps + 1
        held = sum(m.numel() * m.element_size() for m in self._memory.values())
        if held + rows * value.numel() * value.element_size() > MEMORY:
            raise RookeryError(
                f"{self.env.num_envs} worlds of {rows - 1} control steps need more than {MEMORY / 1e9:g} GB: record with "
                "fewer --num-envs, or shorter episodes by --task-config episode_s=5."
            )
        self._memory[name] = torch.zeros(rows, *value.shape, dtype=value.dtype)

    def _episode(self, facts: Facts) -> Episode:
        columns = {}
        for name, memory in self._memory.items():
            last = name.startswith(("observation.", "term."))
            columns[name] = memory[: facts.length + last, facts.world].clone()
        return Episode(facts, columns)


def _facts(env: Env, ended: dict[str, Any], seed: int, worlds: Tensor) -> dict[int, Facts]:
    """Facts of the worlds of `worlds` [N] bool that ended, by world."""
    causes = ["time limit", *env.causes, "diverged"]
    out = {}
    for row, world in enumerate(ended["ids"].tolist()):
        if not worlds[world]:
            continue
        metrics = {name: x for name, v in ended["metrics"].items() if math.isfinite(x := float(v[row]))}
        out[world] = Facts(
            seed=seed,
            world=world,
            length=int(ended["length"][row]),
            success=bool(metrics["success"] > 0.5) if "success" in metrics else None,
            cause=causes[int(ended["cause"][row])],
            returns={name: float(v[row]) for name, v in ended["return"].items()},
            metrics=metrics,
        )
    return out
