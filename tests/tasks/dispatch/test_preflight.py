"""What a lane looks at before it measures, with stand-ins for the program that looks."""

import sys
from dataclasses import replace

import pytest

from tasks.dispatch import preflight
from workloads.harness.checks.preflight import shared_memory
from workloads.harness.records.case import Case
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.runs import COMMAND

REPEAT = Repeat("run", "gpu-box", Case.of("matmul", {"n": 64}), device="cuda")


def says(code, *lines):
    text = "\n".join(lines)
    return [
        sys.executable,
        "-c",
        f"import sys; print({text!r}); print(sys.argv[1:], file=sys.stderr); sys.exit({code})",
    ]


@pytest.fixture
def roomy(monkeypatch):
    monkeypatch.setattr(preflight, "shared_memory", lambda: (True, "shared memory has 9000 MiB"))


def test_without_gpus_nothing_is_started(roomy):
    assert preflight.check([replace(REPEAT, device="cpu")], ["/no/such/program"]) == ("", [])


def test_little_shared_memory_is_a_warning_and_no_hindrance(tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "shared_memory", lambda: shared_memory(tmp_path / "none"))
    hindrance, (warning,) = preflight.check([replace(REPEAT, device="cpu")], [])
    assert not hindrance and "can't be looked at" in warning


def test_a_fit_machine(roomy):
    assert preflight.check(
        [REPEAT], says(0, "ok    driver 580.65 runs CUDA 12.6", "ok    shared memory")
    ) == ("", [])


def test_what_hinders_is_said(roomy):
    hindrance, warnings = preflight.check([REPEAT], says(1, "ok    torch 2.13.0", "warn  no GPU is visible"))
    assert (hindrance, warnings) == ("no GPU is visible", [])


def test_a_look_that_fails_is_a_hindrance_that_quotes_it(roomy):
    hindrance, _ = preflight.check([REPEAT], says(3, ""))
    assert "failed" in hindrance and "'--gpus', '1'" in hindrance


def test_it_asks_for_as_many_gpus_as_the_largest_case_has_processes(roomy):
    several = replace(REPEAT, case=Case.of("ddpm_weak", {"batch": 1, "processes": 4}))
    assert "'--gpus', '4'" in preflight.check([REPEAT, several], says(3, ""))[0]


def test_the_real_look_on_a_machine_without_gpus(roomy):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    hindrance, _ = preflight.check([REPEAT], COMMAND)
    assert "CUDA" in hindrance or "no GPU" in hindrance
