"""Reads an actor from a file of another library, whichever it is.

Nothing that a file holds is executed: pickles are read as tensors and numbers, TorchScript as text.
"""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from pathlib import Path

from rookery.policies.imports.actor import Actor
from rookery.policies.imports.onnx import read_onnx_actor
from rookery.policies.imports.rl_games import is_rl_games, read_rl_games
from rookery.policies.imports.rsl_rl import is_rsl_rl, read_rsl_rl
from rookery.policies.imports.sb3 import is_sb3, read_sb3
from rookery.policies.imports.script import read_script_actor
from rookery.policies.imports.script_archive import is_script
from rookery.policies.imports.skrl import is_skrl, read_skrl
from rookery.policies.imports.torchrl import is_torchrl, read_torchrl
from rookery.policies.imports.weights import KINDS, load, no_checkpoint
from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import read_bytes

MOST_BYTES = 512 << 20
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError)
"""What zipfile raises, by the compression, for a damaged archive."""
OLD_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""Beginning of what torch.save wrote before version 1.6."""


def read_actor(file: Path) -> Actor:
    """The actor of a file of rsl_rl, Stable-Baselines3, skrl, rl_games, TorchRL, TorchScript or ONNX.

    Raises:
        RookeryError: no such file, none of these, or no perceptron.
    """
    try:
        data = read_bytes(file, MOST_BYTES)
    except OSError as error:
        raise RookeryError(
            f"{file} cannot be read ({error.strerror}): give the file that the library saved."
        ) from error
    except ValueError as error:
        raise no_checkpoint(file) from error
    if data.startswith(OLD_TORCH):
        raise RookeryError(f"{file} is in the format of torch before 1.6: load it there and save it with a newer one.")
    if file.suffix.lower() == ".onnx":
        return read_onnx_actor(file)
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise no_checkpoint(file) from error
    if is_sb3(archive):
        return read_sb3(file, archive, lambda name: _unpack(file, archive, name))
    if is_script(archive):
        return read_script_actor(file, archive, lambda name: _unpack(file, archive, name))
    return _read_saved(file, data)


def _read_saved(file: Path, data: bytes) -> Actor:
    """Reader of what torch.save wrote."""
    saved = load(file, data)
    for is_its, read in (
        (is_rsl_rl, read_rsl_rl),
        (is_skrl, read_skrl),
        (is_rl_games, read_rl_games),
        (is_torchrl, read_torchrl),
    ):
        if is_its(saved):
            return read(file, saved)
    keys = ", ".join(f"{key!s:.40}" for key in list(saved)[:6]) or "nothing"
    raise RookeryError(f"{file} holds {keys}, and is no file of {KINDS}: give the file that the library saved.")


def _unpack(file: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """An entry of an archive."""
    if any(info.file_size > MOST_BYTES for info in archive.infolist()):
        raise no_checkpoint(file)
    try:
        return archive.read(name)
    except (KeyError, ValueError, OSError, RuntimeError, EOFError, *DAMAGED) as error:  # RuntimeError: encrypted
        raise no_checkpoint(file) from error
