"""Flies a board with YAMSPy, a client under the GPL: arms, climbs, turns, lands by hand. Argument: the serial port."""

from __future__ import annotations

import sys
import time

from yamspy import MSPy


def send(board: MSPy, channels: list[int], seconds: float) -> None:
    """RC at about 50 Hz, as its own examples send it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        board.send_RAW_RC(channels)
        board.process_recv_data(board.receive_msg())
        time.sleep(0.01)


def read(board: MSPy, name: str) -> None:
    board.send_RAW_msg(MSPy.MSPCodes[name])
    board.process_recv_data(board.receive_msg())


def main() -> None:
    with MSPy(device=sys.argv[1], loglevel="WARNING", logfilename=None, baudrate=115200) as board:
        assert board.CONFIG["flightControllerIdentifier"] == "BTFL", board.CONFIG
        assert board.CONFIG["apiVersion"].startswith("1.46"), board.CONFIG
        read(board, "MSP_RC_TUNING")
        assert board.RC_TUNING["roll_rate"] == 0.67
        assert board.RC_TUNING["yaw_rate_limit"] == 1998
        rest = [1500, 1500, 1000, 1500, 1000, 1000, 1000]  # AETR
        send(board, rest, 0.5)
        read(board, "MSP_STATUS_EX")
        assert board.CONFIG["armingDisableFlags"] == 0, board.process_armingDisableFlags(
            board.CONFIG["armingDisableFlags"]
        )
        armed = [*rest[:4], 1800, 1000, 1000]
        send(board, armed, 0.3)
        read(board, "MSP_STATUS_EX")
        assert board.CONFIG["mode"] & 1, board.CONFIG
        send(board, [1500, 1500, 1870, 1500, 1800, 1800, 1000], 1.0)  # ANGLE
        read(board, "MSP_ALTITUDE")
        assert board.SENSOR_DATA["altitude"] > 0.1, board.SENSOR_DATA
        read(board, "MSP_ATTITUDE")
        before = board.SENSOR_DATA["kinematics"][2]
        send(board, [1500, 1500, 1810, 1700, 1800, 1800, 1000], 0.5)
        read(board, "MSP_ATTITUDE")
        assert 10.0 < (board.SENSOR_DATA["kinematics"][2] - before) % 360.0 < 180.0, board.SENSOR_DATA
        assert abs(board.SENSOR_DATA["kinematics"][0]) < 5.0
        read(board, "MSP_RAW_IMU")
        assert board.SENSOR_DATA["accelerometer"][2] > 1900
        send(board, [1500, 1500, 1800, 1500, 1800, 1800, 1800], 0.3)  # the FAILSAFE switch
        for _ in range(100):
            send(board, [1500, 1500, 1000, 1500, 1800, 1800, 1800], 0.1)
            read(board, "MSP_STATUS_EX")
            if not board.CONFIG["mode"] & 1:
                return
        raise AssertionError("it does not land")


main()
