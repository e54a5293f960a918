"""Success of policies that fly, walk and reach over the links of `rookery fly`, in real time over loopback.

    python benchmarks/links.py --episodes 20 [--only betaflight ros2]

Each episode is a `rookery vehicle` and a `rookery fly` of their own, as two processes, with the vehicle's own noise and a seed:
a start, a target or a goal. An episode that the safety filter ends is a failure, whatever the reason.

franka-sim, a simulator by others, has an environment of its own, whose Python ROOKERY_FRANKA_SIM names.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from mcap.reader import make_reader
from onnx import TensorProto, helper, numpy_helper
from result_file import RESULTS, measure_tasks

from rookery.cli.main import guarded
from rookery.sim.errors import RookeryError
from rookery.sim2real.links.dds import Participant
from rookery.sim2real.links.unitree_messages import SPORT_MODE_STATE
from rookery.sim2real.vehicles.unitree import TRUTH

ROOKERY = [sys.executable, "-m", "rookery"]
SERVED_S = 120  # s, most time of a vehicle's start; numba may have to compile
SETTLED_S = 2.0  # s, at the end of a hover, over which its error counts: drone-hover's own
HOVER_M, REACH_M, PULLED_M, WALK_M_S = 0.05, 0.05, 0.03, 0.15
STEP_M, STEPS, CLIMB_M = 0.1, 9, 0.05  # those of a tile of stairs, and what may lack to all of them
COLUMNS = [
    {"key": "case", "title": "link"},
    {"key": "policy", "title": "policy"},
    {"key": "success", "title": "success over the link", "format": ".2f"},
    {"key": "episodes", "title": "episodes"},
    {"key": "simulator", "title": "in the simulator", "format": ".3f"},
    {"key": "error", "title": "error", "format": ".3f"},
    {"key": "faults", "title": "faults"},
    {"key": "jitter_ms", "title": "jitter, ms", "format": ".2f"},
    {"key": "age_ms", "title": "age, ms", "format": ".1f"},
    {"key": "cycle_us", "title": "cycle, us", "format": ".0f"},
    {"key": "commit", "title": "commit"},
]
METRICS = {
    "case": "each over loopback with a vehicle of `rookery vehicle`, or with franka-sim 1.1.7, written by others; CANopen "
    "with a SYNC every 8 ms",
    "success": f"drones: mean distance from a random target in the last {SETTLED_S:g} s below {HOVER_M:g} m; arms: tool "
    f"within {REACH_M:g} m of a random goal, or a drawer's handle within {PULLED_M:g} m of its own, at any time, as their "
    f"tasks count it; legs: rms error of a random velocity at most {WALK_M_S:g} m/s; on stairs: at most {CLIMB_M:g} m short of "
    f"all {STEPS} steps of {STEP_M:g} m, straight ahead at 0.5 m/s from the floor of a pit, in whatever heading it lies there; "
    "no fault of the filter, such as a fall",
    "simulator": "success of the same policy in its task, nominal physics, from zoo.json; of `one matrix`, no policy of the "
    "zoo, by `rookery fly --dry-run` with the same targets",
    "error": "mean over the episodes of what success is judged by, m or m/s",
    "faults": "episodes that the safety filter ended",
    "jitter_ms": "past the deadline of a control step, 99 %, mean over the episodes",
    "age_ms": "of measurements when the policy acts, median, mean over the episodes",
    "cycle_us": "of a control step without the network, median, mean over the episodes",
}

Flown = tuple[dict[str, Any], list[dict[str, Any]], list[float]]
"""The report of `fly`, the rows of its log while the policy acted, and what was watched besides."""


@contextlib.contextmanager
def served(words: Sequence[str], folder: Path, seed: int) -> Iterator[None]:
    """A vehicle in a process of its own.

    Raises:
        RookeryError: it does not begin.
    """
    process = subprocess.Popen([*ROOKERY, "vehicle", *words, "--seed", str(seed)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = ""
        while "is served" not in said:
            line = process.stderr.readline()
            said += line
            if not line:
                raise RookeryError(f"the vehicle does not begin: {said.strip()[-300:]}")
        yield
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Case:
    """A link and what goes over it.

    Args:
        policy: of the zoo, or "one matrix".
        task: whose vehicle is served.
        serve: options of `rookery vehicle` for a free port, of three, and a folder.
        url: of the link, for the same.
        seconds: that the policy acts.
        command: of an episode.
        error: of a flight.
        most: of the error, with which it succeeds.
        watch: what is noted during a flight, for the same port.
        host: serves the vehicle, told the task and those options, the folder and the seed.
        words: for `rookery fly` besides, for the folder.
    """

    policy: str
    task: str
    serve: Callable[[int, Path], Sequence[str]]
    url: Callable[[int, Path], str]
    seconds: float
    command: Callable[[random.Random], Sequence[str]]
    error: Callable[[Flown], float]
    most: float
    watch: Callable[[int], AbstractContextManager[list[float]]] = lambda port: contextlib.nullcontext([])
    host: Callable[[Sequence[str], Path, int], AbstractContextManager[None]] = served
    words: Callable[[Path], Sequence[str]] = lambda folder: ()


def target(rng: random.Random) -> Sequence[str]:
    """A place around the one over the start, as drone-hover draws them."""
    place = [rng.uniform(-0.5, 0.5), rng.uniform(-0.5, 0.5), 1.0 + rng.uniform(-0.5, 0.5)]
    return ["--command", "target=" + ",".join(f"{v:.3f}" for v in place)]


def velocity(rng: random.Random) -> Sequence[str]:
    """Forward, left, turning."""
    return [
        "--command",
        f"velocity={rng.uniform(0.0, 0.8):.2f},{rng.uniform(-0.3, 0.3):.2f},{rng.uniform(-0.6, 0.6):.2f}",
    ]


def drawn(rng: random.Random) -> Sequence[str]:
    """The goal that the task has drawn, by the vehicle's seed."""
    return []


def hover_error(flown: Flown) -> float:
    """m, mean distance from the target at the end."""
    rows = [r for r in flown[1] if r["time"] > flown[1][-1]["time"] - SETTLED_S]
    away = [np.subtract(r["state"]["position"], r["commands"]["target"]) for r in rows]
    return float(np.linalg.norm(away, axis=1).mean())


def reach_error(flown: Flown) -> float:
    """m, of the tool from the goal, least."""
    return _least(flown, "tool's position")


def drawer_error(flown: Flown) -> float:
    """m, of the drawer's handle from the goal, least."""
    return _least(flown, "first object's position")


def _least(flown: Flown, what: str) -> float:
    seen = [(row["state"] | row["estimates"])[what] for row in flown[1]]
    goals = [row["state"]["goal's position"] for row in flown[1]]
    return float(np.linalg.norm(np.subtract(seen, goals), axis=1).min())


def walk_error(flown: Flown) -> float:
    """m/s, rms."""
    return float(flown[0]["vehicles"][0]["velocity_error"])


def ahead(rng: random.Random) -> Sequence[str]:
    """Straight ahead; the vehicle's seed draws where to."""
    return ["--command", "velocity=0.5,0,0"]


@contextlib.contextmanager
def true_heights(port: int) -> Iterator[list[float]]:
    """m, true heights of a Go2's trunk while it is served."""
    reader = Participant("lo", domain(port)).reader(TRUTH, SPORT_MODE_STATE)
    out: list[float] = []
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.05):
            out.extend(float(m["position"][2]) for m in reader.take())

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield out
    finally:
        over.set()
        thread.join()


def climb_error(flown: Flown) -> float:
    """m that lack to the top, between lying before and after.

    Raises:
        RookeryError: the vehicle has not told where it is.
    """
    if not flown[2]:
        raise RookeryError("the vehicle has not told where it is.")
    return max(0.0, STEPS * STEP_M - (flown[2][-1] - flown[2][0]))


def hover(serve: Callable[[int, Path], Sequence[str]], url: Callable[[int, Path], str], policy: str) -> Case:
    """A drone at a place."""
    return Case(policy, "drone-hover", serve, url, 5.0, target, hover_error, HOVER_M)


def reach(serve: Callable[[int, Path], Sequence[str]], url: Callable[[int, Path], str], **of: Any) -> Case:
    """An arm to a place."""
    return Case("table-reach", "table-reach", serve, url, 4.0, drawn, reach_error, REACH_M, **of)


def drawer(serve: Callable[[int, Path], Sequence[str]], url: Callable[[int, Path], str], **of: Any) -> Case:
    """An arm that pulls a drawer open."""
    return Case("table-drawer-open", "table-drawer-open", serve, url, 4.0, drawn, drawer_error, PULLED_M, **of)


def domain(port: int) -> int:
    """A DDS domain of its own."""
    return 1 + port % 200


def free_udp_ports() -> int:
    """The first of three UDP ports side by side that nobody uses."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for i in range(3):
                stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)).bind(("127.0.0.1", port + i))
            return port


@contextlib.contextmanager
def franka_sim(words: Sequence[str], folder: Path, seed: int) -> Iterator[None]:
    """franka-sim with an episode of a task, given the task and the port of its tracker.

    Raises:
        RookeryError: there is none, or it does not begin.
    """
    task, port = words
    if not os.environ.get("ROOKERY_FRANKA_SIM"):
        raise RookeryError("no franka-sim: ROOKERY_FRANKA_SIM is to name the Python of its environment.")
    start = Path(__file__).parent / "peers" / "franka_sim_start.py"
    command = [sys.executable, str(start), task, str(folder), port, str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        if not any(line.strip() == "ready" for line in process.stdout):
            raise RookeryError("franka-sim does not begin.")
        yield
    finally:
        process.kill()
        process.wait()


@cache
def bundle(policy: str) -> Path:
    """A policy's bundle.

    Raises:
        RookeryError: it is not exported.
    """
    out = Path(tempfile.mkdtemp(prefix="rookery-links-")) / "bundle"
    if policy == "one matrix":
        out.mkdir()
        one_matrix(out)
        return out
    done = subprocess.run([*ROOKERY, "export", policy, "--out", str(out)], capture_output=True, text=True)
    if done.returncode:
        raise RookeryError(f"{policy} is not exported: {done.stderr.strip()[-300:]}")
    return out


def one_matrix(out: Path) -> None:
    """Velocities in proportion to the way to the target: no policy of the zoo commands velocities."""
    weights = np.zeros((3, 4), np.float32)
    weights[:, :3] = 1.5 * np.eye(3)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, s]) for n, s in (("seen", 3), ("wanted", 4))]
    nodes = [helper.make_node("MatMul", ["seen", "w"], ["wanted"])]
    graph = helper.make_graph(nodes, "policy", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), out / "policy.onnx")
    contract = {
        "schema": "rookery-short-contract", "control_dt": 0.01,
        "observation": [{"name": "way", "of": "target - position"}],
        "action": {"kind": "velocity", "low": [-1.0] * 4, "high": [1.0] * 4},
        "multirotor": {"mass": 0.0306, "most_thrust": 0.44}, "fence_m": 3.0,
    }  # fmt: skip
    (out / "contract.json").write_text(json.dumps(contract))


GROUP = "239.74.163.2"
PIT = ["--task-config", "terrain=stairs_up", f"terrain_step_m={STEP_M}", "terrain_rows=1", "terrain_columns=1"]
FRANKA = (lambda p, _: ["--protocol", "fci", "--port", f"{p}"], lambda p, _: f"franka://127.0.0.1?tracker={p}")
FRANKA_SIM = (lambda p, _: [f"{p}"], FRANKA[1])
BY_OTHERS = {"host": franka_sim, "words": lambda folder: ["--safety", str(folder / "safety.toml")]}
CANOPEN = (
    lambda p, _: ["--protocol", "canopen", "--bus", GROUP, "--listen", f"{p + 1}", "--port", f"{p}"],
    lambda p, _: f"canopen://{GROUP}:{p + 1}?gripper=8&tracker={p}&sync=8",  # at 4 ms each end takes most of a core
)
CASES = {
    "mavlink": hover(
        lambda p, _: ["--protocol", "mavlink", "--port", f"{p}", "--listen", f"{p + 1}"],
        lambda p, _: f"mavlink://127.0.0.1:{p}",
        "drone-hover",
    ),
    "crazyflie": hover(
        lambda p, _: ["--protocol", "crtp", "--listen", f"{p}"], lambda p, _: f"crazyflie://127.0.0.1:{p}", "drone-hover"
    ),
    "betaflight": hover(
        lambda p, _: ["--protocol", "betaflight", "--listen", f"{p}", "--port", f"{p + 1}"],
        lambda p, _: f"betaflight://127.0.0.1:{p}?tracker={p + 1}",
        "drone-hover",
    ),
    "ros2, twists": hover(
        lambda p, _: ["--protocol", "ros2", "--domain", f"{domain(p)}"],
        lambda p, _: f"ros2://lo?domain={domain(p)}",
        "one matrix",
    ),
    "ros2, joints": reach(
        lambda p, _: ["--protocol", "ros2", "--domain", f"{domain(p)}", "--port", f"{p}"],
        lambda p, _: f"ros2://lo?domain={domain(p)}&gripper=gripper&tracker={p}",
    ),
    "franka": reach(*FRANKA),
    "franka, drawer": drawer(*FRANKA),
    "franka-sim": reach(*FRANKA_SIM, **BY_OTHERS),
    "franka-sim, drawer": drawer(*FRANKA_SIM, **BY_OTHERS),
    "canopen": reach(*CANOPEN),
    "canopen, drawer": drawer(*CANOPEN),
    "dynamixel": reach(
        lambda p, folder: ["--protocol", "dynamixel", "--bus", f"{folder}/bus", "--port", f"{p}"],
        lambda p, folder: f"dynamixel://{folder}/bus?gripper=8&tracker={p}",
    ),
    "unitree": Case(
        "go2-velocity", "go2-velocity", lambda p, _: ["--protocol", "unitree", "--domain", f"{domain(p)}"],
        lambda p, _: f"unitree://lo?domain={domain(p)}", 6.0, velocity, walk_error, WALK_M_S,
    ),
    "unitree, stairs up 10 cm": Case(
        "go2-stairs", "go2-velocity", lambda p, _: ["--protocol", "unitree", "--domain", f"{domain(p)}", *PIT],
        lambda p, _: f"unitree://lo?domain={domain(p)}", 14.0, ahead, climb_error, CLIMB_M, true_heights,
    ),
}  # fmt: skip


def flown(case: Case, words: Sequence[str], log: Path, port: int = 0) -> Flown:
    """A flight by `rookery fly`.

    Raises:
        RookeryError: nothing has moved.
    """
    command = [*ROOKERY, "fly", str(bundle(case.policy)), "--json", "--seconds", f"{case.seconds:g}", "--log", str(log)]
    with case.watch(port) as seen:
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=SERVED_S)
    if done.returncode not in (0, 1):
        raise RookeryError(f"rookery fly {' '.join(words)}: {done.stderr.strip()[-300:]}")
    with log.open("rb") as stream:
        rows = [json.loads(message.data) for _, _, message in make_reader(stream).iter_messages()]
    return json.loads(done.stdout), [row for row in rows if row["phase"] == "policy"], seen


def episode(name: str, seed: int) -> dict[str, Any]:
    """One flight over a link."""
    case = CASES[name]
    rng = random.Random(f"{name} {seed}")
    with tempfile.TemporaryDirectory(prefix="rookery-links-") as place:
        port, folder = free_udp_ports(), Path(place)
        with case.host([case.task, *case.serve(port, folder)], folder, seed):
            words = ["--link", case.url(port, folder), *case.words(folder), *case.command(rng)]
            told = flown(case, words, folder / "flight.mcap", port)
    (vehicle,) = told[0]["vehicles"]
    error = case.error(told) if told[1] else None
    good = vehicle["fault"] is None and error is not None and error <= case.most
    timing = told[0]["timing"]
    out = {
        "good": good, "error": error, "fault": vehicle["fault_text"], "jitter_ms": timing["jitter_ms"][1],
        "age_ms": timing["age_ms"][0], "cycle_us": timing["cycle_us"][0],
    }  # fmt: skip
    print(f"{name} {seed}: {out}", flush=True)
    return out


def simulated(name: str, episodes: int, seed: int) -> float:
    """Success of the same policy in the simulator."""
    case = CASES[name]
    if case.policy != "one matrix":
        rows = json.loads((RESULTS / "zoo.json").read_text())["rows"]
        return float(next(row["nominal"] for row in rows if row["policy"] == case.policy))
    good = 0
    with tempfile.TemporaryDirectory(prefix="rookery-links-") as place:
        for k in range(episodes):
            rng = random.Random(f"{name} {seed + k}")
            told = flown(case, ["--dry-run", *case.command(rng)], Path(place) / f"{k}.mcap")
            good += told[0]["vehicles"][0]["fault"] is None and case.error(told) <= case.most
    return good / episodes


def row(name: str, episodes: int, seed: int) -> dict[str, Any]:
    """A row of the table."""
    all_of = [episode(name, seed + k) for k in range(episodes)]

    def mean(key: str) -> float | None:
        values = [one[key] for one in all_of if one[key] is not None]
        return round(float(np.mean(values)), 4) if values else None

    faults = [one["fault"] for one in all_of if one["fault"]]
    return {
        "case": name, "policy": CASES[name].policy, "success": sum(one["good"] for one in all_of) / episodes,
        "simulator": simulated(name, episodes, seed), "error": mean("error"), "faults": len(faults),
        "jitter_ms": mean("jitter_ms"), "age_ms": mean("age_ms"), "cycle_us": mean("cycle_us"),
        "reasons": sorted(set(faults)),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    return measure_tasks("links.py", 20, list(CASES), row, RESULTS / "links.json", COLUMNS, METRICS, arguments)


if __name__ == "__main__":
    sys.exit(guarded(main))
