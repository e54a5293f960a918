"""MLflow: a tracking server, or a database of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rookery.policies.tracking.tracker import Opened, RunTracker, TrackedRun, flat
from rookery.sim.errors import RookeryError

EXPERIMENT = "rookery"
"""Where MLFLOW_EXPERIMENT_NAME names none."""
LONGEST = 6000
"""Letters of a parameter's value that MLflow keeps."""
AT_ONCE = 100
"""Parameters, or values of metrics, of one request; MLflow takes that many parameters."""


class MLflow(RunTracker):
    """A run of MLflow. Its own environment variables hold: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME.

    Settings are its parameters, task, algorithm and commit its tags, videos its artifacts.
    """

    needs = "mlflow"
    extra = "mlflow"

    def open(self, run: TrackedRun, state: Mapping[str, str]) -> Opened:
        import mlflow
        from mlflow.tracking import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        uri = _store(state.get("uri"), mlflow.get_tracking_uri())
        self._made = -1.0  # iterations that it has already
        with _one_at_a_time(uri):
            self._client: Any = MlflowClient(uri)
            if "id" in state:
                self._id = state["id"]
                self._made = self._client.get_run(self._id).data.metrics.get("run/iteration", -1.0)
                self._client.update_run(self._id, status="RUNNING")
            else:
                self._id = self._begin(run)
        return Opened({"id": self._id, "uri": uri}, f"run {self._id} of {uri}")

    def _begin(self, run: TrackedRun) -> str:
        """A new run, with its parameters and tags."""
        from mlflow.entities import Param

        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        place = self._experiment(experiment)
        tags = {"task": run.task, "algorithm": run.algorithm, "folder": str(run.folder.resolve())}
        tags |= {f"provenance.{k}": str(v) for k, v in run.provenance.items()}
        tags |= {"mlflow.source.git.commit": str(run.provenance.get("commit") or "").removesuffix("-dirty")}
        tags = {k: v for k, v in tags.items() if v}
        begun: str = self._client.create_run(place, run_name=run.title, tags=tags).info.run_id
        params = [Param(_plain(k), str(v)[:LONGEST]) for k, v in flat(run.settings).items()]
        for i in range(0, len(params), AT_ONCE):
            self._client.log_batch(begun, params=params[i : i + AT_ONCE])
        return begun

    def _experiment(self, name: str) -> str:
        """The id of an experiment, which is made where there is none; another process may make it at the same time."""
        from mlflow.exceptions import MlflowException

        if (known := self._client.get_experiment_by_name(name)) is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException:
                if (known := self._client.get_experiment_by_name(name)) is None:
                    raise
        return str(known.experiment_id)

    def log(self, row: Mapping[str, float], steps: int) -> None:
        if row.get("run/iteration", self._made + 1.0) > self._made:
            self._put(row, steps)

    def evaluated(self, figures: Mapping[str, float], steps: int) -> None:
        self._put(figures, steps)

    def _put(self, figures: Mapping[str, float], steps: int) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(_plain(name), value, now, steps) for name, value in figures.items()]
        for i in range(0, len(metrics), AT_ONCE):
            self._client.log_batch(self._id, metrics=metrics[i : i + AT_ONCE])

    def video(self, file: Path, name: str, steps: int) -> None:
        self._client.log_artifact(self._id, str(file), f"{name}/{steps}")

    def close(self, ended: str) -> None:
        status = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED", "": "FINISHED"}[ended]
        self._client.set_terminated(self._id, status)


@contextlib.contextmanager
def _one_at_a_time(uri: str) -> Iterator[None]:
    """Hold back the other processes of this machine that open the same database: MLflow makes its tables without a lock, and of
    several trainings that begin together in a new folder, as those of a sweep, all but one would fail."""
    if not uri.startswith("sqlite:"):
        yield
        return
    database = os.path.abspath(uri.removeprefix("sqlite:///"))
    place = Path(tempfile.gettempdir()) / f"rookery-mlflow-{os.getuid()}-{zlib.crc32(database.encode()):08x}.lock"
    with open(place, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _store(kept: str | None, configured: str) -> str:
    """The store of a run that goes on. A server is only asked where the user names it: a run folder may be a stranger's, and
    the user's token goes with every request.

    Raises:
        RookeryError: the run is on another server.
    """
    if kept is None or kept == configured or kept.startswith(("sqlite:", "file:")):
        return kept or configured
    raise RookeryError(f"the run is on {kept}: set MLFLOW_TRACKING_URI={kept} to go on with it there")


def _plain(name: str) -> str:
    """A name of the letters that MLflow takes."""
    return re.sub(r"[^\w\-. :/]", "_", name)[:250]
