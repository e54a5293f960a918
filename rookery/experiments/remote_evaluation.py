"""An evaluation by several processes, or machines, of Ray: each plays the episodes of a part of the worlds.

World 17 has the same random numbers whichever process has it, and gives the same episodes. They are put into the order in which
one process would have ended them, so that the figures are the same to the last bit. Libraries round products of matrices with
few rows otherwise: a policy that acts in two worlds gives other last bits than in twelve (measured), and parts have
LEAST_WORLDS or more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.experiments.ray_cluster import Cluster
from rookery.experiments.sent_policies import SentPolicies
from rookery.making import WorkerPart
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.ranges import PRESETS

if TYPE_CHECKING:
    from rookery.sim.env import Env

__all__ = ["evaluate_on", "in_order", "parts_of", "play_part"]

LEAST_WORLDS = 16
"""Of a part, where there are several."""


def parts_of(worlds: int, processors: int) -> int:
    """The number of parts into which the worlds are divided evenly: at most one for each processor."""
    most = max(1, min(processors, worlds // LEAST_WORLDS))
    return next(n for n in range(most, 0, -1) if worlds % n == 0)


def evaluate_on(
    address: str,
    env: Env,
    run: Path,
    worlds: int,
    episodes: int,
    progress: Callable[[int, float], None] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The figures of `rookery.policies.training.evaluate.evaluate` for the same worlds in one process.

    Args:
        address: of a Ray cluster, see `Cluster`.
        env: of the same worlds; it is not stepped.
        run, worlds: of `rookery.experiments.run_env.open_env`.
        episodes: how many.
        progress: called when a part is done, with the episodes finished and their share.
        options: those of `open_env`, with an integer `seed`.

    Raises:
        RookeryError: no cluster, machines of other versions, a policy that is too large to be sent, or worlds that cannot be
            divided.
    """
    from rookery.policies.training.evaluate import quota_of, report

    quota = quota_of(env, episodes)
    order = options | {"run": str(run), "ranges": None}
    sent = SentPolicies.of_run(run) if run.is_dir() else None
    if options["randomize"] not in PRESETS:  # a file of this machine
        order["ranges"] = Path(options["randomize"]).read_text()
    with Cluster.of_processes(address) as cluster:
        order["policies"] = None if sent is None else cluster.share(sent)
        parts = parts_of(worlds, int(cluster.processors()))
        each = worlds // parts
        orders = []
        for i in range(parts):
            own = quota[i * each : (i + 1) * each].tolist()
            part = (i, parts) if parts > 1 else None
            if any(own):
                orders.append(order | {"part": part, "worlds": worlds, "quota": own})
        columns = []
        for i, found in cluster.each(play_part, orders):
            if isinstance(found, str):
                raise RookeryError(found)
            found["world"] += i * each
            columns.append(found)
            done = sum(len(c["world"]) for c in columns)
            if progress is not None:
                progress(done, done / episodes)
    return report(env, in_order(columns), episodes)


def in_order(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """All parts' episodes as one process would have ended them: by step, and by world."""
    columns = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    first = torch.argsort(columns["world"], stable=True)
    order = first[torch.argsort(columns["step"][first], stable=True)]
    return {name: values[order] for name, values in columns.items()}


def play_part(order: dict[str, Any]) -> dict[str, Tensor] | str:
    """The episodes of a part, by the columns of `play_episodes` with its own numbers of worlds; or why there are none.

    Args:
        order: run, policies (those of its folder, shared; None for a name that is known everywhere), worlds of all parts, quota
            [n] of the part's own, part (which, of how many; None for all worlds), ranges (text of the file that `randomize`
            names; None without one), and the options of `open_env`.
    """
    from rookery.experiments.run_env import open_env
    from rookery.policies.training.evaluate import play_episodes

    order = dict(order)
    part, quota, worlds, run = (order.pop(name) for name in ("part", "quota", "worlds", "run"))
    ranges, policies = order.pop("ranges"), order.pop("policies")
    with tempfile.TemporaryDirectory(prefix="rookery-eval-") as folder:
        if ranges is not None:
            order["randomize"] = str(Path(folder) / "ranges.toml")
            Path(order["randomize"]).write_text(ranges)
        if policies is not None:
            run = Path(folder) / "run"
            policies.get().write(run)
        try:
            env, act = open_env(Path(run), worlds, part=part and WorkerPart(*part), **order)
        except RookeryError as error:
            return str(error)
        try:
            return play_episodes(env, act, torch.tensor(quota), order["seed"])
        except RookeryError as error:
            return str(error)
        finally:
            env.close()
