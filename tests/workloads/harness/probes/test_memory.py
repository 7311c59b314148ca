import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.harness.probes import memory

MIB = 2**20
V2 = {"proc/self/cgroup": "0::/pod/box\n"}
V1 = {"proc/self/cgroup": "7:memory:/docker/abc\n"}
BOX, POD = "sys/fs/cgroup/pod/box/", "sys/fs/cgroup/pod/"
OLD = "sys/fs/cgroup/memory/docker/abc/"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "left_mib"),
    [
        ({}, 1000),
        ({**V2, BOX + "memory.max": "max\n", BOX + "memory.current": "5"}, 1000),
        ({**V2, BOX + "memory.max": str(500 * MIB), BOX + "memory.current": str(200 * MIB)}, 300),
        (
            {
                **V2,
                BOX + "memory.max": str(500 * MIB),
                BOX + "memory.current": str(200 * MIB),
                BOX + "memory.stat": f"anon 5\ninactive_file {50 * MIB}\n",
            },
            350,
        ),
        (
            {
                **V2,
                BOX + "memory.max": "max\n",
                POD + "memory.max": str(400 * MIB),
                POD + "memory.current": str(390 * MIB),
            },
            10,
        ),
        ({**V2, BOX + "memory.high": str(300 * MIB), BOX + "memory.current": str(200 * MIB)}, 100),
        ({**V2, BOX + "memory.max": str(100 * MIB), BOX + "memory.current": str(200 * MIB)}, 0),
        ({**V2, BOX + "memory.max": str(9000 * MIB), BOX + "memory.current": str(200 * MIB)}, 1000),
        (
            {
                **V1,
                OLD + "memory.limit_in_bytes": str(500 * MIB),
                OLD + "memory.usage_in_bytes": str(200 * MIB),
                OLD + "memory.stat": f"inactive_file 1\ntotal_inactive_file {100 * MIB}\n",
            },
            400,
        ),
        (
            {**V1, OLD + "memory.limit_in_bytes": "9223372036854771712", OLD + "memory.usage_in_bytes": "5"},
            1000,
        ),
    ],
)
def test_available_is_the_least_of_machine_and_cgroups(tmp_path, files, left_mib):
    assert memory.available_bytes(write(tmp_path, files), host=lambda: 1000 * MIB) == left_mib * MIB


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({}, None),
        ({"proc/vmstat": "pgfault 5\noom_kill 3\n"}, 3),
        ({**V2, BOX + "memory.events": "oom 4\noom_kill 2\n", "proc/vmstat": "oom_kill 9\n"}, 2),
        ({**V2, POD + "memory.events": "oom_kill 1\n"}, 1),
        ({**V1, OLD + "memory.oom_control": "under_oom 0\noom_kill 7\n"}, 7),
        ({**V1, OLD + "memory.oom_control": "under_oom 0\n", "proc/vmstat": "oom_kill 9\n"}, 9),
        ({"proc/vmstat": "oom_kill many\n"}, None),
    ],
)
def test_oom_kills_of_a_cgroup_are_read(tmp_path, files, kills):
    assert memory.oom_kills(write(tmp_path, files)) == kills


def test_a_bare_machine_gives_reasons(tmp_path):
    values, missing = memory.readings(tmp_path, host=lambda: None)
    assert values.keys() == {"peak_rss_bytes"}
    assert "psutil" in missing["available_bytes"]
    assert "oom_kill" in missing["oom_kills"]


def test_without_psutil_the_host_is_unknown(monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert memory.host_available_bytes() is None


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_peak_without_proc_is_the_kernels_in_its_own_unit(tmp_path, monkeypatch, platform, unit):
    monkeypatch.setattr(sys, "platform", platform)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert memory.peak_rss_bytes(tmp_path) >= used * unit


def test_the_peak_memory_is_read_from_proc(tmp_path):
    assert (
        memory.peak_rss_bytes(write(tmp_path, {"proc/self/status": "Name: x\nVmHWM:\t  10892 kB\n"}))
        == 10892 * 1024
    )


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_a_childs_peak_is_not_its_parents():
    ballast = bytearray(150 * MIB)
    ballast[::4096] = b"x" * len(ballast[::4096])
    ask = "from workloads.harness.probes.memory import peak_rss_bytes as p; print(p())"
    answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True, text=True)
    assert 5 * MIB < int(answer.stdout) < 100 * MIB
    assert memory.peak_rss_bytes() > 150 * MIB
    del ballast


def test_memory_readings_of_this_machine_are_complete():
    values, missing = memory.readings()
    assert values["available_bytes"] > 0
    assert values["peak_rss_bytes"] > MIB
    assert not values.keys() & missing.keys()


@settings(max_examples=40, deadline=None)
@given(text=st.text(max_size=100))
def test_odd_content_never_raises(tmp_path_factory, text):
    names = ["memory.max", "memory.current", "memory.stat", "memory.events", "memory.high"]
    root = write(tmp_path_factory.mktemp("odd"), dict(V2))
    for name in [*(BOX + name for name in names), "proc/vmstat", "proc/self/status"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    values, _ = memory.readings(root, host=lambda: 5)
    assert 0 <= values["available_bytes"] <= 5
