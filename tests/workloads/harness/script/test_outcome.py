"""The parts of a step by what a profiler saw: each moment counts once."""

from types import SimpleNamespace

import pytest

from workloads.harness.script.outcome import shares_of


def event(name, start, end, device="CPU"):
    span = SimpleNamespace(start=start, end=end)
    return SimpleNamespace(
        name=name, time_range=span, device_type=f"DeviceType.{device}", is_user_annotation=False
    )


def profiler(*events):
    return SimpleNamespace(events=lambda: events)


def test_on_a_host_the_loader_comes_first_and_python_is_the_rest():
    found = shares_of(
        profiler(
            event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 20),
            event("aten::stack", 5, 15),
            event("aten::linear", 20, 50),
            event("aten::addmm", 25, 45),
            event("gloo:all_reduce", 40, 70),
            event("Optimizer.step#SGD.step", 70, 100),
        ),
        0.2,
    )
    assert found == pytest.approx({"loader": 0.2, "compute": 0.3, "communication": 0.2, "other": 0.3})


def test_the_loaders_share_is_that_of_all_steps_not_of_the_few_that_were_profiled():
    found = shares_of(profiler(event("aten::linear", 0, 50), event("Optimizer.step#SGD.step", 50, 100)), 0.5)
    assert found == pytest.approx({"loader": 0.5, "compute": 0.25, "other": 0.25})


def test_on_a_gpu_what_idles_waits_for_the_loader_or_for_the_host():
    kernels = (
        event("cudaLaunchKernel", 0, 100),
        event("sgemm", 0, 40, "CUDA"),
        event("ncclDevKernel_AllReduce", 30, 50, "CUDA"),
        event("Memcpy HtoD (Pinned -> Device)", 45, 60, "CUDA"),
    )
    found = shares_of(profiler(*kernels), 0.3)
    assert found == pytest.approx(
        {"compute": 0.4, "communication": 0.1, "copy": 0.1, "loader": 0.3, "launch": 0.1}
    )


def test_nothing_profiled_has_no_shares():
    assert shares_of(profiler(), 0.5) == {}
