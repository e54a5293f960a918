"""The bundle: a folder with everything that is needed to run a policy without Rookery, and to check the copy.

    policy.onnx  policy.c  policy.h  contract.json  golden.npz

With several agent groups every file but the contract carries the group's name: `policy_keeper.onnx`.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.sim.errors import RookeryError
from rookery.sim.files import flush, make_folder
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.c import c_source, policy_arrays
from rookery.sim2real.export.golden import write_golden
from rookery.sim2real.export.onnx import export_onnx

if TYPE_CHECKING:
    from rookery.policies.policy import Policy

PARTS = {"new", "old"}
"""What a temporary folder of an export holds: the new bundle, and while it takes its place the old one."""
BUNDLE_FILE = re.compile(r"contract\.json|policy(_[\w-]+)?\.(onnx|c|h)|golden(_[\w-]+)?\.npz")


def bundle_files(contract: Contract) -> dict[str, dict[str, str]]:
    """By group, the file names of its "onnx", "c", "h" and "golden"."""
    groups = list(contract.groups)
    out = {}
    for group in groups:
        suffix = f"_{group}" if len(groups) > 1 else ""
        out[group] = {kind: f"policy{suffix}.{kind}" for kind in ("onnx", "c", "h")}
        out[group]["golden"] = f"golden{suffix}.npz"
    return out


def export_bundle(
    policies: Mapping[str, Policy], contract: Contract, folder: Path | str, prefix: str = "rookery"
) -> Path:
    """Write the bundle of a run.

    The folder appears complete or not at all, also after a power cut; an older bundle in its place is replaced. A power cut at
    that very moment leaves one of both, perhaps in a hidden folder beside it.

    Args:
        policies: by group, `rookery.policies.policy.Policy`.
        contract: their contract; stages that are still null are filled in from the policies.
        folder: where to; new, empty, or an older bundle.
        prefix: beginning of the C names; with several groups the group's name follows it.

    Returns:
        The folder.

    Raises:
        RookeryError: when policies and contract disagree, the policy has numbers that are not finite, the folder holds
            other files, or the disk refuses.
    """
    contract = with_stages(contract, policies)
    with _new_folder(Path(folder)) as inside:
        contract.write(inside / "contract.json")
        for group, files in bundle_files(contract).items():
            policy = policies[group]
            names = f"{prefix}_{group.replace('-', '_')}" if len(policies) > 1 else prefix
            code, header = c_source(contract, group, policy_arrays(policy), names, files["h"])
            (inside / files["c"]).write_text(code, encoding="ascii")
            (inside / files["h"]).write_text(header, encoding="ascii")
            write_golden(policy, contract.fingerprint, inside / files["golden"])
            export_onnx(policy, contract, group, inside / files["onnx"])
    return Path(folder)


@contextlib.contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that takes the place of `folder` when the block ends well and all is on the disk, and vanishes when it
    does not."""
    target = folder.resolve()
    _refuse_foreign(target, folder)
    temporary = held = None
    try:
        make_folder(target.parent)
        _remove_stale(target)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        held = os.open(temporary, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        inside = temporary / "new"
        inside.mkdir()
        yield inside
        for path in (*sorted(inside.iterdir()), inside, temporary, target.parent):
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


def _refuse_foreign(target: Path, shown: Path) -> None:
    """Replacing a folder deletes what is in it, so only an empty one or an older bundle may be replaced."""
    if target == Path.cwd():
        raise RookeryError(f"{shown} is the current folder, which cannot be replaced: give --out a folder inside it.")
    if target.is_dir():
        other = sorted(p.name for p in target.iterdir() if not BUNDLE_FILE.fullmatch(p.name))
        if other:
            raise RookeryError(f"{shown} holds files that are no bundle ({other[0]}): give --out a new folder.")
    elif target.exists():
        raise RookeryError(f"{shown} is a file: give --out a new folder.")
