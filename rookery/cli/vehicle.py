"""`rookery vehicle`: our simulated robots behind the protocols of real ones."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from rookery.cli.options import Engine, TaskConfig, values
from rookery.sim.errors import RookeryError

EXAMPLES = """
  rookery vehicle drone-hover --protocol mavlink
  rookery vehicle drone-hover --protocol crtp
  rookery vehicle table-reach --protocol fci --port 14810
  rookery vehicle drone-hover --task-config num_drones=4 --protocol mavlink --loss 0.01 --latency-ms 10
"""


@dataclass(frozen=True)
class Args:
    """Serve a simulated vehicle over the protocol of a real one, in real time, until Ctrl-C.

    Any ground station or client can drive it; `rookery fly BUNDLE --link ...` flies a policy on it. Drones begin on the ground,
    arms at their home pose.
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK", help="Task whose robots are served.")]
    protocol: Annotated[
        Literal["mavlink", "crtp", "fci"],
        tyro.conf.arg(help="mavlink: PX4's; crtp: the Crazyflie's; by UDP. fci: Franka's, by TCP and UDP."),
    ] = "mavlink"
    host: Annotated[str, tyro.conf.arg(help="Where telemetry goes until somebody else speaks.")] = "127.0.0.1"
    port: Annotated[
        int,
        tyro.conf.arg(
            help="Port there of the first drone; the next ones follow. 0: the protocol's own. With fci: of the tracker, that "
            "tells where objects are; 0: none."
        ),
    ] = 0
    listen: Annotated[int, tyro.conf.arg(help="Port here of the first drone; 0: the protocol's own.")] = 0
    noise: Annotated[float, tyro.conf.arg(help="Factor on the noise of measurements.")] = 1.0
    latency_ms: Annotated[float, tyro.conf.arg(help="ms that packets take, each way.")] = 0.0
    jitter_ms: Annotated[float, tyro.conf.arg(help="ms, standard deviation of what is added.")] = 0.0
    loss: Annotated[float, tyro.conf.arg(help="Share of packets that are lost, each way.")] = 0.0
    seed: Annotated[int, tyro.conf.arg(help="Of noise and network.")] = 0
    engine: Engine = None
    task_config: TaskConfig = ()


def run(args: Args) -> int:
    """Serve until Ctrl-C."""
    import rookery
    from rookery.sim2real.links.opening import server_classes
    from rookery.sim2real.runtime.clock import MonotonicClock
    from rookery.sim2real.runtime.priority import real_time
    from rookery.sim2real.vehicles.network import NetworkConfig
    from rookery.sim2real.vehicles.serve import serve

    for name, value in (("--port", args.port), ("--listen", args.listen)):
        if not 0 <= value < 65536:
            raise RookeryError(f"{name} must be from 0 to 65535, got {value}.")
    network = NetworkConfig(args.latency_ms, args.jitter_ms, args.loss)
    make, vehicle_class = server_classes(args.protocol)
    env = rookery.make(
        args.task, num_envs=1, seed=args.seed, engine=args.engine, config=values(args.task_config, "--task-config")
    )
    vehicle = vehicle_class(env, args.noise, args.seed)
    stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    servers = []
    try:
        for i in range(vehicle.count):
            station = (args.host, args.port + i) if args.port else None
            servers.append(make(vehicle, i, station, args.listen + i if args.listen else None, network, args.seed + i))
    except RookeryError:
        for server in servers:
            server.close()
        raise
    where = ", ".join(server.where for server in servers)
    print(f"rookery: {args.task} is served over {args.protocol}: {where}; Ctrl-C ends it", file=sys.stderr, flush=True)
    with real_time():
        serve(vehicle, servers, MonotonicClock(), lambda: stopped, _late)
    return 0


def _late(seconds: float) -> None:
    print(f"rookery: the vehicle was {seconds:.1f} s behind real time: this machine is too busy", file=sys.stderr)
