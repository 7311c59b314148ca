import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.harness.probes import cpu

HZ = os.sysconf("SC_CLK_TCK")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def stat(user=0.0, system=0.0, idle=0.0, iowait=0.0, steal=0.0, cpus=4):
    ticks = [round(s * HZ) for s in (user, 0, system, idle, iowait, 0, 0, steal, 0, 0)]
    return "\n".join(
        ["cpu  " + " ".join(map(str, ticks)), *(f"cpu{i} 1 2 3" for i in range(cpus)), "intr 5", "btime 7"]
    )


def window(before, after, wall_s=10.0):
    late = cpu.CpuCounters(before.at_s + wall_s, after.totals, after.missing)
    return cpu.delta(before, late)


class TestShares:
    def test_steal_and_foreign_load_over_ten_seconds_of_four_cpus(self, tmp_path):
        write(tmp_path, {"proc/stat": stat(user=100, idle=100)})
        before = cpu.counters(tmp_path, own_s=lambda: 50.0)
        # 40 CPU seconds pass: 22 busy, of which 10 are ours; 2 stolen; the rest idle and waiting for disks
        write(tmp_path, {"proc/stat": stat(user=120, system=2, idle=114, iowait=2, steal=2)})
        values, missing = window(before, cpu.counters(tmp_path, own_s=lambda: 60.0))
        assert values["steal_share"] == pytest.approx(2 / 40)
        assert values["foreign_load_share"] == pytest.approx(12 / 40)
        assert values["foreign_cores"] == pytest.approx(1.2)
        assert values["idle_cpus"] == pytest.approx(4 - 2.2)
        assert not {"steal_share", "foreign_load_share", "foreign_cores"} & missing.keys()

    def test_own_time_beyond_the_ticks_is_no_negative_load(self, tmp_path):
        write(tmp_path, {"proc/stat": stat(user=10)})
        before = cpu.counters(tmp_path, own_s=lambda: 0.0)
        write(tmp_path, {"proc/stat": stat(user=12)})
        values, _ = window(before, cpu.counters(tmp_path, own_s=lambda: 2.02))
        assert values["foreign_load_share"] == 0

    def test_a_window_shorter_than_the_ticks_allow_is_null_with_a_reason(self, tmp_path):
        write(tmp_path, {"proc/stat": stat(user=10)})
        before = cpu.counters(tmp_path)
        values, missing = window(before, cpu.counters(tmp_path), wall_s=0.1)
        assert "steal_share" not in values
        assert "too short" in missing["steal_share"]
        assert "too short" in missing["foreign_load_share"]

    def test_a_counter_that_goes_backwards_is_null_with_a_reason(self, tmp_path):
        write(tmp_path, {"proc/stat": stat(user=10, idle=10, steal=5)})
        before = cpu.counters(tmp_path)
        write(tmp_path, {"proc/stat": stat(user=10, idle=30, steal=4)})
        values, missing = window(before, cpu.counters(tmp_path))
        assert "steal_share" not in values
        assert "backwards" in missing["steal_share"]

    def test_pressure_is_a_share_of_the_wall(self, tmp_path):
        write(tmp_path, {"proc/pressure/cpu": "some avg10=1.02 avg60=0.90 total=7000000\nfull total=0\n"})
        before = cpu.counters(tmp_path)
        write(tmp_path, {"proc/pressure/cpu": "some avg10=1.02 avg60=0.90 total=8000000\nfull total=0\n"})
        values, _ = window(before, cpu.counters(tmp_path))
        assert values["pressure_some_share"] == pytest.approx(0.1)

    def test_a_machine_without_proc_gives_a_reason_for_every_reading(self, tmp_path):
        counters = cpu.counters(tmp_path)
        values, missing = window(counters, counters)
        assert values == {"involuntary_switches": 0.0}
        assert missing.keys() == {
            *("steal_share", "foreign_load_share", "foreign_cores", "idle_cpus", "pressure_some_share"),
            *("cgroup_throttled_s", "cgroup_throttled_count"),
        }
        assert "No such file" in missing["steal_share"]

    def test_a_file_that_may_not_be_read_gives_that_as_the_reason(self, tmp_path, monkeypatch):
        def refuse(*_, **__):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "read_text", refuse)
        assert "Permission denied" in cpu.counters(tmp_path).missing["steal_share"]


V2 = {"proc/self/cgroup": "0::/kubepods/pod1/box\n"}
V1 = {"proc/self/cgroup": "5:memory:/m\n4:cpu,cpuacct:/docker/abc\n0::/x\n"}
CGROUPS = {
    "v2": (V2, "sys/fs/cgroup/kubepods/pod1/box/", "nr_throttled {n}\nthrottled_usec {us}\n"),
    "v2 ancestor": (V2, "sys/fs/cgroup/kubepods/", "nr_throttled {n}\nthrottled_usec {us}\n"),
    "v2 own namespace": (
        {"proc/self/cgroup": "0::/../..\n"},
        "sys/fs/cgroup/",
        "nr_throttled {n}\nthrottled_usec {us}\n",
    ),
    "v1": (V1, "sys/fs/cgroup/cpu,cpuacct/docker/abc/", "nr_throttled {n}\nthrottled_time {us}000\n"),
    "v1 short mount": (V1, "sys/fs/cgroup/cpu/docker/abc/", "nr_throttled {n}\nthrottled_time {us}000\n"),
    "v1 host path": (V1, "sys/fs/cgroup/cpu,cpuacct/", "nr_throttled {n}\nthrottled_time {us}000\n"),
}


class TestCgroups:
    @pytest.mark.parametrize("name", CGROUPS)
    def test_throttled_time_of_a_cgroup_is_read(self, tmp_path, name):
        files, folder, text = CGROUPS[name]
        write(tmp_path, {**files, folder + "cpu.stat": "usage_usec 5\n" + text.format(n=1, us=500_000)})
        before = cpu.counters(tmp_path)
        write(tmp_path, {folder + "cpu.stat": "usage_usec 9\n" + text.format(n=4, us=2_000_000)})
        values, missing = window(before, cpu.counters(tmp_path))
        assert values["cgroup_throttled_s"] == pytest.approx(1.5)
        assert values["cgroup_throttled_count"] == 3
        assert "cgroup_throttled_s" not in missing

    def test_a_group_without_a_cpu_controller_gives_a_reason(self, tmp_path):
        write(tmp_path, {**V2, "sys/fs/cgroup/cpu.stat": "usage_usec 5\n"})
        assert "cpu.stat" in cpu.counters(tmp_path).missing["cgroup_throttled_s"]

    @pytest.mark.parametrize(
        ("files", "quota"),
        [
            ({**V2, "sys/fs/cgroup/kubepods/pod1/box/cpu.max": "max 100000\n"}, None),
            ({**V2, "sys/fs/cgroup/kubepods/pod1/box/cpu.max": "250000 100000\n"}, 2.5),
            (
                {
                    **V2,
                    "sys/fs/cgroup/kubepods/pod1/box/cpu.max": "max 100000\n",
                    "sys/fs/cgroup/kubepods/cpu.max": "300000 100000\n",
                    "sys/fs/cgroup/cpu.max": "800000 100000\n",
                },
                3.0,
            ),
            ({**V2, "sys/fs/cgroup/cpu.max": "oddity\n"}, None),
            ({**V2, "sys/fs/cgroup/cpu.max": "100000 0\n"}, None),
            ({**V2}, None),
            (
                {
                    **V1,
                    "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "150000\n",
                    "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
                },
                1.5,
            ),
            (
                {
                    **V1,
                    "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us": "-1\n",
                    "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us": "100000\n",
                },
                None,
            ),
        ],
    )
    def test_the_quota_of_a_cgroup_is_read(self, tmp_path, files, quota):
        assert cpu.quota_cpus(write(tmp_path, files)) == quota


def topology(siblings):
    return {
        f"sys/devices/system/cpu/cpu{i}/topology/thread_siblings_list": text
        for i, text in enumerate(siblings)
    }


SMT = topology(["0,4\n", "1,5\n", "2,6\n", "3,7\n"] * 2)


class TestCores:
    def test_two_threads_of_a_core_count_once(self, tmp_path):
        assert cpu.cores(write(tmp_path, SMT), cpus=range(8)) == 4

    def test_affinity_limits_the_number_of_cores(self, tmp_path):
        assert cpu.cores(write(tmp_path, SMT), cpus=[0, 4]) == 1

    @pytest.mark.parametrize(("quota", "expected"), [("50000", 1), ("250000", 2), ("900000", 4), ("max", 4)])
    def test_a_quota_rounds_the_number_of_cores_down_to_at_least_1(self, tmp_path, quota, expected):
        write(tmp_path, {**SMT, **V2, "sys/fs/cgroup/cpu.max": f"{quota} 100000\n"})
        assert cpu.cores(tmp_path, cpus=range(8)) == expected

    def test_cpuinfo_serves_without_a_topology(self, tmp_path):
        block = "processor\t: {}\nphysical id\t: {}\ncore id\t: {}\n\n"
        text = "".join(block.format(i, i // 4, i // 2 % 2) for i in range(8))
        assert cpu.physical_cores(range(8), write(tmp_path, {"proc/cpuinfo": text})) == 4

    def test_cpus_count_where_nothing_can_be_read(self, tmp_path):
        assert cpu.physical_cores(range(6), tmp_path) == 6
        assert cpu.cores(tmp_path, cpus=[]) == 1

    def test_this_machine_has_at_least_one_core(self):
        assert 1 <= cpu.cores() <= len(cpu.affinity()) <= (os.cpu_count() or 1)


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=200), name=st.sampled_from(["stat", "pressure/cpu", "self/cgroup", "cpuinfo"]))
def test_odd_content_never_raises(tmp_path_factory, text, name):
    root = write(
        tmp_path_factory.mktemp("odd"), {"sys/fs/cgroup/cpu.stat": text, "sys/fs/cgroup/cpu.max": text}
    )
    (root / "proc" / name).parent.mkdir(parents=True, exist_ok=True)
    (root / "proc" / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    if name != "self/cgroup":
        write(root, {"proc/self/cgroup": "0::/\n"})
    counters = cpu.counters(root, own_s=lambda: 0.0)
    values, missing = window(counters, counters)
    assert not values.keys() & missing.keys()
    assert cpu.cores(root) >= 1


@given(
    st.sampled_from(["cpu  1 2 3", "cpu 1 2 3 4 5 6 7 -8", "cpu a b c d e f g h", "cpu " + "9" * 5000, ""])
)
@settings(deadline=None)
def test_a_stat_of_another_form_gives_a_reason(tmp_path_factory, line):
    root = write(tmp_path_factory.mktemp("stat"), {"proc/stat": line})
    assert "steal" in cpu.counters(root).missing["steal_share"]


class TestCanary:
    def test_takes_less_than_a_millisecond_a_piece(self):
        assert 1e-6 < cpu.canary_s() < 1  # orders of magnitude only: machines that run tests are shared

    def test_is_the_best_of_its_pieces(self):
        pieces = iter([9, 4, 5, 3, 8, *[7] * 95])
        readings = iter([at for piece in pieces for at in (10, 10 + piece)])
        assert cpu.canary_s(clock=lambda: next(readings)) == 3

    def test_the_aftermath_of_earlier_work_is_no_change_of_cpu_speed(self):
        """Seen after matrix products: 20 to 60 ms at 75 % of the speed, sometimes."""

        def read_s(slow_ms):
            now_ms, readings = 0.0, []
            while now_ms < 1000:
                piece_ms = 0.25 * (4 / 3 if now_ms < slow_ms else 1)
                readings += [now_ms / 1e3, (now_ms := now_ms + piece_ms) / 1e3]
            at = iter(readings)
            return cpu.canary_s(clock=lambda: next(at))

        assert cpu.canary_drift(read_s(0), read_s(60)) == pytest.approx(0)

    @pytest.mark.parametrize(("before", "after", "drift"), [(1, 1.1, 0.1), (1, 0.9, -0.1), (0, 1, 0)])
    def test_the_drift_of_a_canary_is_the_relative_change_of_its_time(self, before, after, drift):
        assert cpu.canary_drift(before, after) == pytest.approx(drift)

    def test_the_hosts_speed_is_steps_of_its_loop_per_second(self):
        assert cpu.python_steps_per_s(1e-3) == 2 * cpu.python_steps_per_s(2e-3) > 0
        assert cpu.python_steps_per_s(0.0) == 0.0


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs Linux")
def test_our_own_burning_is_not_foreign_load_here():
    before, blind, began_s = cpu.counters(), cpu.counters(own_s=lambda: 0.0), time.perf_counter()
    ends_s = time.process_time() + 0.7  # of all threads: the window is 0.5 s long at least
    while time.process_time() < ends_s:
        pass
    took_s = time.perf_counter() - began_s
    seeing, _ = cpu.delta(before, cpu.counters())
    blinded, _ = cpu.delta(blind, cpu.counters(own_s=lambda: 0.0))
    assert 0 <= seeing["steal_share"] <= 1
    burnt_s = (blinded["foreign_cores"] - seeing["foreign_cores"]) * took_s
    assert burnt_s > 0.2, "what we burnt, even on a crowded machine"


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs Linux")
def test_children_living_and_gone_count_as_own():
    import subprocess
    import sys

    burn = "import time\nwhile time.process_time() < 0.25: pass\nprint('burnt', flush=True)\ninput()"
    before = cpu.own_cpu_s()
    child = subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline() == b"burnt\n"
    living = cpu.own_cpu_s() - before
    child.communicate(b"\n")
    assert 0.2 < living <= cpu.own_cpu_s() - before + 0.02


def test_the_cpus_are_those_from_before_torch_if_openmp_binds_threads(monkeypatch):
    before = cpu.affinity()
    monkeypatch.setitem(sys.modules, "torch", sys)
    monkeypatch.setattr(cpu.os, "sched_getaffinity", lambda pid: {0})
    assert cpu.affinity() == {0}
    monkeypatch.setitem(cpu.os.environ, "OMP_PROC_BIND", "close")
    assert cpu.affinity() == before
    monkeypatch.setitem(cpu.os.environ, "OMP_PLACES", "")
    assert cpu.binding() == {"OMP_PROC_BIND": "close"}
