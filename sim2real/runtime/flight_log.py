"""Flight logs: MCAP files of JSON messages, which Foxglove and other public viewers open.

A channel `/<number>/step` for each vehicle, with a message a control step, see SCHEMA. Messages are encoded and written by a
thread of their own; where it falls behind, the oldest wait, and none is lost. A file whose writer was killed is read up to its
last whole chunk.
"""

from __future__ import annotations

import json
import math
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rookery.sim.errors import RookeryError
from rookery.sim2real.runtime.pilot import StepRecord

CONTRACT, ESTIMATORS, STEP = "rookery.contract", "rookery.estimators", "rookery.Step"
"""Names of the metadata, and of the schema."""
NUMBERS = {"type": "array", "items": {"type": "number"}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": STEP,
    "properties": {
        "time": {"type": "number", "description": "s, the runtime's clock"},
        "phase": {"type": "string", "description": "state of the pilot"},
        "measured": {"type": "number", "description": "s, the vehicle's clock"},
        "received": {"type": "number", "description": "s, the runtime's clock"},
        "state": {"type": "object", "additionalProperties": NUMBERS, "description": "measured quantities, SI"},
        "estimates": {"type": "object", "additionalProperties": NUMBERS, "description": "estimated quantities, SI"},
        "command": {**NUMBERS, "description": "of the policy, in the units of the contract's action"},
        "limited": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "components of the command that the safety filter changed",
        },
        "commands": {"type": "object", "additionalProperties": NUMBERS, "description": "what the operator asked, SI"},
        "fault": {"type": "string", "description": "that ended the flight"},
        "battery": {"type": "number", "description": "share that is left"},
    },
}


class FlightLog:
    """Writes a flight log; a context manager.

    Args:
        path: the file, .mcap.
        contract: JSON of the policy's contract, kept as the file's metadata.

    Attributes:
        error: a sentence where the log ends early, as on a full disk: the flight goes on without; "" otherwise.

    Raises:
        RookeryError: mcap is not installed, or the file cannot be written.
    """

    def __init__(self, path: Path, contract: dict[str, Any]) -> None:
        try:
            from mcap.writer import Writer
        except ImportError:
            raise RookeryError("flight logs need mcap: pip install 'rookery[fly]', or fly without --log.") from None
        self.error = ""
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("wb")
        except OSError as error:
            raise RookeryError(f"cannot write {path} ({error.strerror}): choose another file for --log.") from error
        self._writer = Writer(self._file, chunk_size=1 << 16)
        self._writer.start(profile="", library="rookery")
        self._schema = self._writer.register_schema(STEP, "jsonschema", json.dumps(SCHEMA).encode())
        self._channels: dict[int, int] = {}
        self._writer.add_metadata(CONTRACT, {"json": json.dumps(contract)})
        self._queue: queue.SimpleQueue[tuple[int, StepRecord] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="rookery-log", daemon=True)

    def tell_estimators(self, names: Sequence[str]) -> None:
        """Keep the vehicles' estimators as the file's metadata, before the first step is written; "" for none."""
        self._writer.add_metadata(ESTIMATORS, {str(i): name for i, name in enumerate(names)})

    def write(self, vehicle: int, record: StepRecord) -> None:
        """Add a step of a vehicle."""
        self._queue.put((vehicle, record))

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if not self.error:
                self._try(lambda: self._write(*item))

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            why = error.strerror or error
            self.error = f"the flight log {self._path} ends early ({why}): make room, and log the next flight."

    def _write(self, vehicle: int, record: StepRecord) -> None:
        if vehicle not in self._channels:
            self._channels[vehicle] = self._writer.register_channel(f"/{vehicle}/step", "json", self._schema)
        stamp = int(1e9 * record.now)
        data = json.dumps(to_json(record)).encode()
        self._writer.add_message(self._channels[vehicle], log_time=stamp, publish_time=stamp, data=data)

    def __enter__(self) -> FlightLog:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._queue.put(None)
        self._thread.join()
        if not self.error:
            self._try(self._writer.finish)
        self._try(self._file.close)


def to_json(record: StepRecord) -> dict[str, Any]:
    """A step as SCHEMA says; numbers that are not finite are left as null."""
    out: dict[str, Any] = {"time": record.now, "phase": record.phase.value}
    if record.reading is not None:
        out |= {
            "measured": record.reading.measured,
            "received": record.reading.received,
            "state": {name: _numbers(value) for name, value in record.reading.values.items()},
        }
        if record.reading.estimates:
            out["estimates"] = {name: _numbers(value) for name, value in record.reading.estimates.items()}
        if record.reading.battery is not None:
            out["battery"] = record.reading.battery
    if record.command is not None:
        out["command"] = _numbers(record.command)
    if record.limited:
        out["limited"] = list(record.limited)
    if record.commands:
        out["commands"] = {name: _numbers(value) for name, value in record.commands.items()}
    if record.fault is not None:
        out["fault"] = record.fault.name
    return out


def _numbers(values: Any) -> list[float | None]:
    return [x if math.isfinite(x) else None for x in map(float, values)]
