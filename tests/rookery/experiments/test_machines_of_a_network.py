"""A cluster of two machines that share nothing but a network: two network namespaces, each with an address of its own. The name
of the machine stands for 127.0.0.1 in both, as in /etc/hosts of many systems."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from rookery.cli.main import main
from rookery.policies.training import checkpoint

PORT = 6391
HEAD, OTHER = "10.77.0.1", "10.77.0.2"
ADDRESS = f"{HEAD}:{PORT}"
WORDS = ["train", "drone-hover", "--num-envs", "16", "--rollout-steps", "8", "--hidden", "8", "--minibatches", "1"]
ENVIRONMENT = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
ENVIRONMENT.pop("GLOO_SOCKET_IFNAME", None)

pytestmark = pytest.mark.slow


class Network:
    """Two namespaces joined by a pair of virtual Ethernet devices."""

    def __init__(self) -> None:
        self.names = [f"rook{os.getpid()}{end}" for end in "ab"]
        self.devices = [f"rk{os.getpid()}{end}" for end in "ab"]

    def make(self) -> bool:
        """Make them; False where the machine does not."""
        orders = [["netns", "add", name] for name in self.names]
        orders.append(["link", "add", self.devices[0], "type", "veth", "peer", "name", self.devices[1]])
        for name, device, address in zip(self.names, self.devices, (HEAD, OTHER), strict=True):
            orders.append(["link", "set", device, "netns", name])
            orders.append(["-n", name, "addr", "add", f"{address}/24", "dev", device])
            orders += [["-n", name, "link", "set", each, "up"] for each in ("lo", device)]
        return shutil.which("ip") is not None and all(self.ip(*words) for words in orders)

    def ip(self, *words: str) -> bool:
        return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0

    def begin(self, where: int, *words: str) -> subprocess.Popen[str]:
        """Begin a command on one of the machines."""
        command = ["ip", "netns", "exec", self.names[where], *words]
        return subprocess.Popen(
            command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    def rookery(self, *words: str) -> subprocess.Popen[str]:
        return self.begin(0, sys.executable, "-m", "rookery", *words, "--ray", ADDRESS)

    def cut(self) -> None:
        assert self.ip("-n", self.names[1], "link", "set", self.devices[1], "down")

    def remove(self) -> None:
        for name in self.names:
            self.ip("netns", "delete", name)


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """The network with Ray, a processor on each machine."""
    made = Network()
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--disable-usage-stats", "--num-cpus", "1"]
    folder = tempfile.mkdtemp(prefix="rk", dir="/tmp")  # paths of sockets are short
    began: list[subprocess.Popen[str]] = []
    try:
        if not made.make():
            pytest.skip("this machine makes no network namespaces")
        head = ["--head", "--port", str(PORT), "--include-dashboard=false", "--temp-dir", folder]
        began.append(made.begin(0, *ray, "--node-ip-address", HEAD, *head))
        for line in began[0].stdout or ():
            if "runtime started" in line:
                break
        began.append(made.begin(1, *ray, "--node-ip-address", OTHER, "--address", ADDRESS))
        for line in began[1].stdout or ():
            if "runtime started" in line:
                break
        yield made
    finally:
        for process in began:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        made.remove()
        shutil.rmtree(folder, ignore_errors=True)


def test_workers_on_two_machines_learn_what_one_process_learns(network: Network, in_tmp: Path) -> None:
    words = [*WORDS, "--steps", "2560"]
    process = network.rookery(*words, "--workers", "2", "--out", str(in_tmp / "two"))
    assert process.wait(200) == 0, process.communicate()[1]
    process.communicate()
    assert main([*words, "--out", "one"]) == 0
    one, two = (load_file(f"{name}/policy.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    assert all(torch.allclose(x, two[name], atol=1e-3) for name, x in one.items())


def test_evaluations_on_two_machines_are_those_of_one_process(
    network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["eval", "drone-hover", "--num-envs", "32", "--episodes", "40", "--randomize", "default", "--json"]
    process = network.rookery(*words)
    out, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    capsys.readouterr()
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(out)


def test_a_network_that_is_cut_makes_workers_wait_and_ctrl_c_is_heard(network: Network, in_tmp: Path) -> None:
    folder = in_tmp / "run"
    process = network.rookery(
        *WORDS, "--checkpoint-every", "20", "--steps", "1e9", "--workers", "2", "--out", str(folder)
    )
    assert process.stderr is not None
    end = time.monotonic() + 120
    while not checkpoint.complete(folder):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.2)
    network.cut()
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if "a machine was lost, and the workers wait for another one" in line:
            break
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130, "".join(said) + rest
    assert "the workers waited for a machine: what came after the checkpoint of" in rest
    assert "Traceback" not in rest
    steps = int(checkpoint.newest(folder).name)
    end = time.monotonic() + 300
    while main(["train", "--resume", str(folder), "--steps", str(steps + 128)]):
        # a worker on the machine that was cut off holds the run until Ray there gives up, a minute after it lost the head
        assert time.monotonic() < end
        time.sleep(2.0)
    assert int(checkpoint.newest(folder).name) == steps + 128
