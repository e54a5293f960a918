"""A program written with MAVSDK, as its users write them: what it prints is judged by test_mavlink.py.

python mavsdk_client.py PORT
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mavsdk.asyncio import ComponentType, Configuration, Mavsdk
from mavsdk.asyncio.plugins.action import ActionAsync
from mavsdk.asyncio.plugins.mission import MissionAsync
from mavsdk.asyncio.plugins.offboard import OffboardAsync
from mavsdk.asyncio.plugins.telemetry import TelemetryAsync
from mavsdk.plugins.mission.mission import MissionItem, MissionPlan
from mavsdk.plugins.offboard.offboard import PositionNedYaw

HOME = (47.397742, 8.545594)
METER = 1.0 / 111194.93  # deg north


def waypoint(north_m: float, height_m: float) -> MissionItem:
    """An item that flies through."""
    nan = float("nan")
    return MissionItem(HOME[0] + north_m * METER, HOME[1], height_m, 1.0, True, nan, nan, 0, nan, nan, nan, nan, nan, 0)


async def until(check: Any, seconds: float, what: str) -> None:
    """Wait for a condition."""
    for _ in range(round(seconds / 0.05)):
        if await check():
            return
        await asyncio.sleep(0.05)
    raise SystemExit(f"waited {seconds} s for {what}")


async def main(port: str) -> None:
    """Fly."""
    out: dict[str, Any] = {}
    mavsdk = Mavsdk(Configuration.create_with_component_type(ComponentType.GROUND_STATION))
    await mavsdk.add_any_connection(f"udpin://127.0.0.1:{port}")
    system = await mavsdk.first_autopilot(10.0)
    assert system is not None
    action, telemetry = ActionAsync(system), TelemetryAsync(system)
    offboard, mission = OffboardAsync(system), MissionAsync(system)

    async def height() -> float:
        return float((await telemetry.position()).relative_altitude_m)

    await action.set_takeoff_altitude(1.5)
    out["takeoff_altitude"] = await action.get_takeoff_altitude()
    await action.arm()
    await action.takeoff()

    async def up() -> bool:
        return abs(await height() - 1.5) < 0.15

    await until(up, 20, "the take-off")
    out["height"] = await height()
    await offboard.set_position_ned(PositionNedYaw(0.0, 1.0, -1.5, 90.0))
    await offboard.start()
    out["offboard"] = await offboard.is_active()
    await asyncio.sleep(5.0)
    out["attitude"] = (await telemetry.attitude_euler()).yaw_deg
    out["east_m"] = ((await telemetry.position()).longitude_deg - HOME[1]) * 111194.93 * 0.67693
    await offboard.stop()
    await mission.upload_mission(MissionPlan([waypoint(1.0, 1.5), waypoint(2.0, 1.0)]))
    down = await mission.download_mission()
    out["mission_items"] = len(down.mission_items)
    await mission.start_mission()
    await until(mission.is_mission_finished, 40, "the mission")
    out["north_m"] = ((await telemetry.position()).latitude_deg - HOME[0]) / METER
    await action.land()

    async def stands() -> bool:
        return not await telemetry.armed()

    await until(stands, 20, "the landing")
    out["landed_height"] = await height()
    print(json.dumps(out))


asyncio.run(main(sys.argv[1]))
