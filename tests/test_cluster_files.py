"""The files for Slurm and KubeRay: they parse, their commands are commands, and they ask for the processors that they use."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from rookery.cli.train_options import TrainCommand, read

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "cluster"


def train_command(words: list[str]) -> TrainCommand:
    """A `rookery train` with its options, read as the command reads them."""
    assert words[:2] == ["rookery", "train"]
    parsed = read(words[2:], "")
    assert parsed is not None
    parsed.settings.check()
    return parsed.command


def test_the_slurm_file() -> None:
    text = (FOLDER / "train.slurm").read_text()
    # without it no machine joins a head that has a token
    assert text.index("export RAY_AUTH_MODE=token") < text.index("srun ray")
    assert subprocess.run(["bash", "-n", FOLDER / "train.slurm"], check=False).returncode == 0
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", text, re.MULTILINE))
    assert text.startswith("#!/bin/bash\n") and asked["ntasks-per-node"] == "1"
    command = text[text.index("srun ") :].replace("\\\n", " ")
    values = {"$WORKERS": str(int(asked["nodes"]) * int(asked["cpus-per-task"])), "$RUN": "/shared/run"}
    launcher, _, own = command.partition(" -- ")
    for name, value in values.items():
        own = own.replace(f'"{name}"', value)
    found = train_command(shlex.split(own))
    assert (found.workers, found.ray) == (64, "auto")
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from click.testing import CliRunner
    from ray.scripts.symmetric_run import symmetric_run

    known = {option for p in symmetric_run.params for option in p.opts}
    given = {w for w in shlex.split(launcher) if w.startswith("--")}
    known |= set(re.findall(r"--[\w-]+", CliRunner().invoke(_ray_start(), ["--help"]).output))
    assert given <= known, given - known


def _ray_start() -> object:
    from ray.scripts.scripts import start

    return start


def test_the_kuberay_file() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    found = yaml.safe_load((FOLDER / "kuberay.yaml").read_text())
    assert (found["apiVersion"], found["kind"]) == ("ray.io/v1", "RayJob")
    command = train_command(shlex.split(found["spec"]["entrypoint"]))
    cluster = found["spec"]["rayClusterSpec"]
    cpus = 0
    for group in cluster["workerGroupSpecs"]:
        (container,) = group["template"]["spec"]["containers"]
        assert group["minReplicas"] == group["replicas"]
        cpus += group["replicas"] * int(container["resources"]["requests"]["cpu"])
    assert command.workers == cpus and command.ray == "auto"
    for spec in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = spec["template"]["spec"]
        mounts = {m["mountPath"]: m["name"] for c in pod["containers"] for m in c["volumeMounts"]}
        assert mounts == {"/runs": pod["volumes"][0]["name"]}
