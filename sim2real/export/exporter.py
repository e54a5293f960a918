"""The interface of an exporter: the part of `rookery export` that writes the files of one format or for one target.

    class Torque(Exporter):
        \"\"\"Torque limits as CSV.\"\"\"

        name = "torque"
        includes = ("bundle",)
        files = ("limits{group}.csv",)

        def check(self, export): ...           # refuses with a sentence, before anything is written
        def write(self, export, folder): ...   # writes its files

An export takes the exporter that it is asked for and those that this one includes (see exporters.py), lets all check, and lets
all write into a folder that appears complete or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Contract

if TYPE_CHECKING:
    from rookery.policies.policy import Policy

__all__ = [
    "CONTRACT",
    "CPP_HEADER",
    "C_FILE",
    "GOLDEN",
    "HEADER",
    "ONNX",
    "README",
    "Export",
    "Exporter",
    "TargetGuide",
    "file_name",
    "is_file_of",
]

CONTRACT, README = "contract.json", "README.md"
ONNX, C_FILE, HEADER, CPP_HEADER, GOLDEN = (
    "policy{group}.onnx",
    "policy{group}.c",
    "policy{group}.h",
    "policy{group}.hpp",
    "golden{group}.npz",
)


@dataclass(frozen=True)
class TargetGuide:
    """Words of an export's README on what a target adds to the bundle.

    Args:
        place: its folder, such as "linux/", or its file.
        what: it is, a clause.
        commands: that build and run or flash it, from the export's folder, a line each.
        note: on running it, sentences.
        tried: what it was tried against, and what it was not tried on, as docs/hardware_tried.md has it.
    """

    place: str
    what: str
    commands: tuple[str, ...]
    note: str
    tried: tuple[str, str]


@dataclass(frozen=True)
class Export:
    """Input of exporters.

    Args:
        policies: by agent group.
        contract: of all of them, valid, with their stages.
        prefix: beginning of the C names.
        exporters: that write it.
    """

    policies: Mapping[str, Policy]
    contract: Contract
    prefix: str = "rookery"
    exporters: tuple[Exporter, ...] = ()

    def parts(self, folder: Path, *files: str) -> Iterator[tuple[str, Policy, list[Path]]]:
        """Each agent group with its policy and the paths of its files.

        Args:
            folder: of the export.
            files: of `Exporter.files`.
        """
        for group, policy in self.policies.items():
            yield group, policy, [folder / file_name(file, self.contract, group) for file in files]

    def c_prefix(self, group: str) -> str:
        """Beginning of the C names of a group."""
        return f"{self.prefix}_{group.replace('-', '_')}" if len(self.policies) > 1 else self.prefix


class Exporter:
    """Base of all exporters. Its docstring's first line says what it writes.

    Attributes:
        name: on the command line, as `rookery export RUN --target NAME`.
        includes: names of the exporters whose files stand beside its own; they write first.
        files: paths of its files in the export's folder. "{group}" is "_NAME" for each agent group where there are several, and
            nothing for a single one. A folder may be replaced by an export only where it holds no others.
    """

    name: ClassVar[str]
    includes: ClassVar[tuple[str, ...]] = ("contract",)
    files: ClassVar[tuple[str, ...]] = ()

    def check(self, export: Export) -> None:
        """Refuse what cannot be written; nothing has been yet.

        Raises:
            RookeryError: one sentence, with the way out.
        """

    def guide(self, export: Export) -> TargetGuide | None:
        """Words for the README that stands beside its files; None where there are none to add."""
        return None

    def write(self, export: Export, folder: Path) -> None:
        """Write `files`; their folders exist.

        Args:
            export: what `check` accepted.
            folder: the files of the exporters that it includes are there.
        """
        raise RookeryError(f"the exporter {self.name!r} has no write(): write it into {type(self).__name__}.")


def file_name(file: str, contract: Contract, group: str) -> str:
    """A file of `Exporter.files` for one agent group."""
    return file.replace("{group}", f"_{group}" if len(contract.groups) > 1 else "")


def is_file_of(file: str, path: str) -> bool:
    """True where a path in a folder may be a file of `Exporter.files`, of whatever group."""
    pattern = re.escape(file).replace(re.escape("{group}"), r"(_[\w-]+)?")
    return re.fullmatch(pattern, path) is not None
