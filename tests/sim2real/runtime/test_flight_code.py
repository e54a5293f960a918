"""Our links fly flight code of others, where an environment variable names a running vehicle; and what judges that is alive.

`CODE` in flight_code.py lists the variables, docs/fly.md says how to start each program.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pymavlink.dialects.v20 import common as mav
from sampled import slow_but
from skips import refused

from rookery.sim2real.runtime.flight_log import FlightLog
from tests.sim2real.runtime.flight_code import CODE, fly_code, judged, why_not
from tests.sim2real.runtime.flights import Flight
from tests.sim2real.runtime.processes import free_port, mavlink, prompt, tried_again, vehicle
from tests.sim2real.runtime.walks import Walk

SECONDS = 15.0
DIES_S = 9.0  # s after which a vehicle is killed: it has taken off by then, unless the machine is very busy
DOCS = Path(__file__).resolve().parents[3] / "docs"
DOMAIN = 100 + os.getpid() % 99


@pytest.mark.slow
@pytest.mark.parametrize("variable", CODE)
def test_flight_code_is_flown(variable: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if reason := why_not(variable):
        pytest.skip(reason)
    bundle = request.getfixturevalue(f"{CODE[variable].policy}_bundle")
    assert not fly_code(variable, bundle, tmp_path / "flight.mcap", SECONDS)


def test_what_is_not_run_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the reason of its skip, which stands even where CI=true, and on the pages."""
    monkeypatch.setenv("CI", "true")
    tried, how = ((DOCS / name).read_text() for name in ("hardware_tried.md", "fly.md"))
    for variable, code in CODE.items():
        monkeypatch.delenv(variable, raising=False)
        assert variable in why_not(variable) and not refused(why_not(variable))
        (row,) = [line for line in tried.splitlines() if line.startswith(f"| `{variable}`")]
        assert row.endswith("| not run |"), row
        assert f"`{variable}`" in how
        monkeypatch.setenv(variable, code.example)
        assert not why_not(variable)


# -- the judge, in lock-step ------------------------------------------------------------------------------------------


def written(flight: Flight, log: Path, harm: Callable[[Flight], None] | None = None) -> Path:
    """The log of a flight of 2 s, which is harmed after half a second."""
    with FlightLog(log, flight.controller.contract.to_json()) as file:
        flight.pilot.check()
        flight.link.receive()
        flight.pilot.start()
        acted = 0
        for _ in range(3000):
            flight.run(1)
            assert flight.record is not None
            file.write(0, flight.record)
            acted += flight.pilot.phase.value == "policy"
            if harm is not None and acted * flight.controller.control_dt > 0.5:
                harm(flight)
            if flight.pilot.done:
                break
    return log


def cut(flight: Flight) -> None:
    flight.link.cut = True


def blown(flight: Flight) -> None:
    """Away from its target, within the fence."""
    state = flight.vehicle.drones.bodies.state.clone()
    state[0, 0, 0] += 0.02
    flight.vehicle.drones.bodies.set_state(state.new_zeros(1, dtype=__import__("torch").int64), state)


@pytest.mark.parametrize(("fly", "policy"), slow_but([(Flight, "hover")], [(Flight, "hover"), (Walk, "walk")]))
def test_the_judge_passes_a_flight_and_none_that_is_cut(
    fly: type[Flight], policy: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bundle = request.getfixturevalue(f"{policy}_bundle")
    log = written(fly(bundle, seconds=2.0), tmp_path / "good.mcap")
    assert judged(log, policy, 2.0) == []
    assert any("acted for" in fault for fault in judged(log, policy, 15.0))
    faults = judged(written(fly(bundle, seconds=2.0), tmp_path / "cut.mcap", cut), policy, 2.0)
    assert any("fault" in fault for fault in faults) and any("did not come down" in fault for fault in faults)


def test_the_judge_sees_a_drone_that_is_not_where_it_should_be(hover_bundle: Path, tmp_path: Path) -> None:
    faults = judged(written(Flight(hover_bundle, seconds=2.0), tmp_path / "blown.mcap", blown), "hover", 2.0)
    assert any("an error of" in fault for fault in faults), faults


# -- the whole check, against vehicles of ours ------------------------------------------------------------------------


@contextmanager
def ours(variable: str) -> Iterator[tuple[str, subprocess.Popen[str] | None]]:
    """A vehicle of ours of a variable's protocol: its address, and its process."""
    port = free_port(2)
    slow = not prompt()
    patient = ["--silence-ms", "1000"] if slow else []
    if variable == "ROOKERY_PX4":
        with vehicle("--protocol", "mavlink", "--port", str(port), "--listen", str(port + 1)) as process:
            yield mavlink(port), process
    elif variable == "ROOKERY_CRAZYFLIE":
        with vehicle("--protocol", "crtp", "--listen", str(port)) as process:
            yield f"crazyflie://127.0.0.1:{port}", process
    elif variable == "ROOKERY_BETAFLIGHT":
        words = ["--protocol", "betaflight", "--listen", str(port), "--port", str(port + 1), *patient]
        more = "&hold=1&loss=2" if slow else ""
        with vehicle(*words) as process:
            yield f"betaflight://127.0.0.1:{port}?tracker={port + 1}{more}", process
    elif variable == "ROOKERY_UNITREE":
        words = ["--protocol", "unitree", "--interface", "lo", "--domain", str(DOMAIN), *patient]
        with vehicle(*words, task="go2-velocity") as process:
            yield f"unitree://lo?domain={DOMAIN}" + ("&hold=1.0" if slow else ""), process
    else:
        with beating(port, mav.MAV_AUTOPILOT_ARDUPILOTMEGA):
            yield f"mavlink://:{port}", None


@contextmanager
def beating(port: int, autopilot: int) -> Iterator[None]:
    """An autopilot that says who it is and no more."""
    codec = mav.MAVLink(None, srcSystem=1, srcComponent=1)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    over = threading.Event()

    def beat() -> None:
        while not over.wait(0.1):
            said = mav.MAVLink_heartbeat_message(mav.MAV_TYPE_QUADROTOR, autopilot, 0, 0, 3, 3)
            sender.sendto(said.pack(codec), ("127.0.0.1", port))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        sender.close()


@pytest.mark.parametrize("variable", slow_but(["ROOKERY_ARDUPILOT"], CODE))
@tried_again
def test_the_check_passes_a_vehicle_of_ours(
    variable: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    bundle = request.getfixturevalue(f"{CODE[variable].policy}_bundle")
    with ours(variable) as (url, _), pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable, url)
        assert fly_code(variable, bundle, tmp_path_factory.mktemp("log") / "flight.mcap", 2.0) == []


@pytest.mark.slow
def test_the_check_fails_a_vehicle_that_dies_in_flight(hover_bundle: Path, tmp_path: Path) -> None:
    faults: list[str] = []

    def fly() -> None:
        with ours("ROOKERY_CRAZYFLIE") as (url, process), pytest.MonkeyPatch.context() as patch:
            assert process is not None
            patch.setenv("ROOKERY_CRAZYFLIE", url)
            timer = threading.Timer(DIES_S, process.send_signal, [signal.SIGKILL])
            timer.start()
            faults.extend(fly_code("ROOKERY_CRAZYFLIE", hover_bundle, tmp_path / "flight.mcap", 60.0))
            timer.cancel()

    with pytest.raises(AssertionError):  # the vehicle does not end as it should
        fly()
    assert faults and faults[0].startswith("exit code")


def test_the_check_fails_where_what_should_be_refused_is_another(
    hover_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    with beating(port, mav.MAV_AUTOPILOT_ARDUPILOTMEGA):
        monkeypatch.setenv("ROOKERY_PX4", f"mavlink://:{port}")
        (fault,) = fly_code("ROOKERY_PX4", hover_bundle, tmp_path / "flight.mcap", 1.0)
    assert fault.startswith("exit code 2") and "not PX4" in fault
