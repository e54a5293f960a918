"""Keep Numba from running code that it compiled from sources which have changed since."""

from __future__ import annotations

from pathlib import Path


def forget_stale(folder: Path, *sources: Path) -> None:
    """Remove what Numba has kept in a folder's cache and is older than any module there or in the folders `sources`.

    Numba looks at the file of the cached function alone, and not at those of the functions that it calls: after an edit or an
    update of one of these it would go on with the old code.
    """
    files = [f for place in (folder, *sources) for f in place.glob("*.py")]
    newest = max((f.stat().st_mtime for f in files), default=0.0)
    for index in (folder / "__pycache__").glob("*.nbi"):
        try:
            if index.stat().st_mtime < newest:
                index.unlink()
        except OSError:
            pass  # another process was faster, or the folder is not ours to write: Numba then keeps its cache elsewhere
