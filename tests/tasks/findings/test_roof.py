from dataclasses import asdict

import pytest

from tasks.findings.compare import compare
from tasks.findings.device.roof import Roofs
from tasks.findings.tokens import Tokens
from tasks.results.table import cell_text
from tests.tasks.examples.records import ENVIRONMENT, MATMUL, machine, record
from workloads.harness.records.case import Case
from workloads.harness.records.record import Work
from workloads.harness.roofline.roof import ALL_REDUCE, LAUNCH, PRODUCT, READ, RoofRate

ROOF = Case.of("roof", {"side": 4096})
KEPT = [
    RoofRate(
        PRODUCT,
        5e11,
        4.9e11,
        5.1e11,
        "bf16",
        "compiled",
        "m=1024,n=4096,k=2048",
        1,
        "2026-11-02T08:00:00+00:00",
    ),
    RoofRate(READ, 40e9, size="mib=512", measured_at="2026-11-02T08:00:00+00:00"),
    RoofRate(LAUNCH, 1.3e-6, 1.2e-6, 1.4e-6, measured_at="2026-11-02T08:00:00+00:00"),
    RoofRate(ALL_REDUCE, 2e9, processes=2, measured_at="2026-11-02T08:00:00+00:00"),
]
ENVIRONMENT_KEPT = ENVIRONMENT | {"roof": [asdict(rate) for rate in KEPT]}
PEAKS = {"peak_flops": (("fp32", 2e11), ("bf16", 1e12)), "peak_bytes_per_s": 50e9}


def roof(environment=ENVIRONMENT, hardware="cpu-box"):
    made = Work(1e10, "FLOP", 1e10, 1.0, chosen=(2048, 1024, 512))
    return [
        record(0.1 * (1 + n / 1000), ROOF, hardware, n, work=made, environment=environment) for n in range(3)
    ]


def found(records, **facts):
    names = dict.fromkeys(r.hardware for r in records)
    return compare(records, [machine(name, **facts) for name in names], next(iter(names)))


def lines(comparison):
    table = comparison.finding(Roofs).table()
    return [
        [cell_text(value, column.quantity) for value, column in zip(row, table.columns, strict=True)]
        for row in table.rows
    ]


def test_a_run_that_measured_a_product_has_it_with_its_interval_and_share():
    (row,) = lines(found(roof(), **PEAKS))
    assert row[:2] == ["cpu-box", "product, fp32"] and row[3:5] == ["50 %", "m=2048,n=1024,k=512"]
    assert row[2].startswith("100 GFLOP/s (") and row[5:] == ["ok", "in this run"]


def test_cached_rates_of_the_box_are_listed_with_their_date():
    rows = lines(found(roof(ENVIRONMENT_KEPT), **PEAKS))
    assert [row[1] for row in rows] == ["product, bf16 compiled", "product, fp32", "reading memory", "launch of an operation",
                                        "all-reduce, 2 processes"]  # fmt: skip
    assert [row[6] for row in rows] == ["before, 2026-11-02", "in this run", *["before, 2026-11-02"] * 3]
    assert [row[2] for row in rows[2:]] == ["40.0 GB/s", "1.30 µs (1.20–1.40)", "2.00 GB/s"]
    assert [row[3] for row in rows] == ["50 %", "50 %", "80 %", "–", "–"]


def test_each_machine_has_its_own_roof_or_no_row():
    rows = lines(found([*roof(), *roof(ENVIRONMENT_KEPT, "other-box"), record(1.0, MATMUL, "third-box")]))
    assert [row[0] for row in rows] == ["cpu-box", *["other-box"] * 5]


def test_a_run_without_a_roof_has_no_table():
    assert found([record(1.0, MATMUL)]).finding(Roofs).table() is None


def test_the_best_product_is_said_beside_the_data_sheet():
    (sentence,) = (
        text for text in found(roof(ENVIRONMENT_KEPT), **PEAKS).observations if text.startswith("Roof")
    )
    assert "on cpu-box reaches 500 GFLOP/s (490–510) in bf16 compiled, 50 % of the data sheet's" in sentence


def test_tokens_are_compared_with_the_roof():
    """1e10 FLOP in 0.2 s are 50 of the roof's 100 GFLOP/s."""
    decode = Case.of("llm_decode", {"millions": 135, "batch": 1, "context": 64})
    tokens = [
        record(0.2 * (1 + n / 1000), decode, repeat=n, work=Work(1, "tokens", 1e10, 1.0)) for n in range(3)
    ]
    (row,) = found([*roof(), *tokens]).finding(Tokens).table().rows
    assert row[-1] == pytest.approx(0.5, rel=0.01)
