"""Flight logs read back: the contract and the steps of each vehicle, see rookery.sim2real.runtime.flight_log.

Records are read one after the other, without the index at a file's end: that of a runtime that was killed has none, and is read
up to its last whole chunk.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.sim.errors import RookeryError
from rookery.sim2real.runtime.flight_log import CONTRACT, ESTIMATORS, STEP

MOST_BYTES = 1 << 28
"""Of a record; a length beyond is damage."""


@dataclass
class Flown:
    """A flight.

    Attributes:
        contract: its JSON.
        vehicles: the steps of each by its number, as flight_log.SCHEMA says.
        estimators: names of the vehicles' estimators.
        cut: the file's end is missing, as of a runtime that was killed.
    """

    contract: dict[str, Any] = field(default_factory=dict)
    vehicles: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    estimators: dict[int, str] = field(default_factory=dict)
    cut: bool = False


def read_flight(path: Path) -> Flown | None:
    """Read a flight log; None where the file is another's MCAP.

    Raises:
        RookeryError: the file is missing or damaged.
        ImportError: mcap is not installed.
    """
    flown = Flown()
    try:
        for name, value in _records(path):
            if name is None:
                return None
            if name == CONTRACT:
                flown.contract = _object(value)
            elif name == ESTIMATORS:
                flown.estimators = {int(i): str(by) for i, by in _object(value).items()}
            else:
                flown.vehicles.setdefault(int(name.split("/")[1]), []).append(_step(value))
    except ImportError:
        raise
    except OSError as error:
        raise RookeryError(f"cannot read {path} ({error.strerror}).") from error
    except Exception as error:  # decompressors have errors of their own
        flown.cut = _is_cut(path)
        if not (flown.vehicles and flown.cut):
            words = " ".join(str(error).split()) or type(error).__name__
            raise RookeryError(f"{path} is a damaged MCAP file: {words}.") from error
    return flown


def _records(path: Path) -> Iterator[tuple[str | None, str | bytes]]:
    """The contract by CONTRACT, estimators by ESTIMATORS, steps by their topic; None where a schema is not ours."""
    from mcap.records import Channel, Message, Metadata, Schema
    from mcap.stream_reader import StreamReader

    topics: dict[int, str] = {}
    with path.open("rb") as file:
        for record in StreamReader(file, validate_crcs=True, record_size_limit=MOST_BYTES).records:
            if isinstance(record, Metadata) and record.name == CONTRACT:
                yield CONTRACT, record.metadata["json"]
            elif isinstance(record, Metadata) and record.name == ESTIMATORS:
                yield ESTIMATORS, json.dumps(record.metadata)
            elif (isinstance(record, Schema) and record.name != STEP) or (
                isinstance(record, Channel) and not record.schema_id
            ):
                yield None, ""
            elif isinstance(record, Channel):
                topics[record.id] = record.topic
            elif isinstance(record, Message):
                yield topics[record.channel_id], record.data


def _is_cut(path: Path) -> bool:
    """True where the file does not end as a finished one does."""
    from mcap.stream_reader import MAGIC_SIZE

    with path.open("rb") as file:
        begin = file.read(MAGIC_SIZE)
        file.seek(max(0, file.seek(0, 2) - MAGIC_SIZE))
        return file.read() != begin


def _object(text: str | bytes) -> dict[str, Any]:
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("a message is no JSON object")
    return values


def _step(text: str | bytes) -> dict[str, Any]:
    values = _object(text)
    time = values.get("time")
    if not isinstance(time, (int, float)) or not math.isfinite(time):
        raise ValueError("a step has no time")
    return values
