import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.harness.virtual import VirtualTime
from workloads.harness.engine.phases import Phases, since_process_start_s

TREES = st.recursive(
    st.just([]),
    lambda inner: st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), inner), max_size=4),
    max_leaves=12,
)


@pytest.fixture
def virtual(monkeypatch):
    return VirtualTime(look_s=0).install(monkeypatch)


def test_a_phase_inside_another_counts_for_itself_only(virtual):
    phases = Phases(process_start_s=0.5)
    with phases("build"):
        virtual.now_s += 1
        with phases("host_to_device"):
            virtual.now_s += 2
        virtual.now_s += 4
        with phases("host_to_device"):
            virtual.now_s += 8
    virtual.now_s += 16
    assert phases.seconds == {"process_start": 0.5, "host_to_device": 10, "build": 5}
    assert phases.close() == (31.5, 16)


def test_an_error_ends_its_phases(virtual):
    phases = Phases()
    with pytest.raises(ZeroDivisionError), phases("outer"), phases("inner"):
        virtual.now_s += 1
        raise ZeroDivisionError
    with phases("next"):
        virtual.now_s += 2
    assert phases.seconds == {"process_start": 0, "inner": 1, "outer": 0, "next": 2}


@given(tree=TREES)
def test_nested_phases_add_up_to_the_wall(tree):
    virtual, total = VirtualTime(look_s=0), 0

    def run(nodes):
        nonlocal total
        for name, seconds, inner in nodes:
            with phases(name):
                virtual.now_s += seconds
                total += seconds
                run(inner)

    with pytest.MonkeyPatch.context() as patch:
        virtual.install(patch)
        phases = Phases()
        run(tree)
        virtual.now_s += 3
        assert sum(phases.seconds.values()) == pytest.approx(total)
        assert phases.close() == pytest.approx((total + 3, 3))
    assert min(phases.seconds.values()) >= 0


def test_the_start_of_the_process_is_the_kernels():
    started = time.monotonic()
    script = "import time; from workloads.harness.engine.phases import since_process_start_s as s; time.sleep(0.3); print(s())"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert 0.3 <= float(out) <= time.monotonic() - started + 0.02  # it counts in ticks of 10 ms


@pytest.mark.parametrize("text", ["", "1 (x) S 2", "1 (a ) b) S " + "0 " * 18 + "many", None])
def test_without_proc_the_start_is_now(tmp_path, text):
    path = tmp_path / "stat"
    if text is not None:
        path.write_text(text)
    assert since_process_start_s(path) == 0.0


def test_a_name_with_brackets_and_blanks_is_no_obstacle(tmp_path):
    text = Path("/proc/self/stat").read_text()
    (tmp_path / "stat").write_text(f"{os.getpid()} (my ) (prog) S{text.rpartition(')')[2][2:]}")
    before_s = since_process_start_s()
    assert before_s <= since_process_start_s(tmp_path / "stat") <= since_process_start_s()
