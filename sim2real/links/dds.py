"""DDS under topics of Unitree and of ROS 2: a participant on one network interface, with readers and writers of messages that
are packed here, or of cyclonedds's own classes.

    participant = Participant("eth0")
    states = participant.reader("rt/lowstate", LOW_STATE)
    states.take()                                    # the records that have arrived, oldest first

Cyclone DDS (the `cyclonedds` package) does discovery and transport; messages are packed here, ten times as fast as by its own
Python code. Every byte is declared as IDL's `octet`. That matters: Unitree's SDK and robots have Cyclone DDS 0.10.2, which
ends with a segmentation fault ("ddsi_xt_type_init_impl with invalid type object") when a participant announces a type with
`uint8` or `int8` members, kinds of type that it does not know; `octet` is the same on the wire.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import weakref
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from types import ModuleType

LITTLE = b"\x00\x01\x00\x00"
"""Header of CDR, little-endian."""
PLAIN = (b"\x00\x01", b"\x00\x07")
"""Beginnings of headers after which messages of a fixed size look the same: CDR and XCDR 2, little-endian."""
KEPT = 8  # messages that wait to be taken
DOMAINS = 233  # so many have UDP ports
T = TypeVar("T")


class WireMessage(Protocol[T]):
    """A message that is packed here, such as rookery.sim2real.links.unitree_messages.Message."""

    def __hash__(self) -> int: ...

    def declare(self, dds: Any) -> Any:
        """A new class of cyclonedds of its type."""
        ...

    def to_wire(self, record: T) -> bytes:
        """Its bytes in CDR, little-endian."""
        ...

    def from_wire(self, data: bytes) -> T | None:
        """The message that bytes hold; None where they hold none."""
        ...


def cyclone(extra: str = "unitree") -> ModuleType:
    """The package, with the modules used here.

    Args:
        extra: of this package, that installs it.

    Raises:
        RookeryError: it is not installed.
    """
    try:
        import cyclonedds
        import cyclonedds.core
        import cyclonedds.domain
        import cyclonedds.idl
        import cyclonedds.idl.types
        import cyclonedds.pub
        import cyclonedds.qos
        import cyclonedds.sub
        import cyclonedds.topic
    except ImportError:
        raise RookeryError(f"DDS needs cyclonedds: pip install 'rookery[{extra}]'.") from None
    return cyclonedds  # type: ignore[no-any-return]


def configuration(interface: str) -> str:
    """Cyclone DDS's configuration for one interface: participants on this machine are found without multicast too, which
    Linux's loopback has not. What the environment variable CYCLONEDDS_URI says comes after it, and wins.
    """
    own = (
        f'<CycloneDDS><Domain Id="any"><General><Interfaces><NetworkInterface name="{interface}"/></Interfaces></General>'
        "<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>32</MaxAutoParticipantIndex>"
        f'<Peers><Peer address="{_address(interface)}"/></Peers></Discovery></Domain></CycloneDDS>'
    )
    given = os.environ.get("CYCLONEDDS_URI", "")
    return f"{own},{given}" if given else own


def _address(interface: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            found = fcntl.ioctl(s.fileno(), 0x8915, struct.pack("256s", interface.encode()[:15]))  # SIOCGIFADDR
        except OSError:
            raise RookeryError(
                f"there is no network interface {interface!r} with an IPv4 address: this machine has {_interfaces()}."
            ) from None
    return socket.inet_ntoa(found[20:24])


def _interfaces() -> str:
    return ", ".join(name for _, name in socket.if_nameindex()) or "none"


_domains: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Those of this process, which has each once."""


def _domain(dds: ModuleType, interface: str, number: int) -> Any:
    known = _domains.get(number)
    if known is not None and known.interface != interface:
        raise RookeryError(
            f"DDS domain {number} is already open on {known.interface} in this process, which speaks to it on one interface."
        )
    if known is None:
        known = _domains[number] = dds.domain.Domain(number, configuration(interface))
        known.interface = interface
    return known


class Participant:
    """A participant of one domain on one interface; it lives as long as its readers and writers.

    Args:
        interface: such as "eth0".
        domain: its number; Unitree's is 0.

    Raises:
        RookeryError: cyclonedds is not installed, there is no such interface, or DDS cannot begin.
    """

    def __init__(self, interface: str, domain: int = 0) -> None:
        self._dds = cyclone()
        if not 0 <= domain < DOMAINS:
            raise RookeryError(f"a DDS domain is a number from 0 to {DOMAINS - 1}, got {domain}.")
        try:
            self._domain = _domain(self._dds, interface, domain)
            self._participant = self._dds.domain.DomainParticipant(domain)
        except self._dds.core.DDSException as error:
            given = "CYCLONEDDS_URI" in os.environ
            hint = ": CYCLONEDDS_URI is read too, let it name no interface and no participant index" if given else ""
            raise RookeryError(f"DDS does not begin on {interface}, domain {domain} ({error}){hint}.") from None

    def _topic(self, name: str, kind: Any) -> Any:
        return self._dds.topic.Topic(self._participant, name, kind)

    def _qos(self, *more: Any) -> Any:
        policy = self._dds.qos.Policy
        return self._dds.qos.Qos(
            policy.History.KeepLast(KEPT), policy.DataRepresentation(use_cdrv0_representation=True), *more
        )

    def objects(self, name: str, kind: Any) -> Any:
        """cyclonedds's own reader of a class of messages from other participants."""
        local = self._dds.qos.Policy.IgnoreLocal.Participant
        return self._kept(self._dds.sub.DataReader(self._participant, self._topic(name, kind), self._qos(local)))

    def objects_writer(self, name: str, kind: Any) -> Any:
        """cyclonedds's own writer of a class of messages; it sends again what readers that ask for it have missed."""
        reliable = self._dds.qos.Policy.Reliability.Reliable(0)
        return self._kept(self._dds.pub.DataWriter(self._participant, self._topic(name, kind), self._qos(reliable)))

    def _kept(self, entity: Any) -> Any:
        """With a reference to this: cyclonedds ends what a participant has made when nobody holds it any more."""
        entity.participant_of_it = self
        return entity

    def reader(self, name: str, message: WireMessage[T]) -> TopicReader[T]:
        """A reader of messages that other participants send to a topic."""
        return TopicReader(self, name, message)

    def writer(self, name: str, message: WireMessage[T]) -> TopicWriter[T]:
        """A writer of messages to a topic."""
        return TopicWriter(self, name, message)


class _Received:
    """Messages that arrived: cyclonedds adds `sample_info`."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class TopicReader(Generic[T]):
    """Reads messages of one topic; see Participant."""

    def __init__(self, participant: Participant, topic: str, message: WireMessage[T]) -> None:
        self._reader = participant.objects(topic, _kind(message))
        self._message = message

    def take(self) -> list[T]:
        """The messages that have arrived since, oldest first; those that hold none are left out."""
        out = []
        for sample in self._reader.take(KEPT):
            data = getattr(sample, "data", b"")
            record = self._message.from_wire(data[4:]) if data[:2] in PLAIN else None
            if record is not None:
                out.append(record)
        return out


class TopicWriter(Generic[T]):
    """To one topic; see Participant."""

    def __init__(self, participant: Participant, topic: str, message: WireMessage[T]) -> None:
        kind = _kind(message)
        self._writer = participant.objects_writer(topic, kind)
        self._message = message
        self._sample = kind.__new__(kind)

    def write(self, record: T) -> None:
        """Send a message."""
        self._sample.data = LITTLE + self._message.to_wire(record)
        self._writer.write(self._sample)


@cache
def _kind(message: WireMessage[Any]) -> Any:
    """cyclonedds's class of a message, which carries bytes that are packed already."""
    kind = message.declare(cyclone())
    kind.serialize = lambda self, **options: self.data
    kind.deserialize = classmethod(lambda cls, data, **options: _Received(data))
    return kind
