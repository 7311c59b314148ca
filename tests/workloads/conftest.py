"""Fixtures of the harness's tests: folders of workloads, and an impatient engine."""

import sys
from pathlib import Path

import pytest

from workloads.harness import registry
from workloads.harness.engine.measure import measure
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import find

CHEATS = Path(__file__).parent / "cheats"
SHORT = Rules(
    stretch_s=0.0,
    agreement=0.05,
    warm_min_s=0.0,
    warm_cap_s=0.5,
    half_width=0.05,
    drift=0.05,
    sample_min_s=0.0,
    sample_cap_s=0.5,
)


@pytest.fixture
def use_workloads(monkeypatch):
    monkeypatch.setattr(registry, "_found", registry.all_workloads())
    yield lambda folder: monkeypatch.setenv("GRIDBENCH_WORKLOADS", str(folder))
    for name in [name for name in sys.modules if name.startswith("gridbench_workloads_")]:
        del sys.modules[name]


@pytest.fixture
def cheats(use_workloads, box_lock):
    use_workloads(CHEATS)
    return CHEATS


@pytest.fixture
def engine(cheats):
    """Measure a case in this process: the real engine, with less patience and one thread."""

    def run(name, precision="fp32", rules=SHORT, seed=0, **size):
        workload = find(name)
        repeat = Repeat("a-run", "a-box", workload.case(size or workload.tiny, precision), seed=seed)
        return measure(repeat, 1, Phases(), lambda text: None, rules)

    return run


@pytest.fixture
def one_thread():
    """One thread of torch: several would wait for each other on a busy machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
