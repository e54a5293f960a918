"""`rookery vehicle`: our simulated robots behind the protocols of real ones."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from rookery.cli.options import Engine, TaskConfig, values
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim2real.vehicles.network import NetworkConfig
    from rookery.sim2real.vehicles.serve import Server, Vehicle

EXAMPLES = """
  rookery vehicle drone-hover --protocol mavlink
  rookery vehicle drone-hover --protocol crtp
  rookery vehicle drone-hover --protocol betaflight --port 14810
  rookery vehicle table-reach --protocol fci --port 14810
  rookery vehicle table-reach --protocol canopen --port 14810
  rookery vehicle panda-lift --protocol dynamixel --bus /tmp/servos --port 14810
  rookery vehicle drone-hover --task-config num_drones=4 --protocol mavlink --loss 0.01 --latency-ms 10
  rookery vehicle go2-velocity --protocol unitree --interface lo
  rookery vehicle go2-velocity --protocol unitree --task-config terrain=stairs_up terrain_step_m=0.1
  rookery vehicle table-reach --protocol ros2 --interface lo --port 14810
"""


@dataclass(frozen=True)
class Args:
    """Serve a simulated vehicle over the protocol of a real one, in real time, until Ctrl-C.

    Any ground station or client can drive it; `rookery fly BUNDLE --link ...` flies a policy on it. Drones and legged
    robots begin on the ground, arms at their home pose.
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK", help="Task whose robots are served.")]
    protocol: Annotated[
        Literal["mavlink", "crtp", "betaflight", "unitree", "fci", "canopen", "dynamixel", "ros2"],
        tyro.conf.arg(
            help="mavlink: PX4's; crtp: the Crazyflie's, both by UDP; betaflight: MSP, by TCP, UDP and a serial port; unitree: "
            "the Go2's low level, by DDS; fci: Franka's, by TCP and UDP; canopen: servo drives by CiA 402, on a CAN bus; "
            "dynamixel: servos of the X series, on a serial port; ros2: joint or twist topics, by DDS."
        ),
    ] = "mavlink"
    host: Annotated[str, tyro.conf.arg(help="Where telemetry goes until somebody else speaks.")] = "127.0.0.1"
    port: Annotated[
        int,
        tyro.conf.arg(
            help="Port there of the first drone; the next ones follow. 0: the protocol's own. With arms "
            "and betaflight: of the tracker, that tells where objects, or the drone, are; 0: none."
        ),
    ] = 0
    listen: Annotated[int, tyro.conf.arg(help="Port here of the first drone; 0: the protocol's own.")] = 0
    bus: Annotated[
        str,
        tyro.conf.arg(
            help="canopen: CAN bus, an interface such as can0 or a multicast group, whose port is --listen; python-can's own "
            "group where left out. dynamixel, betaflight: path at which the serial port is found."
        ),
    ] = ""
    interface: Annotated[str, tyro.conf.arg(help="Network interface of unitree and ros2.")] = "lo"
    domain: Annotated[int, tyro.conf.arg(help="DDS domain of unitree and ros2.")] = 0
    silence_ms: Annotated[
        float,
        tyro.conf.arg(
            help="ms without set-points after which legs only damp, the failsafe of betaflight begins and drones of ros2 "
            "land; other drones are told by their protocol."
        ),
    ] = 60.0
    noise: Annotated[float, tyro.conf.arg(help="Factor on the noise of measurements.")] = 1.0
    latency_ms: Annotated[float, tyro.conf.arg(help="ms that packets take, each way.")] = 0.0
    jitter_ms: Annotated[float, tyro.conf.arg(help="ms, standard deviation of what is added.")] = 0.0
    loss: Annotated[float, tyro.conf.arg(help="Share of packets that are lost, each way.")] = 0.0
    seed: Annotated[int, tyro.conf.arg(help="Of noise and network.")] = 0
    engine: Engine = None
    task_config: TaskConfig = ()


def run(args: Args) -> int:
    """Serve until Ctrl-C."""
    from rookery.sim2real.runtime.clock import MonotonicClock
    from rookery.sim2real.runtime.priority import real_time
    from rookery.sim2real.vehicles.network import NetworkConfig
    from rookery.sim2real.vehicles.serve import serve

    for name, value in (("--port", args.port), ("--listen", args.listen)):
        if not 0 <= value < 65536:
            raise RookeryError(f"{name} must be from 0 to 65535, got {value}.")
    network = NetworkConfig(args.latency_ms, args.jitter_ms, args.loss)
    make = {"unitree": _legs, "canopen": _on_bus, "dynamixel": _on_bus, "ros2": _on_topics}.get(args.protocol, _by_port)
    vehicle, servers = make(args, network)
    stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    where = ", ".join(server.where for server in servers)
    print(f"rookery: {args.task} is served over {args.protocol}: {where}; Ctrl-C ends it", file=sys.stderr, flush=True)
    with real_time():
        serve(vehicle, servers, MonotonicClock(), lambda: stopped, _late)
    return 0


def _make(args: Args, **config: Any) -> Any:
    import rookery

    config |= values(args.task_config, "--task-config")
    return rookery.make(args.task, num_envs=1, seed=args.seed, engine=args.engine, config=config)


def _on_bus(args: Args, network: NetworkConfig) -> tuple[Vehicle, Sequence[Server]]:
    """An arm's drives on a bus."""
    from rookery.sim2real.links.opening import server_classes

    serve_arm, arm = server_classes(args.protocol)
    vehicle = arm(_make(args), args.noise, args.seed)
    station = (args.host, args.port) if args.port else None
    if args.protocol == "dynamixel":
        return vehicle, [serve_arm(vehicle, station, args.bus, network)]
    return vehicle, [serve_arm(vehicle, station, args.bus, args.listen or None, network=network, seed=args.seed)]


def _by_port(args: Args, network: NetworkConfig) -> tuple[Vehicle, Sequence[Server]]:
    """Drones or an arm, each behind a port of its own."""
    from rookery.sim2real.links.opening import server_classes

    make, vehicle_class = server_classes(args.protocol)
    vehicle = vehicle_class(_make(args), args.noise, args.seed)
    servers: list[Server] = []
    try:
        for i in range(vehicle.count):
            station = (args.host, args.port + i) if args.port else None
            listen = args.listen + i if args.listen else None
            servers.append(make(vehicle, i, station, listen, network, args.seed + i, **_more(args, i)))
    except RookeryError:
        for server in servers:
            server.close()
        raise
    return vehicle, servers


def _more(args: Args, i: int) -> dict[str, Any]:
    """Options that only betaflight's servers take."""
    if args.protocol != "betaflight":
        return {}
    if not args.silence_ms > 0.0:
        raise RookeryError(f"--silence-ms must be above 0, got {args.silence_ms:g}.")
    return {"path": args.bus and args.bus + (str(i) if i else ""), "silence_s": args.silence_ms / 1e3}


def _legs(args: Args, network: NetworkConfig) -> tuple[Vehicle, Sequence[Server]]:
    """One quadruped behind DDS."""
    from rookery.sim2real.links.opening import server_classes
    from rookery.sim2real.links.unitree import PERIOD_S
    from rookery.sim2real.runtime.priority import real_time
    from rookery.sim2real.vehicles.joints import DRIVE_DT

    if args.port or args.listen:
        raise RookeryError("unitree has no ports: say where by --interface and --domain.")
    if not args.silence_ms > 0.0:
        raise RookeryError(f"--silence-ms must be above 0, got {args.silence_ms:g}.")
    env = _make(args, dt=DRIVE_DT, control_dt=PERIOD_S)
    make, vehicle_class = server_classes(args.protocol)
    vehicle = vehicle_class(env, None, args.noise, args.seed, args.silence_ms / 1e3)
    with real_time():  # of DDS's threads, which begin here and receive
        return vehicle, [make(vehicle, args.interface, args.domain, network, args.seed)]


def _on_topics(args: Args, network: NetworkConfig) -> tuple[Vehicle, Sequence[Server]]:
    """An arm or drones on topics of ROS 2."""
    from rookery.sim2real.links.dds import cyclone
    from rookery.sim2real.links.opening import server_classes
    from rookery.sim2real.runtime.priority import real_time
    from rookery.tasks.drones.base import DroneTask

    if args.listen:
        raise RookeryError("ros2 has no ports: say where by --interface and --domain.")
    if not args.silence_ms > 0.0:
        raise RookeryError(f"--silence-ms must be above 0, got {args.silence_ms:g}.")
    cyclone("ros2")
    env = _make(args)
    place = args.interface, args.domain, network
    if isinstance(env.task, DroneTask):
        make, vehicle_class = server_classes("ros2 drone")
        vehicle = vehicle_class(env, args.noise, args.seed)
        silence_s = args.silence_ms / 1e3
        with real_time():  # of DDS's threads, which begin here and receive
            return vehicle, [make(vehicle, i, *place, args.seed + i, silence_s) for i in range(vehicle.count)]
    make, vehicle_class = server_classes("ros2 arm")
    vehicle = vehicle_class(env, args.noise, args.seed)
    with real_time():
        return vehicle, [make(vehicle, (args.host, args.port) if args.port else None, *place, args.seed)]


def _late(seconds: float) -> None:
    print(f"rookery: the vehicle was {seconds:.1f} s behind real time: this machine is too busy", file=sys.stderr)
