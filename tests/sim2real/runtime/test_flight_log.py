"""Flight logs on a disk that is full: the flight goes on, and a sentence says that the log ends early."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rookery.sim2real.runtime.flight_log import FlightLog
from rookery.sim2real.runtime.pilot import Phase, StepRecord
from rookery.sim2real.runtime.reading import Reading

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
@pytest.mark.parametrize("steps", [1, 3000])
def test_a_full_disk_ends_the_log_and_not_the_flight(steps: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Few steps are written at the end, many on the way."""
    with FlightLog(FULL, {}) as log:
        for k in range(steps):
            reading = Reading(0.01 * k, 0.01 * k, {"position": np.float32([k, 0.0, 0.0])})
            log.write(0, StepRecord(0.01 * k, Phase.POLICY, reading, np.zeros(4, np.float32)))
    assert "No space left on device" in log.error
    assert log.error.count("\n") == 0
    assert capfd.readouterr() == ("", "")
