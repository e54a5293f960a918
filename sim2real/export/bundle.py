"""The folder of an export, by default the bundle: all that is needed to run a policy without Rookery, and to check the copy.

    README.md  policy.onnx  policy.c  policy.h  policy.hpp  contract.json  golden.npz

With several agent groups every file but README and contract carries the group's name: `policy_keeper.onnx`.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.sim.errors import RookeryError
from rookery.sim.files import flush, make_folder
from rookery.sim.untrusted import read_json
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.exporter import (
    C_FILE,
    CONTRACT,
    CPP_HEADER,
    GOLDEN,
    HEADER,
    ONNX,
    README,
    Export,
    Exporter,
    file_name,
    is_file_of,
)
from rookery.sim2real.export.exporters import EXPORTERS, exporter, exporters_for

if TYPE_CHECKING:
    from rookery.policies.policy import Policy

PARTS = {"new", "old"}
"""What a temporary folder of an export holds: the new bundle, and while it takes its place the old one."""


class ContractFile(Exporter):
    """The contract alone: what the numbers mean."""

    name = "contract"
    includes = ()
    files = (CONTRACT,)

    def write(self, export: Export, folder: Path) -> None:
        export.contract.write(folder / CONTRACT)


class Bundle(Exporter):
    """README, ONNX, C, contract and golden vectors, which `rookery export --check` compares."""

    name = "bundle"
    includes = ("contract", "onnx", "c", "cpp", "golden", "readme")

    def write(self, export: Export, folder: Path) -> None:
        """Nothing more than what it includes."""


def bundle_files(contract: Contract) -> dict[str, dict[str, str]]:
    """By group, the file names of its "onnx", "c", "h", "hpp" and "golden"."""
    kinds = {"onnx": ONNX, "c": C_FILE, "h": HEADER, "hpp": CPP_HEADER, "golden": GOLDEN}
    return {g: {kind: file_name(file, contract, g) for kind, file in kinds.items()} for g in contract.groups}


def export_bundle(
    policies: Mapping[str, Policy],
    contract: Contract,
    folder: Path | str,
    prefix: str = "rookery",
    target: str = "bundle",
    overwrite: bool = False,
    int8: bool = False,
) -> Path:
    """Write the bundle of a run, or what another exporter makes of it.

    The folder appears complete or not at all, also after a power cut; an older export in its place is kept, or replaced where
    that is asked for. A power cut at that very moment leaves one of both, perhaps in a hidden folder beside it.

    Args:
        policies: by group, `rookery.policies.policy.Policy`.
        contract: their contract; stages that are still null are filled in from the policies.
        folder: where to; new, empty, or with `overwrite` an older export.
        prefix: beginning of the C names; with several groups the group's name follows it.
        target: name of an exporter, see exporters.py.
        overwrite: replace an older export.
        int8: round the weights to 8 bits, see int8.py.

    Returns:
        The folder.

    Raises:
        RookeryError: when policies and contract disagree, the policy has numbers that are not finite, an exporter refuses
            it, the folder holds an older export and is to be kept, or other files, or the disk refuses.
    """
    exporters = exporters_for(target)
    export = Export(policies, with_stages(contract, policies), prefix, tuple(exporters))
    for policy in policies.values():
        if fault := policy.fault():
            raise RookeryError(f"the policy holds {fault}: export an earlier checkpoint or another run.")
    if int8:
        from rookery.sim2real.export.int8 import int8_export

        export = int8_export(export)
    for each in exporters:
        each.check(export)
    with _new_folder(Path(folder), exporters, overwrite) as inside:
        for each in exporters:
            _write(each, export, inside)
    return Path(folder)


def _write(each: Exporter, export: Export, folder: Path) -> None:
    """Let an exporter write its files, no fewer and no others."""
    before = _files_in(folder)
    wanted = {file_name(file, export.contract, group) for file in each.files for group in export.contract.groups}
    for name in wanted:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    each.write(export, folder)
    if found := (_files_in(folder) - before) ^ wanted:
        name = min(found)
        what = "did not write" if name in wanted else "wrote"
        raise RookeryError(f"the exporter {each.name!r} {what} {name}: its `files` must name what it writes.")


def _files_in(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_symlink() or not p.is_dir()}


@contextlib.contextmanager
def _new_folder(folder: Path, exporters: Sequence[Exporter], overwrite: bool) -> Iterator[Path]:
    """A temporary folder that takes the place of `folder` when the block ends well and all is on the disk, and vanishes when it
    does not. What stands there now must be files of some exporter of this package or of `exporters`."""
    target = folder.resolve()
    _refuse_foreign(target, folder, exporters)
    temporary = held = None
    try:
        make_folder(target.parent)
        _remove_stale(target)
        if not overwrite:
            _refuse_older(folder)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        held = os.open(temporary, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        inside = temporary / "new"
        inside.mkdir()
        yield inside
        for path in (*sorted(inside.rglob("*")), inside, temporary, target.parent):
            flush(path)
        _swap(inside, target, temporary / "old")
    except OSError as e:
        raise RookeryError(
            f"cannot write the bundle to {folder} ({e.strerror or e}): choose another --out, or make room there."
        ) from e
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        if held is not None:
            os.close(held)


def _remove_stale(target: Path) -> None:
    """Remove the temporary folders of exports to `target` that were killed, which no process holds any more; a bundle that was
    about to be replaced comes back where nothing has taken its place."""
    for stale in target.parent.glob(f".{glob.escape(target.name)}.????????"):
        if not stale.is_dir() or stale.is_symlink() or not {p.name for p in stale.iterdir()} <= PARTS:
            continue
        descriptor = os.open(stale, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (stale / "old").exists() and not target.exists():
                os.rename(stale / "old", target)
            shutil.rmtree(stale, ignore_errors=True)
        except BlockingIOError:
            continue  # another export is at work
        finally:
            os.close(descriptor)


def _swap(new: Path, target: Path, old: Path) -> None:
    """Rename `new` to `target` and wait until that is on the disk; what stood there goes to `old`, and back when that fails."""
    replaced = target.exists()
    if replaced:
        os.rename(target, old)
    try:
        os.rename(new, target)
        flush(target.parent)
    except OSError:
        if target.exists():
            os.rename(target, new)
        if replaced:
            os.rename(old, target)
        raise


def _refuse_older(folder: Path) -> None:
    """An export is replaced only on demand."""
    try:
        task = read_json(folder / CONTRACT)["task_id"]
    except (OSError, ValueError, KeyError, TypeError):
        return  # none, or damaged: what it is then is judged by its files
    raise RookeryError(
        f"{folder} holds an export of {task!r:.80}: say --overwrite to replace it, or give --out a new folder."
    )


def _refuse_foreign(target: Path, shown: Path, exporters: Sequence[Exporter]) -> None:
    """Replacing a folder deletes what is in it, so only an empty one or an older export may be replaced."""
    if target == Path.cwd():
        raise RookeryError(f"{shown} is the current folder, which cannot be replaced: give --out a folder inside it.")
    if target.is_dir():
        known = [file for each in (*map(exporter, EXPORTERS), *exporters) for file in each.files]
        there = _files_in(target)
        other = sorted(path for path in there if not any(is_file_of(file, path) for file in known))
        other += [README] * (there == {README})  # anything may have a README
        if other:
            raise RookeryError(f"{shown} holds files that are no bundle ({other[0]}): give --out a new folder.")
    elif target.exists():
        raise RookeryError(f"{shown} is a file: give --out a new folder.")
