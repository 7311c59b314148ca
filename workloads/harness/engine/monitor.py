"""Background samples of CPU, memory and GPU during a measurement."""

import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any

from workloads.harness.probes.gpu import Gpu

MAX_SAMPLES = 300
_BY_PSUTIL = ("cpu_percent", "rss_bytes", "host_cpu_percent", "host_memory_used_bytes")
_STOP_S = 2.0  # a driver that hangs must not hang the measurement with it


class Monitor:
    """A thread that samples CPU, memory and GPU, at most 300 times, and never raises into the measurement.

    Attributes:
        missing: column name to the reason why it is absent or has gaps.
    """

    def __init__(
        self, gpu: Gpu | None = None, interval_s: float = 0.25, origin_s: float | None = None
    ) -> None:
        """`t_s` counts from `origin_s`, a reading of `time.perf_counter`; by default from entering."""
        self.missing: dict[str, str] = {}
        self._gpu = gpu
        self._interval_s = interval_s
        self._origin_s = origin_s
        self._rows: list[dict[str, float]] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._process: Any = None
        self._psutil: Any = None
        self._poked = threading.Event()
        self._started_s = self._ended_s = 0.0
        self._own_cpu_s = 0.0

    def __enter__(self) -> "Monitor":
        self._started_s = time.perf_counter()
        if self._origin_s is None:
            self._origin_s = self._started_s
        try:
            import psutil

            self._process = psutil.Process()
            self._psutil = psutil
            self._process.cpu_percent()  # the first reading is always 0: it only starts the count
        except Exception as error:
            self.missing |= dict.fromkeys(_BY_PSUTIL, f"psutil: {error}")
        try:
            self._thread.start()
        except RuntimeError as error:
            self.missing["monitor"] = f"the monitor's thread can't start: {error}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._poked.set()
        with suppress(RuntimeError):  # the thread never started
            self._thread.join(_STOP_S)
        self._ended_s = time.perf_counter()
        if self._thread.is_alive():
            self.missing["monitor"] = f"a probe did not answer within {_STOP_S:.0f} s"
        elif not self._rows:
            wall_s = self._ended_s - self._started_s
            why = f"a window of {wall_s:.3g} s is shorter than one interval of {self._interval_s:.3g} s"
            self.missing.setdefault("monitor", why)

    @property
    def cost_share(self) -> float:
        asked_cpu_s = self._gpu.cpu_s if self._gpu else 0.0
        return (self._own_cpu_s + asked_cpu_s) / max(
            (self._ended_s or time.perf_counter()) - self._started_s, 1e-9
        )

    def watch(self, gpu: Gpu) -> None:
        with self._lock:
            self._gpu = gpu
            self._rows.clear()

    def poke(self) -> None:
        self._poked.set()

    def columns(self) -> dict[str, tuple[float, ...]]:
        """Return the samples as equal columns: `t_s` in seconds, `cpu_percent` of one core.

        `host_…` columns are in percent of all CPUs. Columns that most samples have are kept; samples that
        lack one of them are left out.
        """
        with self._lock:
            rows = list(self._rows)
        counts: dict[str, int] = {}
        for row in rows:
            for name in row:
                counts[name] = counts.get(name, 0) + 1
        names = [name for name, count in counts.items() if 2 * count > len(rows)]
        whole = [row for row in rows if all(name in row for name in names)]
        return {name: tuple(row[name] for row in whole) for name in names} if whole else {}

    def _run(self) -> None:
        if self._psutil is not None:
            self._psutil.cpu_percent()  # as above; the machine's is counted for each thread that asks
        due_s = time.perf_counter() + self._interval_s
        while not self._stop.is_set():
            self._poked.wait(max(due_s - time.perf_counter(), 0.0))
            if self._stop.is_set():
                break
            self._poked.clear()
            try:
                self._keep(self._sample())
            except Exception as error:
                self.missing["monitor"] = f"{type(error).__name__}: {error}"
            self._own_cpu_s = time.thread_time()
            due_s += self._interval_s
            if due_s < time.perf_counter():  # never two samples in a burst: CPU percent needs its interval
                due_s = time.perf_counter() + self._interval_s

    def _sample(self) -> dict[str, float]:
        row = {"t_s": time.perf_counter() - (self._origin_s or 0.0)}
        if self._process is not None:
            try:
                with self._process.oneshot():
                    row["cpu_percent"] = float(self._process.cpu_percent())
                    row["rss_bytes"] = float(self._process.memory_info().rss)
                row["host_cpu_percent"] = float(self._psutil.cpu_percent())
                row["host_memory_used_bytes"] = float(self._psutil.virtual_memory().used)
            except Exception as error:
                self.missing |= dict.fromkeys(_BY_PSUTIL, f"psutil: {error}")
        if self._gpu is not None:
            values, missing = self._gpu.read()
            row |= values
            self.missing |= missing
        return row

    def _keep(self, row: dict[str, float]) -> None:
        """Add a sample; at the limit drop every second one, and sample half as often."""
        with self._lock:
            self._rows.append(row)
            if len(self._rows) >= MAX_SAMPLES:
                self._rows = self._rows[1::2]
                self._interval_s *= 2
