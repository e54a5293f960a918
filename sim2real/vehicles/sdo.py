"""A CANopen node's SDO server (CiA 301, 7.2.4): expedited and segmented uploads, expedited downloads."""

from __future__ import annotations

import struct
from collections.abc import Callable

TOGGLE_ERROR, BAD_COMMAND, UNSUPPORTED = 0x05030000, 0x05040001, 0x06010000
WRITE_ONLY, READ_ONLY, NO_OBJECT = 0x06010001, 0x06010002, 0x06020000
NOT_MAPPABLE, TOO_LONG, WRONG_LENGTH, NO_SUBINDEX, OUT_OF_RANGE = (
    0x06040041, 0x06040042, 0x06070010, 0x06090011, 0x06090030,
)  # fmt: skip
STATE_FORBIDS = 0x08000022
"""Abort codes."""


class SdoAbort(Exception):
    """A refusal, with its abort code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"0x{code:08X}")
        self.code = code


class SdoAnswers:
    """Answers one client.

    Args:
        read: the bytes of an object, by index and subindex; raises SdoAbort.
        write: takes the bytes for an object; likewise.
    """

    def __init__(self, read: Callable[[int, int], bytes], write: Callable[[int, int, bytes], None]) -> None:
        self._read, self._write = read, write
        self._rest = b""
        self._toggle = 0
        self._at = (0, 0)
        self._uploading = False

    def answer(self, data: bytes) -> bytes | None:
        """The answer to a request; None where there is none to give."""
        if len(data) != 8:
            return None
        command, index, subindex = struct.unpack_from("<BHB", data)
        kind = command >> 5
        try:
            if kind == 4:  # the client aborts
                self._uploading = False
                return None
            if kind == 3:
                return self._segment(command)
            self._at = index, subindex
            self._uploading = False
            if kind == 2:
                return self._upload(index, subindex)
            if kind == 1:
                return self._download(command, index, subindex, data[4:])
            raise SdoAbort(BAD_COMMAND)
        except SdoAbort as refusal:
            self._uploading = False
            return struct.pack("<BHBI", 0x80, *self._at, refusal.code)

    def _upload(self, index: int, subindex: int) -> bytes:
        value = self._read(index, subindex)
        if len(value) <= 4:
            return struct.pack("<BHB4s", 0x43 | (4 - len(value)) << 2, index, subindex, value)
        self._rest, self._toggle, self._uploading = value, 0, True
        return struct.pack("<BHBI", 0x41, index, subindex, len(value))

    def _segment(self, command: int) -> bytes:
        if not self._uploading:
            raise SdoAbort(BAD_COMMAND)
        if command >> 4 & 1 != self._toggle:
            raise SdoAbort(TOGGLE_ERROR)
        part, self._rest = self._rest[:7], self._rest[7:]
        head = self._toggle << 4 | (7 - len(part)) << 1 | (not self._rest)
        self._toggle ^= 1
        self._uploading = bool(self._rest)
        return struct.pack("<B7s", head, part)

    def _download(self, command: int, index: int, subindex: int, data: bytes) -> bytes:
        if not command & 2:
            raise SdoAbort(UNSUPPORTED)  # segmented: nothing here is longer than 4 bytes
        self._write(index, subindex, data[: 4 - (command >> 2 & 3)] if command & 1 else data)
        return struct.pack("<BHB4x", 0x60, index, subindex)
