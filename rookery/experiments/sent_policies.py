"""Policies as bytes, for machines that do not see their folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.experiments.runs import find_run, open_run
from rookery.policies.training.store import save_policy
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.policies.policy import Policy
    from rookery.sim2real.contract import Contract

__all__ = ["SentPolicies"]

MOST_BYTES = 50_000_000
"""Of the policies of one contract; those of this package's presets have less than a hundredth."""


@dataclass(frozen=True)
class SentPolicies:
    """The files of policies and their contract, which go along with a task.

    Args:
        files: by name.
    """

    files: Mapping[str, bytes]

    @classmethod
    def of(cls, policies: Mapping[str, Policy], contract: Contract) -> SentPolicies:
        """Policies in memory, by group.

        Raises:
            RookeryError: they have more than MOST_BYTES.
        """
        with tempfile.TemporaryDirectory(prefix="rookery-policies-") as folder:
            save_policy(folder, dict(policies), contract.to_json())
            return cls.of_run(Path(folder))

    @classmethod
    def of_run(cls, run: Path) -> SentPolicies:
        """Those of a run or zoo folder, or of a name in the zoo.

        Raises:
            RookeryError: as `find_run`; or they have more than MOST_BYTES.
        """
        folder = find_run(run)
        found = [folder / "contract.json", *sorted(folder.glob("policy*.safetensors"))]
        size = sum(file.stat().st_size for file in found)
        if size > MOST_BYTES:
            raise RookeryError(
                f"the policy has {size / 1e6:.0f} MB, and --ray sends {MOST_BYTES / 1e6:.0f} MB at most to other processes: "
                "leave out --ray."
            )
        return cls({file.name: file.read_bytes() for file in found})

    def write(self, folder: Path) -> None:
        """Write the files into a folder, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            (folder / name).write_bytes(data)

    def open(self) -> tuple[dict[str, Policy], Contract]:
        """The policies by group, and their contract.

        Raises:
            RookeryError: as `open_run`.
        """
        with tempfile.TemporaryDirectory(prefix="rookery-policies-") as folder:
            self.write(Path(folder))
            return open_run(Path(folder))
