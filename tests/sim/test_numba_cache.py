"""Numba's cache forgets what was compiled from sources that have changed."""

from __future__ import annotations

import os

from rookery.sim.numba_cache import forget_stale


def test_what_is_older_than_any_source_goes_and_the_rest_stays(tmp_path):
    folder = tmp_path / "here"
    other = tmp_path / "there"
    for place in (folder, other):
        (place / "__pycache__").mkdir(parents=True)
        for name, time in (("old.nbi", 100), ("new.nbi", 300), ("old.nbc", 100), ("old.pyc", 100)):
            (place / "__pycache__" / name).touch()
            os.utime(place / "__pycache__" / name, (time, time))
        (place / "module.py").touch()
    os.utime(folder / "module.py", (50, 50))
    os.utime(other / "module.py", (200, 200))

    def left(place):
        return sorted(f.name for f in (place / "__pycache__").iterdir())

    forget_stale(folder)
    assert left(folder) == ["new.nbi", "old.nbc", "old.nbi", "old.pyc"]
    forget_stale(folder, other)  # the code there is called from here
    assert left(folder) == ["new.nbi", "old.nbc", "old.pyc"]
    assert "old.nbi" in left(other)
    os.utime(folder / "module.py", (400, 400))
    forget_stale(folder)
    assert left(folder) == ["old.nbc", "old.pyc"]


def test_a_folder_without_a_cache_is_no_error(tmp_path):
    forget_stale(tmp_path)
    forget_stale(tmp_path / "missing", tmp_path)
    assert list(tmp_path.iterdir()) == []
