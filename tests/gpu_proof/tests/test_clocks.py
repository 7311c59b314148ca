"""Clocks of others that a machine may lack cost their own figure and no other."""

import importlib
import sys
import time
from types import SimpleNamespace

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.children.clocks import by_triton
from tests.gpu_proof.stages import clocks
from tests.gpu_proof.table import FAIL, SHOWN

NO_COMPILER = (
    "Failed to find C compiler. Please specify via CC environment variable"  # triton/runtime/build.py
)


def without_compiler(asked):
    """Triton as it is without a C compiler: its driver can't be made when it is first needed."""

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
    found = {"seconds": {"matmul8192": seconds}, "missing": {"do_bench": NO_COMPILER}}
    monkeypatch.setattr(bench, "child", lambda *_, **__: found)
    rows = {row.name: row for row in clocks.look(bench)}
    assert (rows["do_bench: missing"].state, rows["do_bench: missing"].text) == (SHOWN, NO_COMPILER)
    assert "matmul8192: wall over torch's Timer" in rows and FAIL not in {row.state for row in rows.values()}
