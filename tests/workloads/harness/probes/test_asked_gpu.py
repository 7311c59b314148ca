"""A GPU behind a child process, with a real library that answers, hangs or kills."""

import os
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from tests.workloads.harness.probes.fake_nvml import UUID
from workloads.harness.engine.monitor import Monitor
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.probes import asked_gpu
from workloads.harness.probes.asked_gpu import AskedGpu
from workloads.harness.probes.gpu import FACTS, READINGS, TOTALS
from workloads.harness.probes.gpu_health import HEALTH


@pytest.fixture
def card(real_driver):
    made = []
    yield lambda uuid=None: made.append(AskedGpu(uuid)) or made[-1]
    for gpu in made:
        gpu.close()


def test_a_sound_driver_is_asked_in_another_process(card):
    gpu = card()
    values, missing = gpu.read()
    assert (gpu.uuid, values) == (UUID, {"gpu_power_w": 71.5, "gpu_temperature_c": 55})
    assert missing.keys() == set(READINGS) - values.keys()
    assert gpu.describe()["name"] == "NVIDIA H100 80GB HBM3"
    with open("/proc/self/maps") as maps:
        assert "libnvidia-ml" not in maps.read()


def test_values_that_nvml_writes_into_structures_arrive(card):
    values, _ = card().health()
    assert (values["gpu_fabric_state"], values["gpu_fabric_status"], values["gpu_fabric_degraded"]) == (
        3,
        0,
        0,
    )
    assert values["gpu_sram_threshold_exceeded"] == 1


def test_a_card_of_another_uuid_is_a_reason(card):
    gpu = card("GPU-other")
    assert gpu.uuid == "" and not gpu.is_lost
    assert "Not Found" in gpu.read()[1]["gpu_power_w"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [("power:hang", "within 2 s"), ("power:segv", "signal 11"), ("power:abort", "signal 6")],
)
def test_a_driver_that_fails_later_leaves_reasons_and_is_not_asked_again(card, real_driver, fault, words):
    real_driver(fault)
    gpu = card()
    assert [gpu.read()[0]["gpu_power_w"] for _ in range(2)] == [71.5, 71.5]
    assert words in gpu.read()[1]["gpu_power_w"] and gpu.is_lost
    started_s = time.perf_counter()
    assert words in gpu.health()[1]["gpu_remap_failed"]
    assert words in gpu.counters().missing["gpu_energy_j"]
    assert time.perf_counter() - started_s < 0.5


@pytest.mark.parametrize(("fault", "words"), [("init:hang", "within 2 s"), ("init:segv", "signal 11")])
def test_a_driver_that_does_not_start_leaves_a_record_without_readings(real_driver, fault, words):
    real_driver(fault)
    readings, phases = Readings("cuda", 1, time.perf_counter()), Phases()
    with readings.monitored(), readings.window(phases):
        time.sleep(0.3)
    parts = readings.parts()
    gpu = parts["environment"]["gpus"][0]
    assert all(gpu[name] is None for name in FACTS) and words in gpu["missing"]["uuid"]
    assert parts["energy_j"] is None and not [name for name in parts["probes"] if name in HEALTH]
    for name in (*HEALTH, "gpu_energy_j", "gpu_foreign_share", "power_throttled_share", "gpu_power_w"):
        assert words in parts["missing"][name], name


def test_a_driver_that_hangs_while_samples_are_taken_leaves_those_before(card, real_driver):
    real_driver("power:hang")
    gpu = card()
    with Monitor(gpu, interval_s=0.02) as monitor:
        ends_s = time.perf_counter() + 30
        while not gpu.is_lost and time.perf_counter() < ends_s:
            time.sleep(0.01)
    assert {row["gpu_power_w"] for row in monitor._rows if "gpu_power_w" in row} == {71.5}
    assert "within 2 s" in monitor.missing["gpu_power_w"] and "monitor" not in monitor.missing


def helpers(pid):
    """Return a process's children that query NVML: the keeper and the asker."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if asked_gpu._PROGRAM in words and words[words.index(asked_gpu._PROGRAM) + 1] == str(pid):
                found.append(process)
    return sorted(found, key=lambda process: process.pid)


def are_gone(processes, within_s=10.0):
    _, alive = psutil.wait_procs(processes, timeout=within_s)
    return not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("fault", ["", "power:hang"])
def test_the_processes_end_with_the_measurement(card, real_driver, fault):
    real_driver(fault)
    gpu = card()
    gpu.read()
    processes = helpers(os.getpid())
    assert len(processes) == 2
    for _ in range(2):
        gpu.read()
    gpu.close()
    assert are_gone(processes) and not helpers(os.getpid())
    assert gpu.read()[1]["gpu_power_w"]


STARTS = """
import os, sys, threading, time
from workloads.harness.probes.asked_gpu import AskedGpu
from workloads.harness.probes.orphans import adopt_orphans
if "adopts" in sys.argv:
    adopt_orphans()
made = []
if "thread" in sys.argv:
    thread = threading.Thread(target=lambda: made.append(AskedGpu()))
    thread.start()
    thread.join()
else:
    made.append(AskedGpu())
print(made[0].read()[0]["gpu_power_w"], flush=True)
try:
    print(os.wait(), flush=True)
except ChildProcessError:
    print("no child", flush=True)
time.sleep(0.5)
print(made[0].read()[0]["gpu_power_w"], flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("words", [(), ("adopts",), ("thread",)])
def test_a_process_that_is_killed_has_no_child_and_takes_the_others_with_it(real_driver, words):
    asker = subprocess.Popen([sys.executable, "-c", STARTS, *words], stdout=subprocess.PIPE, text=True)
    assert [asker.stdout.readline() for _ in range(3)] == ["71.5\n", "no child\n", "71.5\n"]
    processes = helpers(asker.pid)
    assert len(processes) == 2 and psutil.Process(asker.pid).children(recursive=True) == []
    asker.kill()
    asker.wait()
    assert are_gone(processes)


def test_the_cpu_time_of_the_child_is_counted(card):
    gpu = card()
    for _ in range(300):
        gpu.counters()
    assert 0 < gpu.cpu_s < 5
    assert set(TOTALS) == gpu.counters().missing.keys()


def test_a_killed_child_is_no_fault_of_the_driver(card):
    gpu = card()
    assert gpu.read()[0]
    helpers(os.getpid())[-1].kill()
    values, missing = gpu.read()
    assert not values and "signal 9" in missing["gpu_power_w"] and not gpu.is_lost


OTHER = "GPU-77777777-0000-1111-2222-333344445555"
HANDLES = """
import os, signal, sys, time
from types import SimpleNamespace
from workloads.harness.engine import readings
from workloads.harness.probes import asked_gpu
made = readings.Readings("cuda", 1, 0.0)
made.gpu.read()
noticed = []
signal.signal(signal.SIGCHLD, lambda *_: noticed.append("child"))
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
readings._properties = lambda index: SimpleNamespace(uuid=sys.argv[1])
made.opened(1)
print(made.gpu.uuid, made.gpu.read()[0].get("gpu_power_w"), noticed, flush=True)
sys.stdin.readline()
print(made.gpu.read()[1].get("gpu_power_w"), flush=True)
if not (child := os.fork()):
    time.sleep(60)
print(child, flush=True)
sys.stdin.readline()
made.gpu.close()
time.sleep(60)
"""


@pytest.fixture
def handling(real_driver):
    started = []

    def start(uuid):
        words = [sys.executable, "-c", HANDLES, uuid]
        started.append(
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_process_that_handles_its_children_does_not_notice_another_gpu(handling):
    other, unknown = handling(OTHER), handling("GPU-unknown")
    assert other.stdout.readline() == f"{OTHER} 71.5 []\n" and len(helpers(other.pid)) == 2
    assert unknown.stdout.readline() == " None []\n" and are_gone(helpers(unknown.pid))


def test_a_process_that_broken_pipes_end_goes_on_if_the_helper_is_gone(handling):
    process = handling(UUID)
    process.stdout.readline()
    processes = helpers(process.pid)
    processes[-1].kill()
    assert are_gone(processes)
    process.stdin.write("\n")
    assert "the process that asked NVML was ended by signal 9" in process.stdout.readline()


def test_a_child_that_lives_on_does_not_keep_the_processes(handling):
    process = handling(UUID)
    process.stdout.readline()
    processes = helpers(process.pid)
    process.stdin.write("\n")
    assert process.stdout.readline() == "None\n"
    child = psutil.Process(int(process.stdout.readline()))
    try:
        process.stdin.write("\n")
        assert are_gone(processes) and child.is_running()
    finally:
        child.kill()
