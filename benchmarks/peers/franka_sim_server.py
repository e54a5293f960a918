"""franka-sim with its defaults but for limits, which stop the arm, and for late positions, which it drops.

Arguments: MJCF; UDP port of a tracker; what that tells as JSON.

It runs in the environment of franka-sim, which wants an older MuJoCo. A thread plays the tracker: the place of the drawer's
handle, or a fixed place, in the words of table-top tasks.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from typing import Any

os.environ["FR3_MJCF"] = sys.argv[1]

from franka_sim.franka_sim_server import FrankaSimServer

PORT = 1337  # of FCI


def track(server: Any, port: int, first: dict[str, list[float]]) -> None:
    """Send what a camera would see at 100 Hz."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    name = "first object's position"
    start = list(first[name])
    physics = server.physics_sim
    slide = None
    while True:
        time.sleep(0.01)
        if physics.model is None:
            continue
        if slide is None:
            names = [physics.model.joint(i).name for i in range(physics.model.njnt)]
            slide = physics.model.joint("furniture/slide").qposadr[0] if "furniture/slide" in names else -1
        out = float(physics.data.qpos[slide]) if slide >= 0 else 0.0
        sender.sendto(json.dumps(first | {name: [start[0], start[1] - out, start[2]]}).encode(), ("127.0.0.1", port))


def tell(seconds: float = 30.0) -> None:
    """Say that clients are taken, or end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", PORT), 1.0):
            time.sleep(1.0)  # it takes a first client while it still falls into its home
            print("ready", flush=True)
            return
        time.sleep(0.2)
    os._exit(1)


with contextlib.suppress(OSError):  # as `rookery vehicle` asks for: other programs would stop it for too long
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(15))
server = FrankaSimServer(enable_gripper=True, enforce_motion_limits=True)
absorb = server._absorb_within_motion_limits
# an arm drops what comes after its cycle (FCI documentation, "Network requirements"); franka-sim would take it, and judge the
# next position by when this one came
server._absorb_within_motion_limits = lambda command, *, fresh: fresh and absorb(command, fresh=True)
threading.Thread(target=track, args=(server, int(sys.argv[2]), json.loads(sys.argv[3])), daemon=True).start()
threading.Thread(target=tell, daemon=True).start()
server.start()
