"""Wall time of a video: 10 s of drone-hover at 30 frames a second under its classical controller.

    python benchmarks/video.py

Every case is recorded so often as `--repeats` says and the fastest counts; the processor time includes the processes that
draw and encode.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import tempfile
import time
from pathlib import Path

from machine import commit, machine

import rookery
from rookery.sim.rendering import opengl
from rookery.sim.rendering.video import SAMPLES, record_video

CASES = ((640, 480, 1), (960, 540, 1), (1280, 720, 1), (1280, 720, SAMPLES))
"""Width, height, and the pictures averaged for each; the last is the default."""
FPS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="length of the video")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "video.json")
    args = parser.parse_args()
    backend = opengl.probe()
    device = "PyBullet's software renderer" if backend is None else f"{backend.name} on {backend.device}"
    print(
        f"{machine()}\n{device}\n\n| size | samples | wall s | processor s | ms a frame |\n|---|---|---|---|---|",
        flush=True,
    )
    begin = time.perf_counter()
    rows = []
    record(64, 48, 1, 0.1)  # compiles kernels
    for width, height, samples in CASES:
        wall, worked = min(record(width, height, samples, args.seconds) for _ in range(args.repeats))
        per_frame = 1e3 * wall / (args.seconds * FPS)
        case = {"size": f"{width} x {height}", "samples": samples}
        rows.append(case | {"wall_s": wall, "cpu_s": worked, "frame_ms": per_frame})
        print(f"| {width} x {height} | {samples} | {wall:.1f} | {worked:.1f} | {per_frame:.1f} |", flush=True)
    args.out.write_text(json.dumps(report(args, device, rows, time.perf_counter() - begin), indent=1) + "\n")


def report(args: argparse.Namespace, device: str, rows: list[dict[str, object]], wall: float) -> dict[str, object]:
    """The content of a file of benchmarks/results, see tables.py."""
    return {
        "name": "video",
        "command": f"python benchmarks/video.py --seconds {args.seconds:g} --repeats {args.repeats}",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": wall,
        "metrics": {
            "wall_s": f"time of a video of {args.seconds:g} s at {FPS} frames/s, from reset to finished file, s",
            "cpu_s": "processor time of all processes that simulate, draw and encode, s",
            "frame_ms": "wall time of a frame, ms",
        },
        "columns": [
            {"key": "size", "title": "size", "format": ""},
            {"key": "samples", "title": "pictures averaged", "format": "d"},
            {"key": "wall_s", "title": "wall s", "format": ".1f"},
            {"key": "cpu_s", "title": "processor s", "format": ".1f"},
            {"key": "frame_ms", "title": "ms a frame", "format": ".0f"},
        ],
        "rows": rows,
        "notes": f"drone-hover, classical controller, {len(os.sched_getaffinity(0))} cores, {device}",
    }


def record(width: int, height: int, samples: int, seconds: float) -> tuple[float, float]:
    """Wall and processor time of one video, s."""
    env = rookery.make("drone-hover", 1, seed=0)
    act = env.controller()
    assert act is not None
    with tempfile.TemporaryDirectory() as folder:
        worked = processor_time()
        begin = time.perf_counter()
        options = {"fps": FPS, "width": width, "height": height, "samples": samples, "seed": 0}
        record_video(env, act, Path(folder) / "v.mp4", seconds=seconds, **options)
        wall = time.perf_counter() - begin
    env.close()
    return wall, processor_time() - worked


def processor_time() -> float:
    """Of this process and those that it started, s."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


if __name__ == "__main__":
    main()
