import os
import resource
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.workloads.harness.repeat.limited import ROOT
from workloads.harness.probes.memory import total_bytes
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.repeat.local_limits import asked_gpus, gpus_here, host_bytes, limits_here


class TestHere:
    def test_this_machine_has_plausible_limits(self):
        limits = limits_here("a-box", "cpu", 1)
        assert limits.memory_bytes == host_bytes() <= total_bytes()
        assert 1e9 < limits.peak_flops["fp32"] < 1e15
        assert limits_here("a-box", "cpu", 2).peak_flops["fp32"] == 2 * limits.peak_flops["fp32"]
        assert limits.processes >= limits_here("a-box", "cpu", 2).processes >= 1

    def test_a_measured_rate_stays_below_the_assumed_peak(self):
        import torch

        torch.set_num_threads(1)
        from workloads.harness.engine.clock import HostClock

        a = torch.randn(1000, 1000)
        rate = 2e9 / min(HostClock().time(lambda: a @ a, 1).wall_s for _ in range(5))
        assert rate < limits_here("a-box", "cpu", 1).peak_flops["fp32"]

    def test_a_process_of_a_limit_of_its_own(self):
        script = (
            "import resource; from workloads.harness.repeat.local_limits import host_bytes\n"
            f"resource.setrlimit(resource.RLIMIT_DATA, ({10**9}, resource.RLIM_INFINITY)); print(host_bytes())"
        )
        assert int(subprocess.check_output([sys.executable, "-c", script], cwd=ROOT)) == 10**9
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] in (resource.RLIM_INFINITY, host_bytes())

    def test_a_cgroup_and_a_machine(self, tmp_path):
        (tmp_path / "proc").mkdir()
        assert total_bytes(tmp_path) is None
        assert host_bytes(tmp_path) is None
        (tmp_path / "proc/meminfo").write_text("MemTotal:       16000000 kB\n")
        assert total_bytes(tmp_path) == 16_000_000 * 1024
        (tmp_path / "proc/self").mkdir()
        (tmp_path / "proc/self/cgroup").write_text("0::/box\n")
        box = tmp_path / "sys/fs/cgroup/box"
        box.mkdir(parents=True)
        (box / "memory.current").write_text("3000000000\n")
        for limit, total in (("max", 16_000_000 * 1024), ("8000000000", 8_000_000_000)):
            (box / "memory.max").write_text(f"{limit}\n")
            assert total_bytes(tmp_path) == total  # memory in use now can be free later

    @pytest.mark.parametrize(
        ("sizes", "visible", "found"),
        [
            ([24], None, (24, 1)),
            ([24, 80], None, (80, 2)),
            ([24, 80], "1", (80, 1)),
            ([24, 80], "0,1,2", (80, 2)),
            ([24], "", (24, None)),
            ([], None, (None, None)),
        ],
    )
    def test_limits_are_those_of_the_smallest_visible_gpu(self, sizes, visible, found):
        nvml = SimpleNamespace(
            nvmlInit=lambda: None,
            nvmlShutdown=lambda: None,
            nvmlDeviceGetCount=lambda: len(sizes),
            nvmlDeviceGetHandleByIndex=lambda place: place,
            nvmlDeviceGetMemoryInfo=lambda place: SimpleNamespace(total=sizes[place]),
        )
        assert gpus_here(nvml, {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}) == found

    @pytest.mark.parametrize(
        ("init", "words"),
        [("time.sleep(3600)", "does not answer within 2 s"), ("os.kill(os.getpid(), 11)", "by signal 11")],
    )
    def test_a_driver_that_hangs_or_kills_its_caller_is_one_sentence(
        self, init, words, tmp_path, monkeypatch
    ):
        library = f"import os, time\nclass NVMLError(Exception): pass\ndef nvmlInit(): {init}\n"
        (tmp_path / "pynvml.py").write_text(library)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        asked_gpus.cache_clear()
        with pytest.raises(WorkloadsError, match=words):
            asked_gpus(2.0)

    def test_a_driver_that_answers_is_asked_in_a_process_of_its_own(self, tmp_path, monkeypatch):
        library = (
            "import os\ndef nvmlInit(): open(os.environ['ASKED'], 'w').write(str(os.getpid()))\n"
            "def nvmlShutdown(): pass\ndef nvmlDeviceGetCount(): return 1\n"
            "def nvmlDeviceGetHandleByIndex(n): return n\n"
            "class Memory: total = 80\ndef nvmlDeviceGetMemoryInfo(h): return Memory\n"
        )
        (tmp_path / "pynvml.py").write_text(library)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        asked_gpus.cache_clear()
        assert limits_here("a-box", "cuda").memory_bytes == 80
        assert int((tmp_path / "asked").read_text()) != os.getpid()
        asked_gpus.cache_clear()

    def test_a_driver_that_breaks_off_says_nothing(self):
        def fail(*arguments):
            raise OSError("Driver/library version mismatch")

        assert gpus_here(SimpleNamespace(nvmlInit=fail), {}) == (None, None)
        nvml = SimpleNamespace(nvmlInit=lambda: None, nvmlDeviceGetCount=fail)
        assert gpus_here(nvml, {}) == (None, None)
