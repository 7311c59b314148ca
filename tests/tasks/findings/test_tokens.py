from dataclasses import replace

import pytest

from tasks.findings.compare import compare
from tasks.findings.gains import ModeGain
from tasks.findings.tokens import Tokens
from tasks.results.table import cell_text
from tests.tasks.examples.records import MATMUL, machine, repeats
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Latency
from workloads.harness.records.record import Verdict, Work

SIZE = {"millions": 8030, "batch": 16, "context": 2048}
DECODE, IN_A_GRAPH = Case.of("llm_decode", SIZE, "bf16"), Case.of("llm_decode", SIZE, "bf16", "graph")
BOTH = Case.of("llm_decode", SIZE, "bf16", "compiled-graph")
TOKENS = Work(16, "tokens", 1e9, 1e9)


def cell(seconds, case=DECODE, hardware="gpu", work=TOKENS):
    made = repeats([seconds * s for s in (0.999, 1.0, 1.001)], case, hardware)
    return [
        replace(record, work=work, latency=Latency(200, seconds, (1 + n) * seconds, 3 * seconds, 9.0))
        for n, record in enumerate(made, 1)
    ]


def compared(*groups, **changes):
    records = [record for group in groups for record in group]
    return compare(records, [machine("gpu", 3.6, **changes)], "gpu")


def test_the_cost_of_a_million_tokens_is_that_of_their_time():
    """16 tokens in 8 ms are 2000 a second; a million takes 500 s, at 3.60 USD an hour 0.50 USD."""
    table = (
        compared(cell(8e-3), cell(1.0, MATMUL, work=Work(1, "products", 1.0, 1.0))).finding(Tokens).table()
    )
    (row,) = table.rows
    assert row[:3] == ("gpu", DECODE.id, "eager")
    assert row[3] == pytest.approx(2000, rel=1e-3)
    assert row[4].value == pytest.approx(0.5, rel=1e-3) and row[4].low < 0.5 < row[4].high
    assert row[5:] == (8e-3, pytest.approx(24e-3), pytest.approx(24e-3), None, None)
    assert cell_text(row[4], table.columns[4].quantity).startswith("$0.50")


def test_the_flops_of_tokens_are_compared_with_the_data_sheet():
    """1e9 FLOP in 8 ms are 0.125 TFLOP/s."""
    table = compared(cell(8e-3), peak_flops=(("fp32", 1e10), ("bf16", 5e11))).finding(Tokens).table()
    assert table.rows[0][-2] == pytest.approx(0.25, rel=1e-3)


def test_without_tokens_there_is_no_table():
    assert compared(cell(1.0, MATMUL, work=Work(1, "products", 1.0, 1.0))).finding(Tokens).table() is None


def wrong(case):
    return [
        replace(
            record, verdict=Verdict.WRONG, reasons=("the result is off by 1",), wall=None, device_time=None
        )
        for record in repeats([1e-3], case, "gpu")
    ]


def test_the_fastest_mode_that_is_right_has_the_price_and_the_others_are_named():
    found = compared(cell(8e-3), cell(4e-3, IN_A_GRAPH), wrong(BOTH)).finding(Tokens)
    (row,) = found.table().rows
    assert row[1:3] == (DECODE.id, "graph")
    assert row[3] == pytest.approx(4000, rel=1e-3) and row[4].value == pytest.approx(0.25, rel=1e-3)
    (sentence,) = found.details()
    assert sentence.index("graph: 4,000 tokens/s, $0.25") < sentence.index("eager: 2,000 tokens/s, $0.50")
    assert "compiled-graph: no valid result (wrong)" in sentence


def test_each_machine_and_each_case_has_its_own_fastest_mode():
    fp32 = Case.of("llm_decode", SIZE, "fp32")
    groups = [
        cell(8e-3),
        cell(4e-3, BOTH),
        cell(9e-3, fp32),
        cell(2e-3, hardware="other"),
        cell(3e-3, BOTH, "other"),
    ]
    found = compared(*groups).finding(Tokens)
    modes = {(row[0], row[1]): row[2] for row in found.table().rows}
    assert modes == {
        ("gpu", DECODE.id): "compiled-graph", ("gpu", fp32.id): "eager", ("other", DECODE.id): "eager"
    }  # fmt: skip
    assert len(found.details()) == 2


def test_a_graph_is_another_case_and_its_gain_is_reported():
    found = compared(cell(8e-3), cell(4e-3, IN_A_GRAPH))
    assert len(found.summaries) == 2
    (sentence,) = found.finding(ModeGain).observations()
    assert sentence.startswith("On gpu graph against eager is faster in 1 of 1, at most 2.00")
    assert "llm_decode millions=8030,batch=16,context=2048" in sentence
    assert not any("against fp32" in text for text in found.observations)


def test_a_precision_is_compared_in_the_same_mode_only():
    fp32 = Case.of("llm_decode", SIZE, "fp32")
    texts = compared(cell(8e-3, fp32), cell(2e-3, IN_A_GRAPH)).observations
    assert not any("against" in text for text in texts)
