import json
import math
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbench import main
from gridbench.run import outcome
from tasks.findings.compare import compare
from tasks.gather import judged
from tasks.publish import write_files
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.grid import grid_of
from tasks.report.text.comparison import full_text
from tasks.store.frames import results_table
from tests.tasks.examples.records import failed, machine, timing
from tests.tasks.report.nonsense import HARDWARE, HUGE, INFO, fill, good, said, scaled
from workloads.command.compare import comparison as bare_comparison
from workloads.harness.records.files import record_path
from workloads.harness.records.finite_json import to_json
from workloads.harness.records.record import Verdict
from workloads.harness.records.text import HEAD, detail, line, table
from workloads.harness.roofline.bounds import roofline_json, roofline_text


def test_the_good_run_has_nothing_odd(empty_store, planned):
    fill(empty_store, good(planned))
    text = said(empty_store)
    assert "Fastest: local-cpu" in text
    for word in ("more than once", "not in the plan", "schema", "clock", "can be read", "impossible"):
        assert word not in text


def changed(**changes):
    return lambda made: [replace(made[0], **changes), *made[1:]]


def slower(seconds):
    return changed(wall=timing(seconds), phases_s={}, wall_s=0.0)


SCENARIOS = {
    "one cell": (lambda made: made[:1], "local-cpu-1: one pass through 1 case"),
    "all failed": (
        lambda made: [replace(r, verdict=Verdict.CRASHED, reasons=("it fell",), wall=None) for r in made],
        "No results: no cell has a valid time",
    ),
    "zero time": (slower(0.0), "its compute time is 0 s"),
    "negative time": (slower(-1.0), "its compute time is -1 s"),
    "denormal time": (slower(5e-324), "its compute time is 4.94066e-324 s"),
    "time of ages": (slower(1e300), "its compute time is 1e+300 s"),
    "ok without a time": (changed(wall=None), "it counts but holds no time"),
    "negative phase": (changed(phases_s={"import": -2.0}), "its phase import took -2 s: the clock ran backwards"),
    "negative rest": (changed(unattributed_s=-50.0), "its phases took 50 s more than its process"),
    "wrong result": (changed(wall=replace(timing(1.0), ci_low_s=7.0, ci_high_s=8.0)), "with an interval of 7 to 8 s"),
    "unknown hardware": (changed(hardware="toaster"), "toaster/matmul/"),
    "unknown case": (lambda m: [replace(m[0], case=replace(m[0].case, size=(("n", 3),))), *m[1:]], "is not in the plan"),
    "size unlike its workload": (
        lambda m: [replace(m[0], case=replace(m[0].case, size=(("<n>", 3),))), *m[1:]],
        "is not in the plan of this run",
    ),
    "another run's": (changed(run="yesterday"), "is not in the plan of this run"),
    "one repeat too many": (changed(repeat=7), "#7 is not in the plan"),
    "before its plan": (
        changed(started_at="2001-01-01T00:00:00+00:00"),
        "1 repeat of local-cpu-1 began before the run was planned: a clock there is wrong.",
    ),
    "two at once": (
        lambda made: [replace(r, started_at="2199-01-01T00:00:00+00:00", wall_s=60.0, phases_s={}) for r in made],
        "3 repeats of local-cpu began before the previous",
    ),
    "no time of day": (changed(started_at="yesterday at noon"), "Fastest: "),
    "huge reason": (changed(verdict=Verdict.WRONG, reasons=(HUGE,)), "alert('x')"),
    "another device": (changed(device="<b>tpu</b>"), "neither cpu nor cuda"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_report_names_each_implausible_scenario(empty_store, planned, name):
    change, words = SCENARIOS[name]
    fill(empty_store, change(good(planned)))
    assert words in said(empty_store)


TEXTS = {
    "corrupt JSON": ('{"run": "a', "not JSON"),
    "no object": ("[1, 2]", "not an object"),
    "NaN": (None, "nan is not a finite number"),
    "unknown schema": (("schema", 99), "schema 99 and this version reads schema 5"),
    "wrong type": (("repeat", "two"), "record.repeat is 'two', expected int"),
    "beyond 64 bits": (("seed", 2**80), "record.seed is"),
    "unknown field": (("colour", 1), "unknown field 'colour'"),
    "unknown verdict": (("verdict", "fine"), "record.verdict is 'fine', expected Verdict"),
    "huge value": (("repeat", HUGE), "record.repeat is"),
    "bytes": (b"\xff\xfe\x00", "not JSON"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_unreadable_records_are_counted_and_named(empty_store, planned, name):
    fill(empty_store, good(planned))
    path = empty_store.folder / "records" / record_path(good(planned)[0])
    text, words = TEXTS[name]
    if text is None:
        path.write_text(path.read_text().replace('"wall_s":', '"wall_s":NaN,"x":', 1))
        words = "NaN is not a finite number"
    elif isinstance(text, tuple):
        path.write_text(json.dumps(json.loads(path.read_text()) | dict([text])))
    else:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    report = said(empty_store)
    assert "1 files hold no record that can be read, or one of another repeat: local-cpu-1/" in report
    assert words in report and "Fastest: " in report
    (sentence,) = empty_store.records()[1]
    assert len(sentence) < 600 and "\n" not in sentence


def test_a_record_that_is_there_twice_counts_once(empty_store, planned):
    made = good(planned)
    fill(empty_store, made)
    path = empty_store.folder / "records" / record_path(made[0])
    (path.parent / "copy.json").write_text(path.read_text() + "\n" + path.read_text())
    text = said(empty_store)
    assert f"{made[0].id} came more than once: the last record of each counts." in text
    assert "1 files hold no record that can be read, or one of another repeat" in text
    assert {s.repeats for s in judged(empty_store.records()[0], empty_store).summaries} == {2}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_impossible_values_are_refused_in_memory_too(planned, bad):
    made = [replace(r, wall=timing(bad) if i == 0 else r.wall) for i, r in enumerate(good(planned))]
    comparison = compare(made, [machine(name) for name in HARDWARE], HARDWARE[0])
    assert any("its compute time is" in reason for s in comparison.summaries for reason in s.reasons)
    assert all(math.isfinite(s.compute_s.value) for s in comparison.summaries if s.compute_s)
    text = to_json(benchmark_json(made, grid_of(made, comparison), INFO))
    assert "NaN" not in text and "Infinity" not in text
    full_text(made, grid_of(made, comparison))


@pytest.mark.parametrize("price", [None, 0.0, 5e-324])
def test_without_a_price_that_means_something_nothing_is_cheapest(planned, price):
    machines = [machine(HARDWARE[0], 1.0), machine(HARDWARE[1], price)]
    made = good(planned)
    comparison = compare(made, machines, HARDWARE[0])
    full_text(made, grid_of(made, comparison))
    json.loads(to_json(benchmark_json(made, grid_of(made, comparison), INFO)))
    if not price:
        assert all(pairing.cost is None for pairing in comparison.pairings)
        assert not any("Cheapest" in sentence for sentence in comparison.sentences)


def of_plan(**changes):
    return lambda raw: raw | changes


PLANS = {
    "missing": (None, "is unknown in"),
    "empty": (lambda raw: "", "plan.json can't be read"),
    "no JSON": (lambda raw: "{" * 10, "plan.json can't be read"),
    "no object": (lambda raw: [], "plan.json can't be read"),
    "another schema": (of_plan(schema_version=9), "has schema 9, this version reads 1"),
    "a field missing": (lambda raw: {k: v for k, v in raw.items() if k != "cases"}, "the key 'cases' is missing"),
    "unknown baseline": (of_plan(baseline="toaster"), "its baseline 'toaster' is not among its hardware"),
    "no hardware": (of_plan(hardware=[]), "is not among its hardware: none"),
    "no cases": (of_plan(cases=[]), "it has 0 cases and repeats=2; both must be 1 or more"),
    "no repeats": (of_plan(repeats=0), "and repeats=0; both must be 1 or more"),
    "twice the same": (lambda raw: raw | {"hardware": raw["hardware"][:1] * 2}, "several machines of one name"),
    "no time": (of_plan(created_at="noon"), "created_at is 'noon', no time with a zone in ISO 8601"),
    "huge type": (of_plan(repeats=HUGE), "repeats is "),
    "negative price": (
        lambda raw: raw | {"hardware": [h | {"price": h["price"] | {"usd_per_hour": -1}} for h in raw["hardware"]]},
        "usd_per_hour is -1",
    ),
}  # fmt: skip


def run_report(monkeypatch, capsys, store, results):
    monkeypatch.setattr(sys, "argv", ["gridbench", "report", store.folder.name, "--results", str(results)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return ended.value.code, " ".join("".join(capsys.readouterr()).split())


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_cannot_be_right_is_one_sentence(monkeypatch, capsys, empty_store, planned, name):
    fill(empty_store, good(planned)[:1])
    change, words = PLANS[name]
    path = empty_store.folder / "plan.json"
    if change is None:
        path.unlink()
    else:
        raw = change(json.loads(path.read_text()))
        path.write_text(raw if isinstance(raw, str) else json.dumps(raw))
    code, text = run_report(monkeypatch, capsys, empty_store, empty_store.folder.parent)
    assert code == 2 and text.startswith("error: ") and words in text and len(text) < 600


def test_a_run_without_records_and_one_without_readable_ones_are_sentences(
    monkeypatch, capsys, empty_store, planned
):
    code, text = run_report(monkeypatch, capsys, empty_store, empty_store.folder.parent)
    assert code == 2 and f"run {planned.run}: it has no records yet" in text
    assert f"gridbench resume {planned.run}" in text
    fill(empty_store, good(planned)[:2])
    for path in (empty_store.folder / "records").rglob("*.json"):
        path.write_text("nonsense")
    code, text = run_report(monkeypatch, capsys, empty_store, empty_store.folder.parent)
    assert code == 2 and "none of its 2 records can be read" in text


def test_an_empty_run_still_has_a_report(empty_store):
    comparison = judged([], empty_store)
    assert comparison.answer[0].startswith("No results:") and "no record" in comparison.answer[0]
    assert comparison.answer[0] in full_text([], grid_of([], comparison))
    assert results_table([]).empty and benchmark_json([], grid_of([], comparison), INFO)["rows"] == []


@pytest.mark.server
@pytest.mark.parametrize(
    "name",
    ["nothing", "one cell", "all failed", "negative time", "unknown hardware", "huge reason", "corrupt JSON"],
)
def test_every_file_of_the_report_is_written(empty_store, planned, name):
    made = [] if name == "nothing" else good(planned)
    fill(empty_store, SCENARIOS[name][0](made) if name in SCENARIOS else made)
    if name == "corrupt JSON":
        (empty_store.folder / "records" / record_path(made[0])).write_text("{")
    if name == "nothing":
        report = write_files([], judged([], empty_store), empty_store)
    else:
        report = outcome.rebuild(empty_store)
    page = (empty_store.folder / "report.html").read_text()
    assert str(report) == str(empty_store.folder / "report.html") and "<script>alert" not in page
    for file in (
        "results.parquet",
        "comparison.csv",
        "benchmark_results.json",
        "time_by_size.png",
        "speedup.png",
    ):
        assert (empty_store.folder / file).stat().st_size > 0


def test_failures_of_a_whole_run_are_no_numbers(planned):
    made = [failed(Verdict.TIMEOUT, HUGE, r.case, r.hardware, r.repeat) for r in good(planned)]
    comparison = compare(made, [machine(name) for name in HARDWARE], HARDWARE[0])
    assert not comparison.totals and all(s.compute_s is None for s in comparison.summaries)
    assert len(full_text(made, grid_of(made, comparison))) < 20 * len(HUGE)


@given(
    factor=st.sampled_from([0.0, -1.0, 1e-300, 5e-324, 1e300]),
    what=st.sets(st.sampled_from(["wall", "work", "phases"]), min_size=1),
)
def test_a_terminal_shows_records_that_cannot_be(planned, factor, what):
    made = good(planned)
    off = [scaled(made[0], factor, what), *made[1:]]
    assert len(table([HEAD, *map(line, off)]).splitlines()) == len(off) + 2
    assert all(detail(each) for each in off)
    assert "nan" not in bare_comparison(off[:4], off[4:])
    json.loads(roofline_json(off))
    roofline_text(off)


@pytest.mark.server
def test_no_sign_in_a_text_of_a_record_ends_the_report(empty_store, planned):
    hostile = "\x1b[31mred\x00\ud800\uffff"
    texts = {"reasons": (hostile,), "data": hostile, "environment": {"cpu": hostile}}
    fill(empty_store, [replace(good(planned)[0], verdict=Verdict.CRASHED, **texts), *good(planned)[1:]])
    records, odd = empty_store.records()
    report = write_files(records, judged(records, empty_store), empty_store)
    assert not odd and "red\ufffd\ufffd" in report.read_text()
    assert (report.parent / "time_by_size.png").stat().st_size > 1000
