"""Contacts of manipulation tasks under their scripts, and what the Panda's joints are asked for, at every physics step.

    python benchmarks/contacts.py                   # depth, slip and jitter of all tasks with a script: prints tables
    python benchmarks/contacts.py --tasks table-push hand-grasp:power_drill
    python benchmarks/contacts.py --limits          # the Panda's torque rate, speed and acceleration: prints tables
    python benchmarks/contacts.py --legs            # feet of the Go2 under a walking policy: contact_legs.py
    python benchmarks/contacts.py --carried         # what a walking Go2 holds in its gripper: contact_carried.py
    python benchmarks/contacts.py --balls           # restitution, depth, spin and rolling of balls: contact_balls.py

The last three write benchmarks/results/contact-*.json; the others write no file.

Contacts are MuJoCo's own, of each copy, from the start to half a second after success: the deepest of a step, its 99th
percentile over the steps that have one, and its maximum with the pair and the moment. Slip: a loose thing in the frame of the
hand that has it up from the table, from when it is up to the end, and in the last second. Jitter is of the last second of the
episode, when scripts hold still. Torque: what drives gave to the joints over a step, which is their law at its end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import contact_balls
import contact_carried
import contact_legs
import mujoco
import numpy as np
import torch
from machine import machine
from numpy.typing import NDArray

import rookery
from rookery.assets.panda import JOINTS, KD, KP, TORQUE
from rookery.cli.main import guarded
from rookery.experiments.runs import find_run
from rookery.robots.manipulators.action_kinds import action_kinds
from rookery.robots.manipulators.panda import PANDA
from rookery.sim.envs.vec_env import VecEnv

Floats = NDArray[np.float64]
TEN = (
    "reach", "push", "pick-place", "door-open", "drawer-open", "drawer-close", "button-press-topdown",
    "peg-insert-side", "window-open", "window-close",
)  # fmt: skip
TASKS = (
    *(f"table-{name}" for name in TEN), "panda-lift", "panda-stack", "panda-push-t", "panda-cabinet",
    "dual-panda-handover", "hand-grasp:bleach_cleanser", "hand-grasp:power_drill", "hand-grasp:potted_meat_can",
    "hand-grasp:mustard_bottle", "hand-grasp:sugar_box",
)  # fmt: skip
CLASSES = {"robot and thing": 4, "thing and scene": 3, "robot and scene": 1}
"""By the sum of the two bodies' kinds: the scene's 0, a robot's 1, a movable thing's 3."""
CONTACT_EXPERTS = ("door-open", "peg-insert-side", "pick-place", "push")
AFTER_S, LAST_S, CALM_S = 0.5, 1.0, 0.1  # s: see above; time without contact from which motion counts as free
UP = 0.005  # m, over where it stood, from which a thing counts as lifted
MOVING = 1e-3  # rad/s, under which a change of a joint's speed does not count as a reversal
SHARES, LEAST = (0.99, 0.999, 1.0), 100  # of the steps; fewer steps make no row
OVER = 1.001  # of a limit, from which on it is exceeded: torques pass through float32


@dataclass
class Tape:
    """What happened in every physics step of all copies of an environment; lists have one entry a step."""

    env: VecEnv
    q: list[Floats] = field(default_factory=list)  # [N, nq] at the step's beginning; likewise v and control, held in it
    v: list[Floats] = field(default_factory=list)
    control: list[Floats] = field(default_factory=list)
    drive: list[Floats] = field(default_factory=list)  # [N, nv] N m, of the drives without gravity's, at the beginning
    gravity: list[Floats] = field(default_factory=list)  # [N, nv] N m, what drives give against it
    depth: list[Floats] = field(default_factory=list)  # [N, 3] m, the deepest of each class, nan without contact
    pair: list[NDArray[np.int64]] = field(default_factory=list)  # [N, 3, 2] its geoms
    holder: list[NDArray[np.int64]] = field(default_factory=list)  # [N] the hand that has the thing up, or -1
    place: list[Floats] = field(default_factory=list)  # [N, H, 3] m, world, of the hands
    grip: list[Floats] = field(default_factory=list)  # [N, H, 3, 4] the thing's pose in the hands' frames

    def __post_init__(self) -> None:
        world: Any = self.env.world
        self.model: mujoco.MjModel = world.model
        m = self.model
        self.batch = world.batch
        self.data = mujoco.MjData(world.model)
        robots = {int(m.body_rootid[m.jnt_bodyid[j]]) for j in m.actuator_trnid[m.actuator_trntype == 0, 0]}
        moves = m.body_dofnum[m.body_weldid] > 0
        self.kind = np.where(np.isin(m.body_rootid, list(robots)), 1, np.where(moves, 3, 0))
        free = m.jnt_bodyid[m.jnt_type == mujoco.mjtJoint.mjJNT_FREE]
        self.thing = int(free[0]) if len(free) else -1
        self.hands = [i for i in range(m.nsite) if m.site(i).name.endswith(("/tcp", "hand/grasp"))]
        self.low = np.full(self.env.num_envs, np.nan)  # m, of the thing as it stood
        world.inner_loops += (self.take,)

    def take(self, _: int) -> None:
        """Before each physics step: copies of the state, and the contacts in it."""
        for name, kept in (("qpos", self.q), ("qvel", self.v), ("ctrl", self.control)):
            kept.append(self.batch.bind(name).copy())
        n = self.env.num_envs
        hands = len(self.hands)
        depth = np.full((n, 3), np.nan)
        pair = np.zeros((n, 3, 2), np.int64)
        holder = np.full(n, -1)
        place = np.zeros((n, hands, 3))
        grip = np.zeros((n, hands, 3, 4))
        drive = np.zeros((n, self.model.nv))
        gravity = np.zeros((n, self.model.nv))
        data = self.data
        root = self.model.body_rootid
        for i in range(n):
            self.batch.get_data(i, data)
            for stage in (mujoco.mj_fwdPosition, mujoco.mj_fwdVelocity, mujoco.mj_fwdActuation):
                stage(self.model, data)
            gravity[i] = data.qfrc_gravcomp
            drive[i] = data.qfrc_actuator - gravity[i]
            bodies = self.model.geom_bodyid[data.contact.geom].reshape(-1, 2)
            dist = data.contact.dist
            total = self.kind[bodies].sum(1)
            for c, number in enumerate(CLASSES.values()):
                of = np.flatnonzero((total == number) | ((number == 3) & (total == 6)))
                if len(of):
                    worst = of[dist[of].argmin()]
                    depth[i, c] = max(-dist[worst], 0.0)
                    pair[i, c] = data.contact.geom[worst]
            touched = (bodies == self.thing).any(1)
            on = bodies[touched & (total == 4)]
            aloft = (total[touched] == 4).all()
            height = data.xpos[self.thing, 2]
            self.low[i] = height if np.isnan(self.low[i]) else self.low[i]
            for h, site in enumerate(self.hands):
                turn = data.site_xmat[site].reshape(3, 3)
                place[i, h] = data.site_xpos[site]
                grip[i, h, :, 0] = turn.T @ (data.xpos[self.thing] - place[i, h])
                grip[i, h, :, 1:] = turn.T @ data.xmat[self.thing].reshape(3, 3)
                fingers = {int(b) for b in on.ravel() if root[b] == root[self.model.site_bodyid[site]]}
                if len(fingers) > 1 and aloft and height > self.low[i] + UP:
                    holder[i] = h
        self.depth.append(depth)
        self.pair.append(pair)
        self.holder.append(holder)
        self.place.append(place)
        self.grip.append(grip)
        self.drive.append(drive)
        self.gravity.append(gravity)


def play(env: VecEnv) -> tuple[Tape, NDArray[np.int64]]:
    """One episode of the script in each copy but its last control step; also [N] physics steps until success."""
    obs, _ = env.reset()
    act = env.task.controller()
    tape = Tape(env)
    assert act is not None
    for _ in range(env.max_episode_steps - 1):
        obs, *_ = env.step(act(obs))
    m = env.task.metrics()
    print(f"{env.task_id}: success {float(m['success'].mean()):.2f} of {env.num_envs} starts", flush=True)
    return tape, (m["seconds"].numpy() / env.world.dt).astype(np.int64)


# Contacts


def contacts(tasks: Sequence[str], starts: int, seed: int) -> None:
    rows: dict[str, list[str]] = {"depth": [], "slip": [], "jitter": []}
    for task in tasks:
        name, _, thing = task.partition(":")
        env = rookery.make(name, starts, seed=seed, config={"object": thing} if thing else None)
        tape, done = play(env)
        rows["depth"].append(f"| {task} | {' | '.join(depths(tape, done))} |")
        if tape.thing >= 0 and (np.array(tape.holder) >= 0).any():
            rows["slip"].append(f"| {task} | {' | '.join(slips(tape))} |")
        if JOINTS[0] in tape.model.joint(0).name:
            rows["jitter"].append(f"| {task} | {' | '.join(jitters(tape))} |")
        env.close()
    print("\n| task | " + " | ".join(f"{c}: 99 %, most, mm" for c in CLASSES) + " |")
    print("|---|---|---|---|", *rows["depth"], sep="\n")
    print("\n| task | held, s | slip, mm | turn, mrad | in the last second, mm | mrad |")
    print("|---|---|---|---|---|---|", *rows["slip"], sep="\n")
    print("\n| task | tool moves, um | tool, mm/s^2 | joints, rad/s^2 | joint reversals a second |")
    print("|---|---|---|---|---|", *rows["jitter"], sep="\n")


def depths(tape: Tape, done: NDArray[np.int64]) -> list[str]:
    """A cell for each class of contacts."""
    m, dt = tape.model, tape.env.world.dt
    names = [m.geom(i).name or m.body(m.geom_bodyid[i]).name for i in range(m.ngeom)]
    depth = np.array(tape.depth)
    pair = np.array(tape.pair)
    cells = []
    late = np.arange(len(depth))[:, None] >= done + AFTER_S / dt
    depth[late] = np.nan
    for c in range(len(CLASSES)):
        one = depth[:, :, c]
        if np.isnan(one).all():
            cells.append("-")
            continue
        k, i = np.unravel_index(np.nanargmax(one), one.shape)
        two = " on ".join(names[g].split("/")[-1] for g in pair[k, i, c])
        cells.append(f"{1e3 * np.nanquantile(one, 0.99):.2f}, {1e3 * one[k, i]:.2f} ({two}, {k * dt:.2f} s)")
    return cells


def slips(tape: Tape) -> list[str]:
    """Of the longest time that a hand held the thing in each copy: how long, and how far it got; medians and maxima."""
    holder = np.array(tape.holder)
    grip = np.array(tape.grip)
    dt = tape.env.world.dt
    figures = []
    for i in range(holder.shape[1]):
        cuts = [0, *(np.flatnonzero(np.diff(holder[:, i])) + 1), len(holder)]
        start, end = max(
            ((a, b) for a, b in zip(cuts, cuts[1:], strict=False) if holder[a, i] >= 0), key=lambda ab: ab[1] - ab[0],
            default=(0, 0),
        )  # fmt: skip
        if (end - start) * dt < AFTER_S:
            continue
        pose = grip[start:end, i, holder[start, i]]
        late = max(0, len(pose) - 1 - round(LAST_S / dt))
        figures.append([(end - start) * dt, *_way(pose[0], pose[-1]), *_way(pose[late], pose[-1])])
    return [f"{a:.2f} ({b:.2f})" for a, b in zip(np.median(figures, 0), np.max(figures, 0), strict=True)]


def _way(a: Floats, b: Floats) -> tuple[float, float]:
    """Mm and mrad between two poses [3, 4] of a thing in a hand; the place is of the point between the fingers at first."""
    point = -a[:, 1:].T @ a[:, 0]
    cosine = 0.5 * (np.trace(b[:, 1:] @ a[:, 1:].T) - 1.0)
    return 1e3 * float(np.linalg.norm(b[:, 0] + b[:, 1:] @ point)), 1e3 * float(np.arccos(min(cosine, 1.0)))


def jitters(tape: Tape) -> list[str]:
    """Of the first arm in the last second: the tool's largest way from its mean, rms accelerations, reversals of a joint."""
    dt = tape.env.world.dt
    last = slice(-round(LAST_S / dt), None)
    place = np.array(tape.place)[last, :, 0]
    v = np.array(tape.v)[last, :, :7]
    moves = np.linalg.norm(place - place.mean(0), axis=2).max(0)
    tool = np.linalg.norm(np.diff(place, 2, axis=0), axis=2) / dt**2
    joint = np.diff(v, axis=0) / dt
    turns = ((v[1:] * v[:-1] < 0) & (np.abs(joint) * dt > MOVING)).sum(0).max(1) / LAST_S
    parts = (1e6 * moves, 1e3 * _rms(tool), _rms(np.abs(joint).max(2)), turns)
    return [f"{np.median(p):.2g} ({p.max():.2g})" for p in parts]


def _rms(x: Floats) -> Floats:
    return np.asarray(np.sqrt((x * x).mean(0)))


# Limits


def limits(starts: int, seed: int) -> None:
    rows = []
    for kind in action_kinds():
        for how in ("corners", "Gaussian"):
            env = rookery.make("table-reach", starts, seed=seed, config={"action": kind})
            rows += figures_of(f"{kind}, {how}", wander(env, how, seed))
    for name in CONTACT_EXPERTS:
        rows += figures_of(f"expert, {name}", play(rookery.make(f"table-{name}", starts, seed=seed))[0])
    print("\nthe worst joint in each physics step, as a share of its limit: steps above 1; 99 %, 99.9 %, most")
    print("\n| actions | steps | torque rate | speed | acceleration |\n|---|---|---|---|---|", *rows, sep="\n")


def wander(env: VecEnv, how: str, seed: int) -> Tape:
    """Random actions for an episode but its last step: corners held for 1 to 20 control steps, or normal ones of 0.5."""
    env.reset()
    tape = Tape(env)
    rng = np.random.default_rng(seed)
    task = env.task
    shape = (env.num_envs, 1, task.groups()["arm"].action.size)
    action = np.zeros(shape)
    left = np.zeros(env.num_envs, int)
    for _ in range(env.max_episode_steps - 1):
        if how == "corners":
            left, new = np.where(left > 0, left - 1, rng.integers(0, 20, env.num_envs)), left == 0
            action = np.where(new[:, None, None], rng.choice((-1.0, 1.0), shape), action)
        else:
            action = np.clip(0.5 * rng.normal(size=shape), -1.0, 1.0)
        env.step({"arm": torch.tensor(action, dtype=torch.float32)})
    return tape


def figures_of(name: str, tape: Tape) -> list[str]:
    """Rows: free motion, and the rest."""
    dt, v = tape.env.world.dt, np.array(tape.v)[:, :, :7]
    rate = np.abs(np.diff(torques(tape), axis=0)) / dt / PANDA.torque_rate
    speed = np.abs(v[1:-1]) / np.array(PANDA.speed)
    acceleration = np.abs(np.diff(v, axis=0)[:-1]) / dt / np.array(PANDA.acceleration)
    worst = [x.max(2) for x in (rate, speed, acceleration)]
    met = np.asarray(np.isfinite(np.array(tape.depth)[1:, :, [0, 2]]).any(axis=2))  # the robot and anything
    calm = round(CALM_S / dt)
    count = np.cumsum(np.pad(met, ((calm, 0), (0, 0))), axis=0)
    near = count[calm:] > np.pad(count[:-calm], ((1, 0), (0, 0)))[: len(met)]
    near = near[:-1] | met[1:]
    rows = []
    for what, of in (("free", ~near), ("in touch", near)):
        if of.sum() >= LEAST:
            cells = [
                f"{(x[of] > OVER).mean():.2%}; {', '.join(f'{y:.2f}' for y in np.quantile(x[of], SHARES))}"
                for x in worst
            ]
            rows.append(f"| {name}, {what} | {of.sum():,} | {' | '.join(cells)} |")
    print(*rows, sep="\n", flush=True)
    tape.env.close()
    return rows


def torques(tape: Tape) -> Floats:
    """[T - 1, N, 7] N m, without gravity's, of the drives in each step.

    The integrator "discrete" takes a servo's law at the end of the step, but where the servo or its joint, gravity's share
    included, is at its limit at the beginning: there it gives that.
    """
    q, v, control, drive, gravity = (
        np.array(x)[:, :, :7] for x in (tape.q, tape.v, tape.control, tape.drive, tape.gravity)
    )
    if tape.model.actuator_biastype[0] != mujoco.mjtBias.mjBIAS_AFFINE:
        return drive[:-1]
    most = np.array(TORQUE)
    end = np.array(KP) * (control[:-1] - q[1:]) - np.array(KD) * v[1:]
    begin = np.array(KP) * (control - q) - np.array(KD) * v
    free = (np.abs(begin) < most) & (np.abs(drive + gravity) < most - 1e-9)
    return np.where(free[:-1], end, drive[:-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="of the tables of contacts; all with a script")
    parser.add_argument("--starts", type=int, help="of each task, also with --limits; 20")
    parser.add_argument("--seed", type=int, help="of each task, also with --limits; 1")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--limits", action="store_true", help="the Panda's joints; prints tables and writes no file")
    modes.add_argument("--balls", action="store_true", help="writes contact-balls.json")
    modes.add_argument(
        "--legs", nargs="?", const="go2-velocity", metavar="POLICY",
        help="run or policy of go2-velocity; writes contact-legs.json",
    )  # fmt: skip
    modes.add_argument(
        "--carried", nargs="*", choices=list(contact_carried.CASES), help="all without one; writes contact-carried.json"
    )
    args = parser.parse_args()
    fixed = [name for name in ("balls", "legs", "carried") if getattr(args, name) not in (None, False)]
    unused = ("tasks", "starts", "seed") if fixed else ("tasks",) if args.limits else ()
    for name in unused:
        if getattr(args, name) is not None:
            parser.error(f"--{name} has no effect with --{'limits' if args.limits else fixed[0]}: leave it out")
    return guarded(lambda: measure(args))


def measure(args: argparse.Namespace) -> int:
    """What the options ask for."""
    starts = 20 if args.starts is None else args.starts
    seed = 1 if args.seed is None else args.seed
    legs = find_run(Path(args.legs)) if args.legs else None  # before anything is measured
    print(machine())
    if args.balls:
        contact_balls.write()
    elif legs is not None:
        contact_legs.write(args.legs)
    elif args.carried is not None:
        contact_carried.write(Path("go2arm-loco-manipulation"), args.carried)
    else:
        if args.limits:
            limits(starts, seed)
        else:
            contacts(args.tasks or TASKS, starts, seed)
        print("\nno file is written: the tables above are all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
