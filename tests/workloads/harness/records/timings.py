"""A timing, and a record in which every field is set."""

from workloads.harness.records.case import Case
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Check, Memory, Record, Timing, Transfer, Verdict, Work


def timing(**changes):
    plain = {
        "samples_s": (1.0, 2.0, 3.0),
        "block": 4,
        "median_s": 2.0,
        "ci_low_s": None,
        "ci_high_s": None,
        "p95_s": 3.0,
        "max_s": 3.0,
        "outliers_mild": 0,
        "outliers_severe": 0,
        "steady": True,
        "precision_reached": False,
    }
    return Timing(**(plain | changes))


FULL = Record(
    run="a-run",
    hardware="a-box",
    case=Case.of("matmul", {"n": 5000}),
    repeat=2,
    verdict=Verdict.NOISY,
    reasons=("the hypervisor took 3.0% of the CPU time",),
    threads=4,
    layout="contiguous",
    layout_trials_s={"contiguous": 0.1},
    phases_s={"import": 1.5},
    wall_s=2.5,
    wall=timing(warmup_s=(9.0,)),
    device_time=timing(median_s=1.0),
    work=Work(1, "products", 2.5e11, 3e8),
    transfer=Transfer(h2d_bytes=10, h2d_pageable_s=0.5, d2h_pageable_s=0.25),
    check=Check(1e-7, 1e-5, 64),
    memory=Memory(peak_rss_bytes=10),
    energy_j=3.5,
    probes={"steal_share": 0.03},
    missing={"gpu_energy_j": "measured on the CPU"},
    monitor={"t_s": (0.25, 0.5)},
    environment={"cpu_model": None, "gpus": [{"name": "x"}]},
    environment_id="abc",
    control=Control("def", "ok", (), 1.25, "abc", "2026-01-01T00:00:00+00:00"),
)
