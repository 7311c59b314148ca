from types import SimpleNamespace

import pytest
import torch

from workloads.harness.probes import launches


def test_the_launch_rate_is_the_best_of_its_pieces():
    pieces = iter([9.0, 4.0, 0.5, *[7.0] * 17])
    readings = iter([at for piece in pieces for at in (10.0, 10.0 + piece)])
    assert launches.launches_per_s("cpu", clock=lambda: next(readings)) == pytest.approx(200 / 0.5)


def test_a_cpu_here_takes_less_than_a_tenth_of_a_millisecond_each():
    values, missing = launches.reading("cpu")
    assert values["launches_per_s"] > 1e4 and missing == {}


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about builds without CUDA")
def test_a_device_that_is_not_there_is_missing_with_a_reason():
    values, missing = launches.reading("cuda")
    assert values == {} and missing["launches_per_s"]


def test_a_graph_that_is_being_captured_is_left_alone(monkeypatch):
    capturing = SimpleNamespace(is_available=lambda: True, is_current_stream_capturing=lambda: True)
    monkeypatch.setattr(torch, "cuda", capturing)
    assert launches.reading("cuda") == ({}, {"launches_per_s": "a CUDA graph is being captured"})
