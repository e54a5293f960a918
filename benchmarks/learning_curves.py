"""Learning curves of algorithms on one task, over samples and over wall time, with bands over seeds: JSON and an SVG figure.

    python benchmarks/learning_curves.py drone-hover --curve ppo --curve "sac" --curve "SAC, 8 worlds: sac --num-envs 8" --log
    python benchmarks/learning_curves.py table-reach --curve "sac --steps 20000" --curve "droq --steps 20000" --seeds 0 1 2
    python benchmarks/learning_curves.py volley-1v1 --curve "ppo --opponents benchmarks/opponents/script.toml" --seeds 0

Each curve is an algorithm, or a variant of one, and options of `rookery train TASK --algorithm`, such as `--config FILE` or
`--steps 20000`, with or without a label before ": ". While it trains, the deterministic policy is evaluated at `--points`
equally spaced numbers of steps, in the same `--episodes` episodes of the task's own config. Evaluations are not counted as
training time, and change no bit of it. Neither is compiling or loading kernels: before the first training of a curve, a short
one with its settings is made and thrown away.

A training that is there is not repeated, and one that was stopped goes on from its checkpoint, so the command goes on after a
stop. Ctrl-C saves.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import re
import shlex
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curve_plot import Line, Panel, figure
from machine import commit
from result_file import RESULTS, told, write_result

from rookery.cli.main import guarded
from rookery.cli.train_options import read
from rookery.experiments.opponents import FILE as OPPONENTS
from rookery.experiments.opponents import Opponents, against, read_opponents
from rookery.experiments.runs import write_json
from rookery.experiments.settings import FILE, RunSettings, read_settings
from rookery.experiments.training import Training, resume, start
from rookery.making import make
from rookery.policies.training import checkpoint
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.policies.training.interruption import Interrupted
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError, unknown

EVALUATIONS = "evaluations.json"
TIME = "training_s"
"""Key of the training time, s: tasks have metrics of their own called "seconds"."""
EVALUATION_SEED = 12_345
IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


@dataclass(frozen=True)
class Curve:
    """One algorithm with its settings.

    Args:
        label: in figure and table.
        words: the algorithm's name and options of `rookery train`.
    """

    label: str
    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Curve:
        """Of "words" or "label: words"."""
        label, colon, words = text.partition(": ")
        return cls(label.strip(), tuple(shlex.split(words if colon else text)))

    def settings(self, task: str, seed: int) -> RunSettings:
        """Of its training with a seed.

        Raises:
            RookeryError: an option that is not there or does not fit, or one that stops a training early.
        """
        if not self.words or self.words[0].startswith("-"):
            raise RookeryError(f'a curve begins with its algorithm, such as "sac --num-envs 8", got {self.label!r}.')
        parsed = read([task, "--algorithm", *self.words, "--seed", str(seed)], "")
        if parsed is None:
            raise RookeryError(f"the curve {self.label!r} asks for help: see `rookery train --help`.")
        runner = parsed.settings.runner
        if runner.target_success is not None or runner.time_limit_s is not None:
            raise RookeryError("a curve has all of its steps: leave out --target-success and --time-limit-s.")
        return parsed.settings

    def folder(self, runs: Path, task: str, seed: int) -> Path:
        """Of its training with a seed."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.label.lower()).strip("-")
        return runs / f"{task.rpartition(':')[2]}-{slug}-{seed}"


class Watch:
    """Evaluates the policy of a training as it goes.

    Args:
        training: begun or resumed.
        label: of what is printed.
        points, episodes: see the command line.
    """

    def __init__(self, training: Training, label: str, points: int, episodes: int) -> None:
        self._training = training
        self._label = label
        self._points = points
        self._file = training.folder / EVALUATIONS
        self._values: dict[str, Any] = {"points": points, "episodes": episodes, "commits": [], "rows": []}
        if self._file.exists():
            self._values = json.loads(self._file.read_text())
        self._before = training.runner.steps
        # those after the checkpoint are made again, as is the policy
        self._values["rows"] = [row for row in self._values["rows"] if row["steps"] <= self._before]
        if commit() not in self._values["commits"]:
            self._values["commits"].append(commit())
        self._env = judging_env(training, episodes)
        self._episodes = episodes

    def __call__(self, row: dict[str, Any]) -> None:
        """Evaluate where a point was passed: what `Runner.run` takes."""
        total = self._training.settings.runner.total_steps
        passed = row["steps"] * self._points // total > self._before * self._points // total
        self._before = row["steps"]
        if not passed:
            return
        policies = self._training.runner.algorithm.policies()
        found = evaluate(self._env, act_with(policies, self._env), self._episodes, EVALUATION_SEED)
        point = {"steps": row["steps"], TIME: round(row["seconds"], 3), "return": found["return_mean"]}
        self._values["rows"].append(point | found["metrics"])
        write_json(self._file, self._values)
        shown = ", ".join(
            f"{name} {value:.3g}" for name, value in [*point.items(), *list(found["metrics"].items())[:2]]
        )
        print(f"{self._label}: {shown}", flush=True)

    def close(self) -> None:
        """Free the worlds."""
        self._env.close()


def judging_env(training: Training, episodes: int) -> Env:
    """The worlds in which the policy of a training is evaluated, one for each episode, with the opponents of the training."""
    settings = training.settings
    config = settings.task_config
    env: Env = make(settings.task, episodes, engine=settings.engine, seed=EVALUATION_SEED, config=config)
    if settings.opponents is None:
        return env
    return against(env, read_opponents(training.folder / OPPONENTS), EVALUATION_SEED)


def warm(settings: RunSettings) -> int:
    """Compile or load the kernels of a training, those of its gradient steps among them, in one that is thrown away.

    Args:
        settings: of the training.

    Returns:
        the iterations that it took.
    """
    config = settings.algorithm_config
    soon = {"learning_starts": 0, "updates_per_step": 1.0 / getattr(config, "rollout_steps", 1), "policy_every": 1}
    known = {name: value for name, value in soon.items() if hasattr(config, name)}
    with tempfile.TemporaryDirectory() as folder:
        short = dataclasses.replace(settings, algorithm_config=dataclasses.replace(config, **known))
        runner = start(short, Path(folder) / "warm").runner
        with contextlib.closing(runner.env), contextlib.closing(runner.algorithm):
            runner.iterate()
            while not runner.figures:  # sequences that are learnt from have to be there
                runner.iterate()
            return runner.iteration


def is_whole(settings: RunSettings, folder: Path) -> bool:
    """Whether the training in a folder has made all of its steps."""
    done = checkpoint.complete(folder) and checkpoint.read_state(folder)["steps"]
    return bool(done) and done >= settings.runner.total_steps


def trained(settings: RunSettings, folder: Path, label: str, points: int, episodes: int) -> dict[str, Any]:
    """Train where that is not done, or go on; what `evaluations.json` of the folder says then.

    Raises:
        RookeryError: the folder has a training with other settings, or evaluated otherwise.
        Interrupted: Ctrl-C.
    """
    if not checkpoint.complete(folder):
        if (folder / FILE).exists():  # killed before its first checkpoint
            shutil.rmtree(folder)
        training = start(settings, folder)
    else:
        _check_same(settings, folder, points, episodes)
        if is_whole(settings, folder):
            return _read(folder)
        training = resume(folder)
    watch = Watch(training, label, points, episodes)
    with (
        contextlib.closing(training.runner.env),
        contextlib.closing(training.runner.algorithm),
        contextlib.closing(watch),
    ):
        training.runner.run(watch)
    return _read(folder)


def _read(folder: Path) -> dict[str, Any]:
    return json.loads((folder / EVALUATIONS).read_text())  # type: ignore[no-any-return]


def _check_same(settings: RunSettings, folder: Path, points: int, episodes: int) -> None:
    """Refuse a folder of another training."""
    there = RunSettings.from_values(read_settings(folder / FILE))
    same_team = (there.opponents is None) == (settings.opponents is None) and (
        settings.opponents is None or _members(folder / OPPONENTS) == _members(Path(settings.opponents))
    )
    there = dataclasses.replace(there, randomize=settings.randomize, opponents=settings.opponents)
    values = _read(folder) if (folder / EVALUATIONS).exists() else {"points": points, "episodes": episodes}
    if there != settings or not same_team or (values["points"], values["episodes"]) != (points, episodes):
        raise RookeryError(
            f"{folder} has a training with other settings, or evaluated at other points: give another label or --runs, or "
            "remove it."
        )


def _members(file: Path) -> Opponents:
    """The opponents of a file, whose folders are named in full."""
    found = read_opponents(file)
    return dataclasses.replace(
        found, members=tuple(dataclasses.replace(m, policy=_whole(m.policy)) for m in found.members)
    )


def _whole(policy: str) -> str:
    return str(Path(policy).resolve()) if Path(policy).exists() else policy


def band(rows: Sequence[Sequence[dict[str, Any]]], label: str, x: str, y: str) -> Line:
    """The curve of some seeds: mean, least and greatest of `y` at each point, at the mean of `x` there."""
    points = list(zip(*rows, strict=False))
    values = [[row[y] for row in point] for point in points]
    return Line(
        label,
        [statistics.fmean(row[x] for row in point) for point in points],
        [statistics.fmean(v) for v in values],
        [min(v) for v in values],
        [max(v) for v in values],
    )


def first(rows: Sequence[dict[str, Any]], key: str, figure: str, target: float, lower: bool = False) -> float | None:
    """Steps or training time of the first point with a figure of at least `target`, or with `lower` at most; None for never."""
    return next((row[key] for row in rows if (row[figure] <= target if lower else row[figure] >= target)), None)


def summary(
    curve: Curve, settings: RunSettings, seeds: dict[int, dict[str, Any]], args: argparse.Namespace
) -> dict[str, Any]:
    """The row of a curve in the table, all of its points in it."""
    rows = [found["rows"] for found in seeds.values()]
    last = [points[-1][args.figure] for points in rows]
    row: dict[str, Any] = {
        "curve": curve.label,
        "options": f"`{shlex.join(curve.words)}`",
        "num_envs": settings.num_envs,
        "steps": rows[0][-1]["steps"],
        "seeds": ", ".join(str(seed) for seed in seeds),
        "last": statistics.fmean(last),
        "range": f"{min(last):.3g} to {max(last):.3g}",
        "training_s": statistics.median(points[-1][TIME] for points in rows),
    }
    for key, title in (("steps", "steps_to"), (TIME, "seconds_to")):
        reached = [first(points, key, args.figure, args.target, args.lower) for points in rows]
        row[title] = None if None in reached else statistics.median(x for x in reached if x is not None)
    if args.beside:
        row["beside"] = statistics.fmean(points[-1][args.beside] for points in rows)
    row["commit"] = ", ".join(dict.fromkeys(c for found in seeds.values() for c in found["commits"]))
    return row | {
        "wall_s": sum(points[-1][TIME] for points in rows),
        "points": dict(zip(seeds, rows, strict=True)),
    }


def write(out: Path, image: Path, args: argparse.Namespace, rows: list[dict[str, Any]], began: float) -> None:
    """The JSON file and the figure."""
    name, target = args.figure, args.target
    y_label = f"{name}, {args.episodes} episodes"
    y_range = (0.0, 1.0) if name == "success" else None
    panels = []
    for key, x_label in (("steps", "control steps of all worlds"), (TIME, "training time, s")):
        lines = [band(list(row["points"].values()), row["curve"], key, name) for row in rows]
        panels.append(Panel(x_label, y_label, lines, args.log, y_range))
    image.write_text(figure(f"{args.task}: mean and range of {len(args.seeds)} seeds", panels))
    columns = [
        {"key": "curve", "title": "curve"},
        {"key": "options", "title": f"`rookery train {args.task} --algorithm`"},
        {"key": "num_envs", "title": "worlds", "format": ",d"},
        {"key": "seeds", "title": "seeds"},
        {"key": "steps", "title": "steps", "format": ",d"},
        {"key": "last", "title": f"{name} at the end", "format": ".3g"},
        {"key": "range", "title": "least to greatest"},
        *([{"key": "beside", "title": f"{args.beside} at the end", "format": ".3g"}] if args.beside else []),
        {"key": "steps_to", "title": f"steps to {target:g}", "format": ",.0f"},
        {"key": "seconds_to", "title": f"seconds to {target:g}", "format": ".1f"},
        {"key": "training_s", "title": "training, s", "format": ".1f"},
        {"key": "commit", "title": "commit"},
    ]
    metrics = {
        "last": f"mean over seeds, of the deterministic policy in {args.episodes} episodes of the task's own config",
        "steps_to": f"median over seeds of the first of {args.points} equally spaced evaluations that reaches it; empty where "
        "a seed never does",
        "training_s": "median over seeds, evaluations left out",
    }
    words = ["python", "benchmarks/learning_curves.py", args.task]
    words += [word for text in args.curve for word in ("--curve", text)] + ["--seeds", *map(str, args.seeds)]
    words += [
        "--points",
        str(args.points),
        "--episodes",
        str(args.episodes),
        "--figure",
        name,
        "--target",
        f"{target:g}",
    ]
    words += ["--beside", args.beside] if args.beside else []
    words += [f"--{name}" for name in ("lower", "log") if getattr(args, name)]
    write_result(out, shlex.join(words), began, columns, rows, metrics, **told(rows))


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--curve", action="append", required=True, metavar="[LABEL: ]ALGORITHM [OPTIONS]")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--points", type=int, default=20, help="evaluations of a training")
    parser.add_argument("--episodes", type=int, default=64, help="of an evaluation")
    parser.add_argument("--figure", default="success", help='metric of the task, or "return"')
    parser.add_argument("--beside", default="", help="another metric, for the table alone")
    parser.add_argument("--target", type=float, default=0.95, help="of the figure, for the table")
    parser.add_argument("--lower", action="store_true", help="the figure is better when lower, such as an error")
    parser.add_argument("--log", action="store_true", help="logarithmic axes of samples and time")
    parser.add_argument("--runs", type=Path, default=Path("runs/curves"), help="folder of the trainings")
    parser.add_argument("--out", type=Path, default=None, help="JSON file; its stem is the name of the table")
    parser.add_argument("--image", type=Path, default=None, help="SVG file")
    return parser.parse_args(arguments)


def measure(args: argparse.Namespace) -> int:
    """Train, evaluate, and write after each curve."""
    began = time.perf_counter()
    if min(args.points, args.episodes) < 1:
        raise RookeryError("--points and --episodes must be at least 1.")
    curves = [Curve.parse(text) for text in args.curve]
    jobs = {curve: [curve.settings(args.task, seed) for seed in args.seeds] for curve in curves}
    folders = {str(curve.folder(args.runs, args.task, 0)) for curve in curves}
    if len(folders) < len(args.curve):
        raise RookeryError('two curves have the same label: give each another one, as in "wide: sac --hidden 256 256".')
    name = f"learning-curves-{args.task.rpartition(':')[2]}"
    out = args.out or RESULTS / f"{name}.json"
    image = args.image or IMAGES / f"{name}.svg"
    rows: list[dict[str, Any]] = []
    for curve, settings in jobs.items():
        found = {}
        folders_of = [curve.folder(args.runs, args.task, seed) for seed in args.seeds]
        if not all(map(is_whole, settings, folders_of)):
            warm(settings[0])
        for seed, own, folder in zip(args.seeds, settings, folders_of, strict=True):
            found[seed] = trained(own, folder, f"{curve.label}, seed {seed}", args.points, args.episodes)
            known = found[seed]["rows"][0]
            for name in (args.figure, args.beside or args.figure):
                if name not in known:
                    raise unknown("figure", name, [key for key in known if key not in ("steps", TIME)])
        rows.append(summary(curve, settings[0], found, args))
        write(out, image, args, rows, began)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    args = options(arguments)
    try:
        return guarded(lambda: measure(args))
    except Interrupted as stop:
        print(f"{stop}; the same command goes on")
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
