import importlib
import sys
import time
from types import SimpleNamespace

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.children.clocks import by_triton, wall_over_timer
from tests.gpu_proof.stages import clocks
from tests.gpu_proof.table import FAIL, SHOWN
from workloads.harness.engine.clock import HostClock

NO_COMPILER = (
    "Failed to find C compiler. Please specify via CC environment variable"  # triton/runtime/build.py
)


def without_compiler(asked):
    """Raise like Triton without a C compiler, on first use of its driver."""

    def do_bench(operation, **options):
        asked.append(operation)
        raise RuntimeError(NO_COMPILER)

    return SimpleNamespace(do_bench=do_bench)


def test_without_a_c_compiler_do_bench_is_left_out_for_its_reason(monkeypatch):
    asked, missing = [], {}
    monkeypatch.setattr(importlib, "import_module", lambda name: without_compiler(asked))
    assert by_triton(lambda: None, missing) == by_triton(lambda: None, missing) == {}
    assert missing == {"do_bench": f"RuntimeError: {NO_COMPILER}"} and len(asked) == 1


def test_where_there_is_no_triton_that_is_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton.testing", None)
    missing = {}
    assert by_triton(lambda: None, missing) == {}
    assert missing["do_bench"].startswith("ModuleNotFoundError: ")


def test_a_clock_that_is_missing_is_shown_and_the_others_are_judged(tmp_path, monkeypatch):
    bench = Bench(tmp_path, "cuda", time.monotonic() + 60)
    seconds = {"wall": 1e-3, "device": 1e-3, "timer": 1e-3}
    found = {
        "seconds": {"matmul8192": seconds},
        "missing": {"do_bench": NO_COMPILER},
        "wall_over_timer": {"matmul8192": 1.0},
    }
    monkeypatch.setattr(bench, "child", lambda *_, **__: found)
    rows = {row.name: row for row in clocks.look(bench)}
    assert (rows["do_bench: missing"].state, rows["do_bench: missing"].text) == (SHOWN, NO_COMPILER)
    assert "matmul8192: wall over torch's Timer" in rows and FAIL not in {row.state for row in rows.values()}


H100 = {  # seconds of 2026-11-26, on a host that changed its speed between the clocks
    "net20": {
        "wall": 280.74e-6,
        "device": 279.57e-6,
        "timer": 399.35e-6,
        "do_bench": 352.69e-6,
        "graph": 43.35e-6,
    },
    "copy1GiB": {"wall": 720e-6, "device": 714e-6, "timer": 722e-6, "do_bench": 716e-6, "graph": 881e-6},
}


def test_effects_of_an_h100s_host_and_copy_engine_are_no_failure_of_the_clocks(tmp_path, monkeypatch):
    bench = Bench(tmp_path, "cuda", time.monotonic() + 60)
    found = {"seconds": H100, "missing": {}, "wall_over_timer": dict.fromkeys(H100, 1.01)}
    monkeypatch.setattr(bench, "child", lambda *_, **__: found)
    rows = {row.name: row for row in clocks.look(bench)}
    assert FAIL not in {row.state for row in rows.values()}
    assert "net20: device over do_bench" not in rows and "copy1GiB: device over do_bench" in rows
    found["wall_over_timer"]["net20"] = 0.7
    assert FAIL in {row.state for row in clocks.look(bench)}


def test_turns_cancel_a_host_that_changes_its_speed():
    steps = iter(range(10**9))

    def operation():
        end = time.perf_counter() + (20e-6 if next(steps) // 1000 % 2 else 30e-6)
        while time.perf_counter() < end:
            pass

    assert 0.9 < wall_over_timer(operation, HostClock()) < 1.1
