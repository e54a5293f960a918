"""Makes the helpers beside these tests importable, and robots' files in any size."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "robots" / "own"))  # own_files
