"""A thread that ends a script which hangs, or whose steps cannot be observed."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass

from workloads.harness.script.measurement import Measurement
from workloads.harness.script.outcome import Ending

LOOK_S = 0.5
MARGIN_SHARE, LEAST_MARGIN_S = 0.05, 2.0  # of the timeout: the sentence is said before it is up
BACKWARDS, BACKWARDS_S, BRIEFLY_S = 50, 20.0, 1.0  # without a step of an optimizer: there will be none


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Limits of a script's time: seconds in all, and those with backward calls and no step."""

    timeout_s: float
    backwards_s: float = BACKWARDS_S

    def watch(self, measurement: Measurement) -> None:
        """Watch a measurement from a thread of its own."""
        threading.Thread(target=self._run, args=(measurement,), name="watchdog", daemon=True).start()

    def _run(self, measurement: Measurement) -> None:
        margin_s = max(MARGIN_SHARE * self.timeout_s, LEAST_MARGIN_S)
        ends_s = max(self.timeout_s - margin_s, self.timeout_s / 2)
        pause = threading.Event()
        while not pause.wait(LOOK_S):
            observed = measurement.observed
            if measurement.wall_s() > ends_s:
                late = "" if measurement.times.sampled else self._late(measurement)
                measurement.end_now(Ending("stopped", after=late))
            first_s = observed.first_backward_s
            if (
                first_s is not None
                and measurement.counted in ("", "forward")
                and observed.backwards >= BACKWARDS
                and observed.now_s() - first_s > self.backwards_s
            ):
                measurement.end_now(Ending("stopped"))

    def _late(self, measurement: Measurement) -> str:
        steps = len(measurement.observed.ends_s)
        where = f"in step {steps + 1}" if steps else "before its first step"
        return f"not measured within {self.timeout_s:g} s: the script was {where}{_line()}"


def _line() -> str:
    """Say where the main thread is; nothing if that can't be known."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    lines = []
    while frame is not None:
        if frame.f_globals.get("__name__") == "__main__":
            lines.append(f", at line {frame.f_lineno} of {frame.f_code.co_filename}")
        frame = frame.f_back
    return lines[0] if lines else ""
