"""The page of all randomized factors says what the tasks say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "docs" / "site" / "factors.py"


def test_the_table_of_factors_is_that_of_the_tasks():
    spec = importlib.util.spec_from_file_location("factors", SOURCE)
    assert spec is not None and spec.loader is not None
    factors = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(factors)
    written = factors.PAGE.read_text()
    assert written == factors.page(written), "run python docs/site/factors.py and look at the difference"
