"""Short rollouts of every task against numbers that were written down: every term of rewards and observations, starts, ends,
events, metrics and states.

They notice what changes a number, and cannot say which number is right: that is for the tests beside this one, on states set by
hand. After a change on purpose, `python tests/tasks/test_reference_rollouts.py` writes the file anew, or only the cases named
behind it. Look at the difference: what changes and was not meant to change is a fault.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "shared"))

from references import Recording, Reference, write

import rookery
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.env import Env
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.specs import Term
from rookery.tasks.registry import OWN_TASKS, find

FILE = Path(__file__).parent / "reference_rollouts.json"
N = 4
RANDOM_STEPS = (1, 3, 8)
SCRIPTED_STEPS = (1, 10, 25, 60)
VOLLEY_STEPS = (1, 12, 30)  # its scripts plan, which takes 10 ms a step
SCATTER_M = (0.02, 0.1, 0.3, 1.0)
READERS = (
    "observe",
    "observe_privileged",
    "rewards",
    "terminated",
    "truncated",
    "active",
    "events",
    "metrics",
    "state",
)
OTHERS: dict[str, dict[str, Any]] = {
    "drone-track circle": {"path": "circle"},
    "drone-track random": {"path": "random"},
    "drone-race depth": {"obs": "depth"},
    "drone-formation rgb": {"obs": "rgb"},
    "drone-race anywhere": {"start": "anywhere", "course": "split-s"},
    "swarm-surround published": {"starts": "published"},
    "swarm-escort published": {"starts": "published"},
    "swarm-catch published": {"starts": "published"},
    "uav-coverage quiet": {"interference": False},
    "go2-velocity arm": {"arm": "airbot_play", "arm_motion": "move"},
    "go2-velocity rough": {"terrain": "rough", "terrain_rows": 2, "terrain_columns": 1},
    "go2-velocity stairs": {"terrain": "stairs_up", "terrain_rows": 2, "terrain_columns": 1, "terrain_level": 1},
    "go2arm-reach parts": {"agents": "parts", "future": False},
    "go2arm-loco-manipulation adaptive": {"adaptive": True, "future": False},
    "table-push full": {"observation": "full", "hide_goal": True},
    "table-drawer-close stop": {"stop_at_success": True},
    "volley-1v1 net": {"solid_net": True, "observe_landing": True},
    "volley-3v3 landing": {"observe_landing": True},
    "volley-hit landing": {"observe_landing": True},
    "volley-bump-and-pass in flight": {"in_flight": 0.7},
    "volley-set-and-spike-easy in flight": {"in_flight": 0.7},
}
"""Tasks with other values of their configs."""
CASES = {**{name: {} for name in sorted(OWN_TASKS) if not find(name).members}, **OTHERS}


def rand(generator: torch.Generator, *shape: int) -> Tensor:
    """Uniform in [-1, 1]."""
    return 2.0 * torch.rand(shape, generator=generator) - 1.0


def jolted(x: Tensor, jolt: float) -> Tensor:
    """`x` moved by a fixed pattern of this size."""
    return x + jolt * torch.sin(1.0 + 3.0 * torch.arange(x.numel(), dtype=x.dtype)).reshape(x.shape)


def note(out: Recording, section: str, env: Env) -> None:
    """What the task tells now."""
    if isinstance(env, VecEnv):
        for reader in READERS:
            out.take(section, reader, env.observe_terms() if reader == "observe" else getattr(env.task, reader)())


def numbers(value: Any) -> Any:
    """What of a declaration are numbers, as tensors."""
    if isinstance(value, Term):
        clock = None if value.clock is None else (value.clock.frequency, value.clock.start)
        names = ("size", "scale", "clip", "noise", "bias", "delay", "hidden", "clock", "drift", "shape")
        value = {name: clock if name == "clock" else getattr(value, name) for name in names}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.name != "reward"}
    if isinstance(value, dict):
        return {str(k): numbers(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return {str(i): numbers(v) for i, v in enumerate(value)}
    return torch.tensor([float(value)]) if isinstance(value, bool | int | float) else None


def flat(value: Any) -> Tensor:
    """[K] all numbers of nested dicts."""
    if isinstance(value, dict):
        parts = [flat(v) for v in value.values()]
        return torch.cat(parts) if parts else torch.empty(0)
    return torch.empty(0) if value is None else value


def declarations(out: Recording, env: Env) -> None:
    """Scales, ranges, limits and loops that contracts carry, and from where videos are taken."""
    deployment = env.deployment()
    for name, group in env.groups.items():
        out.take_exactly(f"declared {name}", flat(numbers(group)))
    out.take_exactly("actuation", flat(numbers(deployment.actuation)))
    out.take_exactly("safety", flat(numbers(deployment.safety)))
    out.take_exactly("camera", flat(numbers(env.camera)))
    if isinstance(env, VecEnv):
        out.take_exactly("parameters", flat(numbers(env.task.parameters() | env.sensors.parameters())))


def random_rollout(out: Recording, env: Env, size: float, jolt: float) -> None:
    section = f"random {size:g}"
    generator = torch.Generator().manual_seed(1)
    obs, _ = env.reset(seed=2)
    out.take("start", "obs", obs)
    note(out, "start", env)
    for step in range(1, RANDOM_STEPS[-1] + 1):
        actions = {}
        for g, s in env.groups.items():
            neutral = torch.tensor(s.action.neutral, dtype=torch.float32)
            actions[g] = jolted(neutral + size * rand(generator, N, s.count, s.action.size), jolt)
        if size >= 1.0 and step == RANDOM_STEPS[-1] and isinstance(env, VecEnv):
            env.steps[1:] = env.max_episode_steps - 1  # their time is up
        obs, reward, terminated, truncated, info = env.step(actions)
        if step in RANDOM_STEPS:
            out.take(section, "obs", obs)
            out.take(section, "reward", reward)
            note(out, section, env)
        out.take(section, "ends", terminated + 2 * truncated)
        if "episode" in info:
            episode = info["episode"]
            for name in ("return", "length", "cause", "metrics", "reward_terms"):
                out.take(section, "episode", {name: episode[name]})
            out.take(section, "final_observation", info["final_observation"])
            if "final_state" in info:
                out.take(section, "final_state", info["final_state"][episode["ids"]])


def scripted_rollout(out: Recording, env: VecEnv, steps: tuple[int, ...], jolt: float) -> None:
    act = env.task.controller()
    if act is None:
        return
    obs, _ = env.reset(seed=3)
    for step in range(1, steps[-1] + 1):
        obs, _, terminated, truncated, info = env.step({g: jolted(a, jolt) for g, a in act(obs).items()})
        if step in steps:
            note(out, "scripted", env)
        out.take("scripted", "ends", terminated + 2 * truncated)
        if "episode" in info:
            out.take("scripted", "metrics", info["episode"]["metrics"])


def turned(quat: Tensor, by: Tensor) -> Tensor:
    """Quaternions [..., 4] plus `by`, of length 1 again."""
    out = quat + by
    return out / out.norm(dim=-1, keepdim=True)


def scatter(env: VecEnv, generator: torch.Generator, size: float, jolt: float) -> None:
    """Move all that can move by up to `size`, m and rad, in half of the worlds together about the first robot; give it a speed;
    and change what the task remembers."""
    model, world = env.world.model, env.world
    free, hinges = [], []
    for i in range(model.njnt):
        name, kind = model.joint(i).name, int(model.jnt_type[i])
        if kind == 0:
            free.append(model.body(model.jnt_bodyid[i]).name)
        elif kind >= 2:
            hinges.append(name)
    if hinges:
        joints = world.joints(hinges)
        pos = joints.pos + size * rand(generator, N, len(hinges))
        joints.set_state(None, jolted(pos, jolt), 3.0 * size * rand(generator, N, len(hinges)))
    if free:
        bodies = world.bodies(free)
        state = bodies.state.clone()
        centre = state[N // 2 :, :1, :3].clone()
        state[N // 2 :, :, :3] = centre + 0.2 * (state[N // 2 :, :, :3] - centre)
        state[..., :3] += size * rand(generator, N, len(free), 3)
        state[..., 3:7] = turned(state[..., 3:7], size * rand(generator, N, len(free), 4))
        state[..., 7:] = 3.0 * size * rand(generator, N, len(free), 6)
        bodies.set_state(None, jolted(state, jolt))
    world.forward()
    if isinstance(world, MujocoWorld):  # `forward` leaves out what depends on accelerations, forces and touch
        world.batch.forward(None)
    for buffer in env.task._buffers.values():
        if buffer.is_floating_point():
            buffer += 0.3 * size * rand(generator, *buffer.shape)
        elif buffer.dim() and buffer.shape[0] == N:
            buffer.copy_(buffer.roll(1, 0))


def scattered(out: Recording, env: VecEnv, jolt: float) -> None:
    generator = torch.Generator().manual_seed(4)
    env.reset(seed=5)
    neutral = {
        g: torch.tensor(s.action.neutral, dtype=torch.float32).expand(N, s.count, -1).clone()
        for g, s in env.groups.items()
    }
    env.step(neutral)
    for size in SCATTER_M:
        scatter(env, generator, size, jolt)
        env.steps += 40
        env.task.advance()
        note(out, "scattered" if size < 0.2 else "scattered far", env)


def run(case: str, jolt: float = 0.0) -> Recording:
    """Record a case."""
    task = case.split(" ")[0]
    env = rookery.make(task, N, config=CASES[case])
    out = Recording()
    declarations(out, env)
    for size in (0.3,) if case in OTHERS else (0.3, 1.0):
        random_rollout(out, env, size, jolt)
    if isinstance(env, VecEnv):
        volley = task.startswith("volley")
        steps = VOLLEY_STEPS if volley else SCRIPTED_STEPS
        scripted_rollout(out, env, steps[:2] if case in OTHERS and not volley else steps, jolt)
        scattered(out, env, jolt)
    env.close()
    return out


REFERENCE = Reference(FILE, {case: partial(run, case) for case in CASES})


@pytest.mark.parametrize("case", sorted(CASES))
def test_numbers_are_those_written_down(case):
    found = REFERENCE.differences(case)
    assert not found, "\n".join(found[:20])


def test_all_that_is_written_down_is_run():
    assert sorted(REFERENCE.written) == sorted(CASES)


def test_most_numbers_are_compared():
    assert REFERENCE.share_left_out() < 0.1
    assert all(entry is None or isinstance(entry, list) or math.isfinite(entry) for entry in REFERENCE.entries)


if __name__ == "__main__":
    write(FILE, REFERENCE.runs, sys.argv[1:])
