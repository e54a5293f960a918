"""Parquet files that somebody else may have made, read in a child process: what is damaged can abort Arrow's C++ reader."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from rookery.sim.limited import run_limited
from rookery.sim.untrusted import ARRAY_BYTES, Damaged

SECONDS = 60
"""s, of the clock and of the processor, for a file."""
MEMORY = 3 << 30
"""Bytes of the child's address space, of which Arrow reserves 1 GiB without using it."""

_READ = """
import sys
import pyarrow as pa
import pyarrow.parquet as pq
try:
    table = pq.read_table(sys.argv[1], use_threads=False)
    table.column_names, str(table.schema)  # read only now, also those of columns within columns: they may be no text
    table.validate(full=True)
    with pa.OSFile(sys.argv[2], "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
except (OSError, MemoryError, UnicodeError, pa.ArrowException) as error:
    print((str(error).splitlines() or ["damaged"])[0][:200])
    sys.exit(1)
"""


def read_parquet(path: Path) -> Any:
    """A Parquet file as a pyarrow.Table.

    Raises:
        Damaged: it is missing, cannot be read, or unpacks to more than ARRAY_BYTES.
    """
    pa = importlib.import_module("pyarrow")
    with tempfile.TemporaryDirectory(prefix="rookery-parquet-") as folder:
        out = Path(folder) / "table.arrow"
        command = [sys.executable, "-P", "-c", _READ, str(path.resolve()), str(out)]
        done = run_limited(command, Path(folder), SECONDS, MEMORY, ARRAY_BYTES)
        if done.status != 0:
            said = done.output.splitlines() if done.status == 1 else []
            raise Damaged(said[0] if said else done.reason)
        try:
            return pa.ipc.open_file(pa.BufferReader(out.read_bytes())).read_all()
        except (OSError, pa.ArrowException) as error:
            raise Damaged("it holds no table") from error
