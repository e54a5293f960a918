"""DDS between a Go2 and its link replaced by a bus in memory, on which the robot goes on while the link waits for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rookery.sim2real.links import unitree as links
from rookery.sim2real.links.unitree import PERIOD_S, STATES
from rookery.sim2real.links.unitree_messages import Message, Record
from tests.sim2real.runtime.turned_time import turning


class Bus:
    """Takes the place of DDS: what is written to a topic waits for its readers, in the bytes of the wire.

    Attributes:
        spoil: turns a robot's state into a damaged one.
        cut: topics to which nothing passes any more.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[deque[bytes]]] = {}
        self.spoil: Callable[[Record], Record] = lambda record: record
        self.cut: set[str] = set()

    def reader(self, topic: str, message: Message) -> Any:
        waiting: deque[bytes] = deque(maxlen=8)
        self._waiting.setdefault(topic, []).append(waiting)

        class TopicReader:
            def take(self) -> list[Record | None]:
                return [message.from_wire(waiting.popleft()) for _ in range(len(waiting))]

        return TopicReader()

    def writer(self, topic: str, message: Message) -> Any:
        bus = self

        class TopicWriter:
            def write(self, record: Record) -> None:
                data = message.to_wire(bus.spoil(record) if topic == STATES else record)
                for waiting in () if topic in bus.cut else bus._waiting.get(topic, []):
                    waiting.append(data)

        return TopicWriter()


@contextmanager
def bus_for_links(bus: Bus, world: Callable[[], object]) -> Iterator[None]:
    """Within the block links open on the bus, whose robot no motion switcher tells of; waiting steps the world by 2 ms."""
    with pytest.MonkeyPatch.context() as patch, turning(world, PERIOD_S, links):
        patch.setattr(links, "Participant", lambda *where: bus)
        patch.setattr(links, "check_mode", lambda *asked: None)
        yield
