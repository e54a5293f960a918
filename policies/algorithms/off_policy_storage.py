"""Size of a replay memory, and the parts that can be stored in bytes: found before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from rookery.policies.algorithms.chains import encoder_links, pictures_in
from rookery.policies.algorithms.off_policy_config import OffPolicyConfig
from rookery.policies.storage.free_memory import free_bytes
from rookery.policies.storage.pixels import Pixels
from rookery.policies.storage.replay import FINALS, layout
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.sensors.pictures import is_whole
from rookery.sim.specs import Group, Term

if TYPE_CHECKING:
    from rookery.policies.datasets.dataset import Dataset

__all__ = ["check_memory", "codec_of", "memory_parts"]

GIB = 1 << 30
PRIORITY_BYTES = 8 * 32 / 31
"""Of each transition, see `rookery.policies.storage.priorities`."""


def codec_of(env: Env, config: OffPolicyConfig, group: Group) -> Pixels | None:
    """The part of a group's observations that is stored in bytes: pictures for an encoder whose values are whole numbers, such
    as colors, unless noise is added to them. None for nothing."""
    if pictures_in(encoder_links(config, group, group.history)) is None:
        return None
    drawn = env.deployment().randomized
    noisy = {what: drawn.get(f"observation_{what}", (0.0, 0.0)) != (0.0, 0.0) for what in ("noise", "bias", "drift")}
    scale = [_byte_scale(term, noisy) for term in group.observation]
    frame = [s for s, term in zip(scale, group.observation, strict=True) for _ in range(term.size)]
    return Pixels(torch.tensor(frame * group.history, device=env.device)) if any(scale) else None


def _byte_scale(term: Term, noisy: dict[str, bool]) -> float:
    """The scale of a term that is stored in bytes, 0 for others."""
    changed = any(getattr(term, what) > 0.0 and on for what, on in noisy.items())
    return term.effective_scale if is_whole(term) and math.isinf(term.clip) and not changed else 0.0


def memory_parts(
    env: Env, config: OffPolicyConfig, steps: int, state_size: int, data: Dataset | None = None
) -> dict[str, float]:
    """Bytes that replay memories take, by name: those of `layout`, "priorities" and "demonstrations".

    Args:
        env: what they are for.
        config: settings.
        steps: control steps of every world that are kept.
        state_size: S, of the environment's state where it is stored.
        data: demonstrations that are stored beside them.
    """
    remembered = config.memory_size * (1 + config.critic_memory) if config.memory != "none" else 0
    out = {"demonstrations": 0.0 if data is None else demonstration_bytes(data, env)}
    for group in env.groups.values():
        sizes = (steps, env.num_envs, group.count, group.observation_size, group.action.size, state_size, remembered)
        own = {name: size_of(*each) for name, each in layout(*sizes, codec_of(env, config, group)).items()}
        for name in FINALS:  # of each end by the time limit; the ring doubles
            own[name] *= 1 + 2 * steps // max(env.max_episode_steps, 1)
        if config.priority_alpha > 0.0:
            own["priorities"] = PRIORITY_BYTES * (steps + 1) * env.num_envs * group.count
        out |= {name: out.get(name, 0.0) + size for name, size in own.items()}
    return out


def check_memory(env: Env, config: OffPolicyConfig, steps: int, state_size: int, data: Dataset | None = None) -> None:
    """Refuse replay memories larger than the memory of the device; for the arguments see `memory_parts`.

    Raises:
        RookeryError: they do not fit, with what they would take and how much is free.
    """
    parts = memory_parts(env, config, steps, state_size, data)
    total = sum(parts.values())
    free = free_bytes(env.device)
    if total <= free:
        return
    observations = sum(parts[name] for name in ("observation", "pixels", "finals", "final_pixels"))
    shown = {
        "observations": observations, "states of memories": parts["memory"], "states of the environment": parts["state"],
        "demonstrations": parts["demonstrations"],
    }  # fmt: skip
    of_these = ", ".join(f"{name} {_shown(size)}" for name, size in shown.items() if size > 0.01 * total)
    fitting = config.buffer_size * (free - parts["demonstrations"]) / (total - parts["demonstrations"])
    raise RookeryError(
        f"the replay memory of {config.buffer_size:,} control steps would take {_shown(total)} ({of_these}), and "
        f"{_shown(free)} of memory are free: {_way_out(fitting, env.num_envs)}."
    )


def demonstration_bytes(data: Dataset, env: Env) -> float:
    """Bytes that the replay memory of demonstrations takes, see `rookery.policies.storage.demonstrations`."""
    total = 0.0
    for name, group in env.groups.items():
        if f"observation.{name}" in data.columns:
            shapes = layout(data.frames, 1, group.count, group.observation_size, group.action.size)
            total += sum(size_of(*each) for each in shapes.values())
    return total


def size_of(shape: Iterable[int], dtype: Any) -> float:
    """Bytes of a tensor."""
    return float(math.prod(shape) * dtype.itemsize)


def _shown(size: float) -> str:
    return f"{size / GIB:,.1f} GiB" if size >= 0.1 * GIB else f"{size / (1 << 20):,.1f} MiB"


def _way_out(fitting: float, worlds: int) -> str:
    """Settings to change where so many control steps fit."""
    if fitting < worlds:
        return "give fewer demonstrations, smaller observations or shorter histories"
    digits = 10 ** max(int(math.log10(fitting)) - 1, 0)
    return f"give --buffer-size {int(fitting // digits) * digits} or less, or smaller observations"
