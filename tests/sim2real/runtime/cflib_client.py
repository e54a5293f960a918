"""A program written with cflib, Bitcraze's own client: what it prints is judged by test_crtp.py.

python cflib_client.py PORT
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from typing import Any

import cflib.crtp
from cflib.crazyflie import Crazyflie
from cflib.crazyflie.log import LogConfig
from cflib.crazyflie.syncCrazyflie import SyncCrazyflie
from cflib.crazyflie.syncLogger import SyncLogger

NAMES = [f"stateEstimate.{a}" for a in ("x", "y", "z", "vx", "vy", "vz")]


def main(port: str) -> None:
    """Fly by each kind of set-point in turn."""
    cflib.crtp.init_drivers()
    out: dict[str, Any] = {}
    cache = tempfile.mkdtemp()
    with SyncCrazyflie(f"udp://127.0.0.1:{port}", cf=Crazyflie(rw_cache=cache)) as scf:
        cf = scf.cf
        scf.wait_for_params()
        out["parameters"] = sum(len(group) for group in cf.param.toc.toc.values())
        out["variables"] = sum(len(group) for group in cf.log.toc.toc.values())
        cf.param.set_value("stabilizer.controller", "2")
        time.sleep(0.3)
        out["controller"] = cf.param.get_value("stabilizer.controller")

        def watch(seconds: float, send: Any) -> list[float]:
            """Send at 50 Hz; the mean of the last 0.3 s of NAMES."""
            config = LogConfig("state", period_in_ms=20)
            for name in NAMES:
                config.add_variable(name, "float")
            rows = []
            with SyncLogger(scf, config) as logger:
                end = time.monotonic() + seconds
                for _, data, _ in logger:
                    send()
                    rows.append([data[name] for name in NAMES])
                    if time.monotonic() > end:
                        break
            late = rows[-15:]
            return [sum(column) / len(late) for column in zip(*late, strict=True)]

        command = cf.commander
        out["position"] = watch(4.0, lambda: command.send_position_setpoint(0.0, 0.0, 1.0, 0.0))
        out["velocity"] = watch(1.5, lambda: command.send_velocity_world_setpoint(0.4, 0.0, 0.0, 0.0))
        watch(2.0, lambda: command.send_position_setpoint(0.0, 0.0, 1.0, 0.0))
        out["hover"] = watch(2.5, lambda: command.send_hover_setpoint(0.0, 0.3, 0.0, 0.7))
        out["z_distance"] = watch(2.0, lambda: command.send_zdistance_setpoint(0.0, 0.0, 0.0, 1.0))
        watch(2.0, lambda: command.send_position_setpoint(0.0, 0.0, 1.0, 0.0))
        turn = [0.0, 0.0, 0.0, 1.0]
        zero = [0.0, 0.0, 0.0]
        out["full_state"] = watch(
            3.0, lambda: command.send_full_state_setpoint([0.5, 0.0, 1.2], zero, zero, turn, 0, 0, 0)
        )
        watch(2.5, lambda: command.send_position_setpoint(0.0, 0.0, 1.5, 0.0))
        command.send_setpoint(0.0, 0.0, 0.0, 0)
        # pitch forward 10 deg for half a second: it goes ahead
        out["attitude"] = watch(0.5, lambda: command.send_setpoint(0.0, 10.0, 0.0, 48000))
        watch(2.5, lambda: command.send_position_setpoint(0.0, 0.0, 1.0, 0.0))
        command.send_notify_setpoint_stop()
        high = cf.high_level_commander
        high.go_to(0.3, 0.3, 0.8, 0.0, 2.0)
        time.sleep(3.0)
        out["go_to"] = watch(0.5, lambda: None)
        high.land(0.0, 2.0)
        time.sleep(3.5)
        out["land"] = watch(0.5, lambda: None)
    print(json.dumps(out))


main(sys.argv[1])
