"""A master written with the canopen library alone, its own state machine of CiA 402 included: no line of this package."""

from __future__ import annotations

import can
import canopen
from canopen import objectdictionary as od
from canopen.profiles.p402 import BaseNode402

PATIENCE_S = 30.0  # s, that threads of a busy machine may need for what takes no time
VARIABLES = (
    (0x1000, 0, od.UNSIGNED32, "Device type"), (0x1008, 0, od.VISIBLE_STRING, "Manufacturer device name"),
    (0x1017, 0, od.UNSIGNED16, "Producer heartbeat time"), (0x6007, 0, od.INTEGER16, "Abort connection option code"),
    (0x603F, 0, od.UNSIGNED16, "Error code"), (0x6040, 0, od.UNSIGNED16, "Controlword"),
    (0x6041, 0, od.UNSIGNED16, "Statusword"), (0x605A, 0, od.INTEGER16, "Quick stop option code"),
    (0x6060, 0, od.INTEGER8, "Modes of operation"), (0x6061, 0, od.INTEGER8, "Modes of operation display"),
    (0x6062, 0, od.INTEGER32, "Position demand value"), (0x6064, 0, od.INTEGER32, "Position actual value"),
    (0x6065, 0, od.UNSIGNED32, "Following error window"), (0x606C, 0, od.INTEGER32, "Velocity actual value"),
    (0x6072, 0, od.UNSIGNED16, "Max torque"), (0x6077, 0, od.INTEGER16, "Torque actual value"),
    (0x607A, 0, od.INTEGER32, "Target position"), (0x6085, 0, od.UNSIGNED32, "Quick stop deceleration"),
    (0x6502, 0, od.UNSIGNED32, "Supported drive modes"),
)  # fmt: skip
RECORDS = {
    0x1016: ("Consumer heartbeat time", {1: od.UNSIGNED32}),
    0x607D: ("Software position limit", {1: od.INTEGER32, 2: od.INTEGER32}),
    **{0x1400 + k: (f"RPDO {k}", {1: od.UNSIGNED32, 2: od.UNSIGNED8, 5: od.UNSIGNED16}) for k in range(4)},
    **{0x1600 + k: (f"RPDO map {k}", dict.fromkeys(range(1, 9), od.UNSIGNED32)) for k in range(4)},
    **{0x1800 + k: (f"TPDO {k}", {1: od.UNSIGNED32, 2: od.UNSIGNED8, 5: od.UNSIGNED16}) for k in range(4)},
    **{0x1A00 + k: (f"TPDO map {k}", dict.fromkeys(range(1, 9), od.UNSIGNED32)) for k in range(4)},
}


def dictionary() -> canopen.ObjectDictionary:
    """The objects of a drive, as an EDS file would list them."""
    out = canopen.ObjectDictionary()
    for index, sub, kind, name in VARIABLES:
        variable = od.ODVariable(name, index, sub)
        variable.data_type = kind
        variable.access_type = "rw"
        out.add_object(variable)
    for index, (name, subs) in RECORDS.items():
        record = od.ODRecord(name, index)
        for sub, kind in {0: od.UNSIGNED8, **subs}.items():
            member = od.ODVariable(f"{name} {sub}", index, sub)
            member.data_type = kind
            member.access_type = "rw"
            record.add_member(member)
        out.add_object(record)
    return out


def connect(channel: str, node: int) -> tuple[canopen.Network, BaseNode402]:
    """A network on a bus of this process, and one of its drives."""
    network = canopen.Network(can.Bus(channel=channel, interface="virtual"))
    network.NOTIFIER_CYCLE = 0.02
    network.connect()
    drive = BaseNode402(node, dictionary())
    for name in ("RESET_FAULT", "SWITCH_OP_MODE", "SWITCH_STATE_FINAL", "SWITCH_STATE_SINGLE", "CHECK_TPDO"):
        setattr(drive, f"TIMEOUT_{name}", PATIENCE_S)
    network.add_node(drive)
    drive.sdo.RESPONSE_TIMEOUT = PATIENCE_S
    return network, drive


def map_pdos(drive: BaseNode402) -> None:
    """Words and positions at each SYNC."""
    drive.nmt.send_command(0x80)
    drive.rpdo.read()
    drive.tpdo.read()
    for pdo, names, kind in (
        (drive.rpdo[1], ("Controlword", "Target position"), 1),
        (drive.tpdo[1], ("Statusword", "Position actual value", "Torque actual value"), 1),
        (drive.tpdo[2], ("Velocity actual value", "Position demand value"), 1),
    ):  # fmt: skip
        pdo.clear()
        for name in names:
            pdo.add_variable(name)
        pdo.trans_type = kind
        pdo.enabled = True
        pdo.save()
    drive.nmt.send_command(0x01)
