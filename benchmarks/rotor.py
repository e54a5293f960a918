"""Speed of the `rotor` engine, alone and inside whole environments, on one and on all processors.

    python benchmarks/rotor.py [--cases rotor_thrust-50 env-hover] [--threads 1 2] [--seconds 0.5] [--rounds 8] [--json]

Every figure counts drone steps: worlds x drones x steps / time. Engine cases step physics only, by `Drones.apply` (fresh
random commands near hovering, inside the clock) and `World.step(k)`, at 500 Hz:

    rotor_thrust-k, ctbr-k, attitude-k   1024 worlds of one drone: rotor lag, gyroscopic torque, drag of body and rotors;
                                         ctbr and attitude run the onboard controller at every physics step
    swarm-k, swarm-pybullet-k            1024 worlds of 8 drones, motor commands: the above with ground effect and downwash;
                                         and with what gym-pybullet-drones models, by the preset of its name

k is the number of physics steps a call. Environment cases count control steps of `VecEnv.step` with everything that it does,
rewards, observations and new episodes included, under random actions near neutral.

Worlds go back to where they began after 0.2 s of flight, off the clock. The numbers of threads are measured by turns, each in a
process that may use so many processors.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from peers.slices import Rates, Slice, Worker, alternate, serve, timed

WORLDS = 1024
STEPS = (4, 10, 50)
FLIGHT = 100  # physics steps after which worlds go back: drones that nobody steers would soon lie on the ground
KINDS = ("rotor_thrust", "ctbr", "attitude")
SWARMS = ("swarm", "swarm-pybullet")
ENVIRONMENTS = {  # case: task, engine, worlds, config
    "env-hover": ("drone-hover", "rotor", 1024, {}),
    "env-hover-mujoco": ("drone-hover", "mujoco", 1024, {}),
    "env-surround": ("swarm-surround", "rotor", 1024, {"num_drones": 4}),
    "env-volley-3v3": ("volley-3v3", "rotor", 2048, {}),
}
ENGINE_CASES = tuple(f"{kind}-{k}" for kind in (*KINDS, *SWARMS) for k in STEPS)
CASES = (*ENGINE_CASES, *ENVIRONMENTS)
GROUPS = {"engine": ENGINE_CASES, "env": tuple(ENVIRONMENTS)}


def build(case: str) -> Slice:
    """A case by name."""
    if case in ENVIRONMENTS:
        return environment(case)
    what, _, k = case.rpartition("-")
    if case not in ENGINE_CASES:
        raise ValueError(f"no case {case!r}: there are {', '.join(CASES)}")
    return engine(what, int(k))


def engine(what: str, k: int) -> Slice:
    """Physics only."""
    import torch

    from rookery.robots.drones.drone import Drones
    from rookery.sim.engines.rotor.world import RotorWorld
    from rookery.sim.multirotor.aeronautics import Aeronautics
    from rookery.sim.multirotor.effects import PRESETS
    from rookery.tasks.drones.hover import Hover, HoverConfig

    lag_and_drag = replace(PRESETS["none"], gyroscopic=True, body_drag=True, rotor_drag=True)
    effects = {
        "swarm": replace(lag_and_drag, ground_effect=True, downwash="realistic"),
        "swarm-pybullet": PRESETS["gym-pybullet-drones"],
    }.get(what, lag_and_drag)
    count = 8 if what in SWARMS else 1
    task = Hover(HoverConfig(num_drones=count))
    scene = task.scene()
    scene.extension(Aeronautics).effects = effects
    world = RotorWorld(scene, WORLDS)
    drones = Drones(world, task.names, task.drone, what if what in KINDS else "rotor_thrust")
    generator = torch.Generator().manual_seed(0)
    state = torch.zeros(WORLDS, count, 13)
    state[..., :3] = torch.tensor([0.0, 0.0, 10.0])
    if count > 1:  # four above four, 0.5 m apart, the lower ones near ground; nowhere the same
        i = torch.arange(count)
        state[..., :3] = torch.stack((0.4 * (i % 2), 0.4 * (i // 2 % 2), 0.3 + 0.5 * (i // 4)), dim=-1)
        state[..., :3] += 0.2 * torch.rand(WORLDS, count, 3, generator=generator) - 0.1
    state[..., 3] = 1.0
    everyone = torch.arange(WORLDS)
    spread = 0.2 * torch.rand(FLIGHT // k, WORLDS, count, 4, generator=generator) - 0.1
    commands = list(torch.tensor(drones.spec.neutral) + spread)

    def prepare() -> None:
        world.reset()
        drones.reset(everyone, state)

    def run() -> int:
        for command in commands:
            drones.apply(command)
            world.step(k)
        return len(commands) * k

    rate = timed(WORLDS * count, prepare, run)
    if world.failures or not torch.isfinite(drones.bodies.state).all():
        raise RuntimeError(f"{world.failures} worlds diverged")
    return rate


def environment(case: str) -> Slice:
    """A whole environment; one run is so many control steps that ends of episodes take their share."""
    import torch

    import rookery

    task, engine_name, worlds, config = ENVIRONMENTS[case]
    env = rookery.make(task, num_envs=worlds, engine=engine_name, config=config)
    generator = torch.Generator().manual_seed(0)
    actions = []
    for _ in range(16):
        one = {}
        for name, group in env.groups.items():
            spread = 0.2 * torch.rand(worlds, group.count, group.action.size, generator=generator) - 0.1
            one[name] = torch.tensor(group.action.neutral) + spread
        actions.append(one)
    env.reset(seed=0)
    env.stagger()
    for i in range(200):  # until the mixture of young and old episodes is that of a long run
        env.step(actions[i % len(actions)])

    def run() -> int:
        for action in actions:
            env.step(action)
        return len(actions)

    return timed(worlds * sum(g.count for g in env.groups.values()), lambda: None, run)


def worker(threads: int | None = None) -> Worker:
    """A process that serves these cases."""
    label = "rookery" if threads is None else f"{threads} thread{'s' if threads > 1 else ''}"
    return Worker(label, [sys.executable, str(Path(__file__).resolve()), "--serve"], threads)


def main() -> int:
    processors = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), help=f"engine, env, or some of {', '.join(CASES)}")
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, processors}))
    parser.add_argument("--seconds", type=float, default=0.5, help="of one slice")
    parser.add_argument("--rounds", type=int, default=8, help="slices of each case and number of threads")
    parser.add_argument("--json", action="store_true", help="one JSON line a row")
    parser.add_argument("--serve", action="store_true", help="take orders on standard input (for peers/run.py)")
    args = parser.parse_args()
    if args.serve:
        serve(build)
        return 0
    if bad := [t for t in args.threads if not 1 <= t <= processors]:
        parser.error(f"--threads {bad[0]}: this process may use {processors} processors")
    from machine import machine

    if not args.json:
        print(machine(), flush=True)
        print("| case | threads | drone steps/s, median | best |\n|---|---|---|---|", flush=True)
    workers = [worker(t) for t in args.threads]
    failed = 0
    for case in [c for name in args.cases for c in GROUPS.get(name, (name,))]:
        try:
            found = alternate([(w, case) for w in workers], args.seconds, args.rounds)
        except RuntimeError as e:
            print(f"{case}: {e}", file=sys.stderr, flush=True)
            failed = 1
            continue
        for threads, rates in zip(args.threads, found, strict=True):
            print(row(threads, rates, args.json), flush=True)
    for w in workers:
        w.close()
    return failed


def row(threads: int, rates: Rates, as_json: bool) -> str:
    """One line of the result."""
    if as_json:
        return json.dumps({"case": rates.case, "threads": threads, "median": rates.median, "best": rates.best})
    return f"| {rates.case} | {threads} | {rates.median:,.0f} | {rates.best:,.0f} |"


if __name__ == "__main__":
    raise SystemExit(main())
