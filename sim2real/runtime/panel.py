"""The live panel of a flight: what every vehicle does, how punctual the loop is, and what the safety filter did.

A thread draws it. The loop only leaves the newest record of each vehicle, so that a slow or stopped terminal delays nothing,
and a loop that hangs is still shown, with measurements that grow old.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from rookery.sim2real.runtime.loop import ControlLoop
from rookery.sim2real.runtime.pilot import Phase, Pilot, StepRecord
from rookery.sim2real.runtime.screen import BOLD, PLAIN, RED, Screen

Line = tuple[str, str]
PERIOD_S = 0.2  # s, between two pictures
WINDOW_S = 2.0  # s, over which jitter and what the filter limits are told
LINES_S = 5.0  # s, between two lines of each vehicle where there is no terminal
HEAD = f"{'vehicle':26} {'phase':9} {'for':>8} {'age':>8} {'battery':>8} {'error':>10}"


class FlightPanel:
    """See the module; a context manager. Without a screen it says a plain line of each vehicle every LINES_S.

    Args:
        pilots: whose flights are shown.
        screen: that it draws on; None for plain lines.
        say: of plain lines.
        operator: lines about commands and keys.
    """

    def __init__(
        self, pilots: Sequence[Pilot], screen: Screen | None, say: Callable[[str], None],
        operator: Callable[[], Iterable[str]] = lambda: (),
    ) -> None:  # fmt: skip
        self.loop: ControlLoop | None = None
        self._pilots = list(pilots)
        self._screen = screen
        self._say = say
        self._operator = operator
        self._steps = max(1, round(WINDOW_S / self._pilots[0].controller.control_dt))
        self._newest: list[StepRecord | None] = [None] * len(self._pilots)
        self._limited: list[deque[tuple[int, ...]]] = [deque(maxlen=self._steps) for _ in self._pilots]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rookery-panel", daemon=True)

    def seen(self, i: int, record: StepRecord) -> None:
        """Take a step of a vehicle; called by the loop."""
        self._newest[i] = record
        if record.phase is Phase.POLICY:
            self._limited[i].append(record.limited)

    # -- pictures ----------------------------------------------------------------------------------------------

    def lines(self) -> list[Line]:
        """The panel now."""
        out = [(self._timing(), PLAIN), (HEAD, BOLD)]
        for i in range(len(self._pilots)):
            style = RED if self._pilots[i].fault is not None else PLAIN
            out += [(self._row(i), style), (f"  {self._remark(i)}", style)]
        return out + [(line, PLAIN) for line in self._operator()]

    def _timing(self) -> str:
        rate = 1.0 / self._pilots[0].controller.control_dt
        if self.loop is None or not self.loop.steps:
            return f"{rate:g} Hz"
        recent = self.loop.timing(self._steps)
        late, most, _ = recent.jitter_ms
        return (
            f"{self.loop.steps / rate:.1f} s  {rate:g} Hz  jitter {late:.2f} ms (99 %: {most:.2f})  "
            f"step {recent.cycle_us[0]:.0f} us  missed {self.loop.missed:,}"
        )

    def _row(self, i: int) -> str:
        pilot, record = self._pilots[i], self._newest[i]
        age = battery = error = "-"
        if record is not None and record.reading is not None:
            age = f"{1e3 * max(0.0, pilot.clock.now() - record.reading.received):.0f} ms"
            battery = battery if record.reading.battery is None else f"{100 * record.reading.battery:.0f} %"
        if record is not None and math.isfinite(record.distance):
            error = f"{record.distance:.2f} m"
        elif record is not None and math.isfinite(record.velocity_error):
            error = f"{record.velocity_error:.2f} m/s"
        url = pilot.link.url
        url = url if len(url) <= 26 else f"{url[:12]}..{url[-12:]}"
        return f"{url:26} {pilot.phase.value:9} {pilot.phase_s:6.1f} s {age:>8} {battery:>8} {error:>10}"

    def _remark(self, i: int) -> str:
        """The fault, or what the filter limits, or the vehicle's own mode."""
        pilot, record = self._pilots[i], self._newest[i]
        if pilot.fault is not None:
            return f"{pilot.fault}: {pilot.settings.reactions[pilot.fault.name]}"
        limited = tuple(self._limited[i])  # a copy at once: the loop goes on
        if pilot.phase is Phase.POLICY and any(limited):
            names = pilot.controller.spec.spec.action.names
            first = pilot.controller.spec.spec.action.size - len(names)  # options that are chosen come first
            counts = Counter(k for step in limited for k in step)
            words = [
                f"{names[k - first] if k >= first else f'choice {k}'} {100 * n / len(limited):.0f} %"
                for k, n in counts.most_common()
            ]
            return f"limited: {', '.join(words)}"
        mode = "" if record is None or record.reading is None else record.reading.mode
        return f"mode {mode}" if mode else ""

    # -- its thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._over.wait(PERIOD_S if self._screen is not None else LINES_S):
            if self._screen is not None:
                self._screen.draw(self.lines())
                continue
            for i in range(len(self._pilots)):
                if not self._pilots[i].done:
                    row = " ".join(f"{self._row(i)} {self._remark(i)}".split())
                    self._say(f"{row}; {self._timing()}")

    def __enter__(self) -> FlightPanel:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._over.set()
        self._thread.join(1.0)
        if self._screen is not None and not self._thread.is_alive():  # it waits for a terminal that was stopped
            self._screen.draw(self.lines())
            self._screen.close()
