import sys
from dataclasses import replace

import pytest

from tasks.dispatch import preflight
from tasks.planning.hardware import load_hardware
from workloads.harness.checks.preflight import NO_GPU, shared_memory
from workloads.harness.records.case import Case
from workloads.harness.records.program import Program
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import Script
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


@pytest.mark.parametrize(("names", "hindrance"), [(["NVIDIA L4"], ""), ([], NO_GPU)])
def test_any_command_needs_a_gpu_and_no_torch(roomy, monkeypatch, names, hindrance):
    monkeypatch.setattr(preflight, "gpu_names", lambda: names)
    program = replace(REPEAT, script=Script(("llama-bench",), program=Program()))
    assert preflight.check([program], ["/no/such/program"]) == (hindrance, [])


def test_little_shared_memory_is_a_warning_and_no_hindrance(tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "shared_memory", lambda: shared_memory(tmp_path / "none"))
    hindrance, (warning,) = preflight.check([replace(REPEAT, device="cpu")], [])
    assert not hindrance and "can't be checked" in warning


def test_a_fit_machine_has_no_hindrance(roomy):
    assert preflight.check(
        [REPEAT], says(0, "ok    driver 580.65 runs CUDA 12.6", "ok    shared memory")
    ) == ("", [])


def test_the_hindrance_of_an_unfit_machine_is_reported(roomy):
    hindrance, warnings = preflight.check([REPEAT], says(1, "ok    torch 2.13.0", "warn  no GPU is visible"))
    assert (hindrance, warnings) == ("no GPU is visible", [])


def test_a_look_that_fails_is_a_hindrance_that_quotes_it(roomy):
    hindrance, _ = preflight.check([REPEAT], says(3, ""))
    assert "failed" in hindrance and "'--gpus', '1'" in hindrance


def test_preflight_asks_for_as_many_gpus_as_the_largest_case_has_processes(roomy):
    several = replace(REPEAT, case=Case.of("ddpm_weak", {"batch": 1, "processes": 4}))
    assert "'--gpus', '4'" in preflight.check([REPEAT, several], says(3, ""))[0]


def held_against(monkeypatch, model, *names):
    """Return hindrance and warnings of a machine whose driver gives these names and whose file names a model."""
    monkeypatch.setattr(preflight, "gpu_names", lambda: list(names))
    return preflight.check([replace(REPEAT, gpu=model)], says(0, "ok    driver 580.65 runs CUDA 12.6"))


def test_a_gpu_that_the_hardware_file_does_not_name_is_reported_before_anything_is_measured(
    roomy, monkeypatch
):
    hindrance, warnings = held_against(monkeypatch, "l4", "NVIDIA A10G")
    assert hindrance == (
        "this machine has NVIDIA A10G (a10g), and hardware gpu-box names gpu: l4; mend gpu and price of its "
        "file, or have its pool give the GPU that they are of"
    )
    assert warnings == []


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("l4", ["NVIDIA L4"]),
        ("a10g", ["NVIDIA A10G"] * 8),
        ("a100-80-sxm", ["NVIDIA A100-SXM4-80GB"]),
        ("l4", ["NVIDIA T4", "NVIDIA L4"]),  # which of two is measured, its records say
        ("l4", []),  # the look at the GPUs names the error
        (None, ["NVIDIA A10G"]),
    ],
)
def test_the_gpu_that_it_names_or_none_is_well(roomy, monkeypatch, model, names):
    assert held_against(monkeypatch, model, *names) == ("", [])


def test_a_gpu_of_an_unknown_name_is_measured_with_a_warning(roomy, monkeypatch):
    hindrance, (warning,) = held_against(monkeypatch, "h100-sxm", "NVIDIA H100 GEN2")
    assert not hindrance
    assert (
        "NVIDIA H100 GEN2, which does not match gpu: h100-sxm of hardware gpu-box (H100 80GB HBM3" in warning
    )


def test_a_lane_knows_the_gpu_by_its_repeats(plan):
    machine = load_hardware("aws-g6.xlarge")
    assert {repeat.gpu for repeat in plan.repeats_on(machine)} == {"l4"}
    assert {repeat.gpu for repeat in plan.repeats_on(plan.hardware[0])} == {None}


def test_the_real_look_on_a_machine_without_gpus(roomy):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    hindrance, _ = preflight.check([REPEAT], COMMAND)
    assert "CUDA" in hindrance or "no GPU" in hindrance
