"""Unitree's motion switcher, the service that says which of a robot's own controllers is on: request and answer by DDS.

Topics, numbers and types: unitree_sdk2_python, comm/motion_switcher and IDL `unitree_api`.
"""

from __future__ import annotations

import json
import time
from functools import cache
from types import SimpleNamespace
from typing import Any

from rookery.sim2real.links.dds import Participant, cyclone

REQUESTS, ANSWERS = "rt/api/motion_switcher/request", "rt/api/motion_switcher/response"
CHECK_MODE, RELEASE_MODE = 1001, 1003
ASK_S = 0.1  # s between questions that are not yet answered: the first may leave before the service is found


@cache
def _kinds() -> SimpleNamespace:
    """cyclonedds's classes of the parts of requests and answers."""
    idl = cyclone().idl
    types = idl.types

    def struct(name: str, **fields: Any) -> Any:
        return idl.make_idl_struct(name, f"unitree_api.msg.dds_.{name}", fields)

    k = SimpleNamespace()
    k.identity = struct("RequestIdentity_", id=types.int64, api_id=types.int64)
    k.lease = struct("RequestLease_", id=types.int64)
    k.policy = struct("RequestPolicy_", priority=types.int32, noreply=bool)
    k.status = struct("ResponseStatus_", code=types.int32)
    k.asked = struct("RequestHeader_", identity=k.identity, lease=k.lease, policy=k.policy)
    k.answered = struct("ResponseHeader_", identity=k.identity, status=k.status)
    octets = types.sequence[types.byte]  # not uint8: see rookery.sim2real.links.dds
    k.request = struct("Request_", header=k.asked, parameter=str, binary=octets)
    k.answer = struct("Response_", header=k.answered, data=str, binary=octets)
    return k


def check_mode(participant: Participant, timeout_s: float) -> str | None:
    """The name of the robot's controller that is on, "" for none; None where nobody answers."""
    k = _kinds()
    reader = participant.objects(ANSWERS, k.answer)
    writer = participant.objects_writer(REQUESTS, k.request)
    identity = time.monotonic_ns()
    header = k.asked(k.identity(identity, CHECK_MODE), k.lease(0), k.policy(0, False))
    end = time.monotonic() + timeout_s
    due = 0.0
    while time.monotonic() < end:
        if time.monotonic() >= due:
            writer.write(k.request(header, "{}", []))
            due = time.monotonic() + ASK_S
        for sample in reader.take(8):
            told = getattr(sample, "header", None)
            if told is not None and told.identity.id == identity and told.status.code == 0:
                try:
                    return str(json.loads(sample.data).get("name", ""))
                except (ValueError, AttributeError):
                    return None
        time.sleep(0.01)
    return None


class MotionSwitcher:
    """The service's side: answers which controller is on, and lets it be switched off.

    Args:
        participant: that answers.
        mode: name of the controller that is on; "" for none.
    """

    def __init__(self, participant: Participant, mode: str = "") -> None:
        self._kinds = k = _kinds()
        self.mode = mode
        self._reader = participant.objects(REQUESTS, k.request)
        self._writer = participant.objects_writer(ANSWERS, k.answer)

    def serve(self) -> None:
        """Answer what has been asked."""
        for sample in self._reader.take(8):
            header = getattr(sample, "header", None)
            if header is None:
                continue
            if header.identity.api_id == RELEASE_MODE:
                self.mode = ""
            told = json.dumps({"form": "0", "name": self.mode})
            k = self._kinds
            self._writer.write(k.answer(k.answered(header.identity, k.status(0)), told, []))
