"""Checkpoints that survive a kill at any moment: written aside, flushed to the disk, and renamed into place in one step.

    runs/<task>/<time>/checkpoints/000001048576/
        algorithm.safetensors   the algorithm's exact state: weights, optimizer, normalizers, buffers, generators
        env.safetensors         the environment's exact state and its current observations
        state.json              algorithm's name and config, counters, settings, contract, log figures, and the SHA-256 of
                                every file and of itself

A folder without the leading dot is complete, and was on the disk before it got its name. Nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rookery.policies.training import store
from rookery.sim.errors import RookeryError
from rookery.sim.files import flush, make_folder
from rookery.sim.files import write as write_file
from rookery.sim.untrusted import parse_json, read_bytes, read_safetensors, require_file

FORMAT = "rookery-checkpoint"
VERSION = 2
PARTS = ("algorithm", "env")
DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
"""Names of types in safetensors files (github.com/huggingface/safetensors, "Format")."""
REPLACED = ".replaced-"
"""Begins the name of a checkpoint that is being written once more."""


def write(run_dir: Path, steps: int, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> Path:
    """Write a checkpoint to `run_dir`/checkpoints/<steps>.

    Args:
        run_dir: run folder.
        steps: the checkpoint's name.
        tensors: by file, see PARTS.
        state: JSON values.

    Returns:
        its folder.

    Raises:
        RookeryError: the disk is full or the folder cannot be written; older checkpoints are left as they are.
    """
    name = f"{steps:012d}"
    with _staged(run_dir, name) as temporary:
        files = {}
        for part in PARTS:
            files[f"{part}.safetensors"] = _write_tensors(temporary / f"{part}.safetensors", tensors[part])
        header = {"format": FORMAT, "version": VERSION, "torch": torch.__version__, "files": files}
        write_file(temporary / "state.json", _seal(header | state))
    return run_dir / "checkpoints" / name


def receive(run_dir: Path, name: str, files: Mapping[str, bytes]) -> None:
    """Write a checkpoint that another process has written elsewhere; one of this name that is there already stays.

    Args:
        run_dir: run folder.
        name: of the checkpoint's folder.
        files: by name.

    Raises:
        RookeryError: the disk is full or the folder cannot be written.
    """
    if any(steps_of(there) == int(name) for there in complete(run_dir)):
        return
    with _staged(run_dir, name) as temporary:
        for own, data in files.items():
            write_file(temporary / own, data)


@contextlib.contextmanager
def _staged(run_dir: Path, name: str) -> Iterator[Path]:
    """A folder for a checkpoint's files, which takes its name once they are on the disk; where one of this name is there, as
    after a resume from an older checkpoint, it is replaced.

    Raises:
        RookeryError: the disk is full or the folder cannot be written; older checkpoints are left as they are.
    """
    folder = run_dir / "checkpoints"
    temporary = folder / f".writing-{name}"
    try:
        make_folder(folder)
        _clean_up(folder)
        temporary.mkdir()
        yield temporary
        flush(temporary)
        if (folder / name).exists():
            (folder / name).rename(folder / f"{REPLACED}{name}")
        temporary.rename(folder / name)
        flush(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise store.unwritable(folder, error) from error


def _write_tensors(file: Path, tensors: dict[str, Tensor]) -> str:
    """Write a safetensors file, tensor by tensor: a replay memory may take most of the machine's memory, and
    `safetensors.torch.save` copies it twice. Returns the file's SHA-256."""
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))  # so that all stand at whole words
    header, end = {}, 0
    for name, x in ordered:
        header[name] = {"dtype": DTYPES[x.dtype], "shape": list(x.shape), "data_offsets": [end, end + x.nbytes]}
        end += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with open(file, "wb") as opened:
        for data in (len(text).to_bytes(8, "little"), text):
            opened.write(data)
            digest.update(data)
        for _, x in ordered:
            values = x.detach().cpu().reshape(-1).view(torch.uint8).numpy()
            opened.write(values.data)
            digest.update(values.data)
        opened.flush()
        os.fsync(opened.fileno())
    return digest.hexdigest()


def remove_old(run_dir: Path, keep: int, steps: int) -> None:
    """Remove all but the newest `keep` checkpoints up to `steps`, and what an interrupted write left.

    Later ones are there after a resume from an older checkpoint: the training goes on from that one. A checkpoint loses its
    name first, for good, and its files then: what has its name is always whole.
    """
    folder = run_dir / "checkpoints"
    with contextlib.suppress(OSError):
        found = complete(run_dir)
        kept = [f for f in found if steps_of(f) <= steps][-keep:]
        for old in reversed([f for f in found if f not in kept]):
            old.rename(folder / f".removing-{old.name}")
            flush(folder)
        _clean_up(folder)


def _clean_up(folder: Path) -> None:
    """Put back a replaced checkpoint whose successor did not come, and remove what interrupted writes left. Other hidden
    files, such as those of a file manager, stay."""
    for replaced in folder.glob(f"{REPLACED}*"):
        name = replaced.name.removeprefix(REPLACED)
        replaced.rename(folder / (f".removing-{name}" if (folder / name).exists() else name))
        flush(folder)
    for leftover in [*folder.glob(".writing-*"), *folder.glob(".removing-*")]:
        shutil.rmtree(leftover)


def complete(run_dir: Path) -> list[Path]:
    """Checkpoint folders of a run, oldest first; one that was about to be replaced counts until its successor is there."""
    folder = run_dir / "checkpoints"
    found = {f.name: f for f in folder.glob("*") if f.name.isdigit()}
    for replaced in folder.glob(f"{REPLACED}*"):
        found.setdefault(replaced.name.removeprefix(REPLACED), replaced)
    return [found[name] for name in sorted(found)]


def steps_of(folder: Path) -> int:
    """Steps in the name of a checkpoint's folder, one of `complete`."""
    return int(folder.name.removeprefix(REPLACED))


def newest(run_dir: Path | str) -> Path:
    """The newest complete checkpoint of a run folder.

    Raises:
        RookeryError: there is none.
    """
    found = complete(Path(run_dir))
    if not found:
        raise RookeryError(f"{run_dir} holds no checkpoint: give the folder of a run made by `rookery train`.")
    return found[-1]


def resolve(folder: Path | str) -> Path:
    """A checkpoint's folder, given that or its run folder.

    Raises:
        RookeryError: there is none.
    """
    folder = Path(folder)
    return folder if folder.parent.name == "checkpoints" else newest(folder)


def read_state(folder: Path | str) -> dict[str, Any]:
    """The checked state.json of a checkpoint, or of the newest one of a run folder.

    Raises:
        RookeryError: missing, damaged, or written by another version.
    """
    folder = resolve(folder)
    try:
        text = read_bytes(folder / "state.json")
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"state.json cannot be read ({_why(error)})") from error
    try:
        state = parse_json(text)
        if state["format"] != FORMAT:
            raise KeyError("format")
        version = int(state["version"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(folder, "state.json is cut short or was edited") from error
    if version > VERSION:
        raise RookeryError(
            f"{folder} was written by a newer Rookery (checkpoint version {version}, this one reads {VERSION}): "
            "upgrade Rookery to use it."
        )
    if version < VERSION:
        raise RookeryError(
            f"{folder} was written by an older Rookery (checkpoint version {version}, this one reads {VERSION}): its "
            "policy can still be used, and `rookery train TASK --init RUN` starts from it."
        )
    if _seal({k: v for k, v in state.items() if k != "sha256"}) != text:
        raise _damaged(folder, "state.json was edited")
    return dict(state)


def refuse_other(folder: Path, state: dict[str, Any], identity: dict[str, Any]) -> None:
    """Refuse a checkpoint whose state was made with other values.

    Args:
        folder: of the checkpoint.
        state: of `read_state`.
        identity: what must be the same, by name.

    Raises:
        RookeryError: naming what differs.
    """
    for what, mine in identity.items():
        theirs = state[what]
        if theirs != mine:
            if isinstance(theirs, dict) and isinstance(mine, dict):  # only what differs: there are many settings
                names = [name for name in {**theirs, **mine} if theirs.get(name, ...) != mine.get(name, ...)]
                theirs, mine = ({name: d[name] for name in names if name in d} for d in (theirs, mine))
            raise RookeryError(
                f"{folder} was made with {what} {theirs!r}, not {mine!r}: resume it with its own settings."
            )


def read_tensors(folder: Path, state: dict[str, Any]) -> dict[str, dict[str, Tensor]]:
    """The checked tensors of a checkpoint, by file.

    Args:
        folder: of the checkpoint.
        state: of `read_state`.

    Raises:
        RookeryError: a file is missing or damaged.
    """
    return {part: _read(folder, f"{part}.safetensors", state.get("files")) for part in PARTS}


def _read(folder: Path, name: str, files: object) -> dict[str, Tensor]:
    try:
        require_file(folder / name)
        with open(folder / name, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"{name} cannot be read ({_why(error)})") from error
    if not isinstance(files, dict) or digest != files.get(name):
        raise _damaged(folder, f"{name} is cut short or was edited")
    try:
        return read_safetensors(folder / name)[0]
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"{name} holds no tensors ({error})") from error


def _seal(state: dict[str, Any]) -> bytes:
    """The JSON text of a state together with the checksum of itself."""
    body = json.dumps(state, indent=1, sort_keys=True, default=str)
    return json.dumps(
        json.loads(body) | {"sha256": hashlib.sha256(body.encode()).hexdigest()}, indent=1, sort_keys=True
    ).encode()


def _why(error: OSError | ValueError) -> str:
    return str(error.strerror if isinstance(error, OSError) else error)


def _damaged(folder: Path, why: str) -> RookeryError:
    others = [f for f in complete(folder.parent.parent) if f != folder]
    way = f"use {others[-1]} instead" if others else "train again, for there is no older checkpoint"
    return RookeryError(f"checkpoint {folder} is damaged: {why}; {way}.")
