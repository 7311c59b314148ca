import json
import sys
import threading
import time
from itertools import pairwise

import pytest

from workloads.harness.engine import monitor as module
from workloads.harness.engine.monitor import MAX_SAMPLES, Monitor
from workloads.harness.probes.gpu import Gpu, NoGpu


def wait_for(condition, limit_s=60.0):
    end_s = time.perf_counter() + limit_s
    while not condition() and time.perf_counter() < end_s:
        time.sleep(0.005)


class TestSampling:
    def test_columns_of_equal_length_with_plausible_values(self):
        began_s = time.perf_counter()
        with Monitor(Gpu({"gpu_power_w": lambda: 71.5}), interval_s=0.2) as monitor:
            while len(monitor.columns().get("t_s", ())) < 2:  # this process computes all the while
                assert time.perf_counter() < began_s + 60
        took_s = time.perf_counter() - began_s
        columns = monitor.columns()
        assert columns.keys() == {"t_s", "gpu_power_w", *module._BY_PSUTIL}
        assert len({len(column) for column in columns.values()}) == 1
        assert 2 <= len(columns["t_s"]) <= took_s / 0.2
        assert list(columns["t_s"]) == sorted(columns["t_s"])
        assert 0.19 < columns["t_s"][0] < columns["t_s"][-1] < took_s
        assert columns["cpu_percent"][0] > 0  # the reading that is always 0 was not kept
        assert min(columns["rss_bytes"]) > 1e6
        assert set(columns["gpu_power_w"]) == {71.5}
        json.dumps(columns, allow_nan=False)

    def test_a_reading_that_a_gpu_lacks_is_missing_with_its_reason(self):
        with Monitor(NoGpu("the host is the device"), interval_s=0.02) as monitor:
            wait_for(monitor.columns)
        assert "gpu_power_w" not in monitor.columns()
        assert monitor.missing["gpu_power_w"] == "the host is the device"

    def test_time_counts_from_the_origin_that_was_given(self):
        with Monitor(interval_s=0.02, origin_s=time.perf_counter() - 100) as monitor:
            wait_for(monitor.columns)
        assert 100 < monitor.columns()["t_s"][0] < 110

    def test_a_window_shorter_than_an_interval_has_no_samples_and_says_why(self):
        with Monitor(interval_s=5) as monitor:
            pass
        assert monitor.columns() == {}
        assert "shorter than one interval" in monitor.missing["monitor"]


class TestThinning:
    def test_never_more_than_the_limit_and_evenly_spread(self):
        monitor = Monitor(interval_s=1.0)
        t = 0.0
        for _ in range(1000):
            t += monitor._interval_s
            monitor._keep({"t_s": t})
            assert len(monitor.columns()["t_s"]) < MAX_SAMPLES
        times = monitor.columns()["t_s"]
        steps = {late - early for early, late in pairwise(times)}
        assert steps == {monitor._interval_s}
        assert times[-1] == t


class TestFaults:
    def test_an_error_in_the_measured_code_passes_through(self):
        with pytest.raises(ZeroDivisionError), Monitor(interval_s=0.02):
            raise ZeroDivisionError

    def test_a_probe_that_raises_ends_up_in_missing(self):
        class Broken(Gpu):
            def read(self):
                raise OSError("the bus fell off")

        with Monitor(Broken({}), interval_s=0.02) as monitor:
            wait_for(lambda: "monitor" in monitor.missing)
        assert "the bus fell off" in monitor.missing["monitor"]

    def test_a_gap_loses_samples_and_not_the_column(self):
        answers = iter([1.0, 2.0, None, 3.0] + [4.0] * 1000)
        with Monitor(Gpu({"gpu_power_w": lambda: next(answers)}), interval_s=0.01) as monitor:
            wait_for(lambda: len(monitor.columns().get("t_s", ())) >= 8)
        columns = monitor.columns()
        assert columns["gpu_power_w"][:3] == (1.0, 2.0, 3.0)
        assert len({len(column) for column in columns.values()}) == 1
        assert "None" in monitor.missing["gpu_power_w"]

    def test_a_column_that_dies_early_leaves_the_others(self):
        answers = iter([1.0])
        with Monitor(Gpu({"gpu_power_w": lambda: next(answers)}), interval_s=0.01) as monitor:
            wait_for(lambda: len(monitor._rows) >= 6)
        assert "gpu_power_w" not in monitor.columns()
        assert len(monitor.columns()["t_s"]) >= 6

    def test_a_driver_that_hangs_does_not_hang_us(self, monkeypatch):
        monkeypatch.setattr(module, "_STOP_S", 0.05)
        asked, answered = threading.Event(), threading.Event()

        def hang():
            asked.set()
            answered.wait(60)

        with Monitor(Gpu({"gpu_power_w": hang}), interval_s=0.01) as monitor:
            assert asked.wait(60)
        assert "did not answer" in monitor.missing["monitor"]
        assert monitor._thread.is_alive(), "nobody has waited for its answer"
        answered.set()

    def test_without_psutil_the_gpu_is_still_sampled(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "psutil", None)
        with Monitor(Gpu({"gpu_power_w": lambda: 5.0}), interval_s=0.01) as monitor:
            wait_for(monitor.columns)
        assert monitor.columns().keys() == {"t_s", "gpu_power_w"}
        assert "psutil" in monitor.missing["rss_bytes"]


class TestCost:
    def test_is_small_at_the_default_interval(self):
        """0.2 % of a core was measured; a core can be a third as fast."""
        with Monitor() as monitor:
            time.sleep(0.8)
        assert 0 < monitor.cost_share < 0.02

    def test_the_monitor_counts_the_cpu_time_of_its_probes(self):
        def burn():
            end_s = time.thread_time() + 0.02
            while time.thread_time() < end_s:
                pass
            return 1.0

        with Monitor(Gpu({"gpu_power_w": burn}), interval_s=0.05) as monitor:
            time.sleep(0.4)
        assert monitor.cost_share > 0.02
