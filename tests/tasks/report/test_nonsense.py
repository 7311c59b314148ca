"""Nonsense in a run's folder gives a report that says so, or one sentence: never a traceback, never a silent number."""

import json
import math
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridbench import main
from gridbench.run import outcome
from tasks.errors import GridbenchError
from tasks.findings.compare import compare
from tasks.gather import judged
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.publish import summary, write_files
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.files.comparison_table import comparison_table
from tasks.report.finite_json import to_json
from tasks.report.info import RunInfo
from tasks.report.text.boxes import text_tables
from tasks.report.text.comparison import full_text
from tasks.store.frames import results_table
from tasks.store.store import Store
from tests.tasks.examples.records import failed, machine, record, timing
from workloads.harness.records.files import record_path
from workloads.harness.records.record import Record, Timing, Verdict
from workloads.harness.records.text import HEAD, comparison, detail, line, table
from workloads.harness.roofline.bounds import roofline_json, roofline_text

HARDWARE = ("local-cpu-1", "local-cpu")
HUGE = "<script>alert('x')</script> & ☃ \u202e\u2028" + "é" * 100_000
INFO = RunInfo("a-run", "quick", "2026-07-24T02:00:11+00:00", 1, "0.1.0")


@pytest.fixture(scope="module")
def planned():
    return make_plan(RunRequest(suite="quick", hardware=HARDWARE, repeats=2, seed=7))


def good(plan):
    """Two repeats of two cases on two machines, all of them well."""
    cases = [planned.case for planned in plan.cases if planned.workload == "matmul"][:2]
    return [
        record(0.01 * (1 + place) * (2 - side) * (1 + 0.001 * repeat), case, hardware, repeat, run=plan.run)
        for side, hardware in enumerate(HARDWARE)
        for place, case in enumerate(cases)
        for repeat in (0, 1)
    ]


@pytest.fixture
def store(tmp_path, planned):
    return Store.create(tmp_path / "results", planned)


def fill(store, records):
    for made in records:
        path = store.folder / "records" / record_path(made)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made.to_json())


def said(store):
    """Everything that a report says, short of its pictures; fails where that is not made of plain numbers."""
    records, odd = store.records()
    comparison = judged(records, store)
    for frame in (comparison_table(comparison), results_table(records, comparison.refusals)):
        for column in frame.select_dtypes("number"):
            assert not any(math.isinf(value) for value in frame[column].dropna())
    results = json.loads(to_json(benchmark_json(records, comparison, INFO)))
    assert len(results["rows"]) == len(records)
    summary(comparison, store.plan, store.folder / "report.html", "https://report")
    text = full_text(records, comparison)
    assert not {"nan", "inf"} & set(text.lower().replace("(", " ").split())
    return " ".join([*text.split(), *odd])


def test_the_good_run_has_nothing_odd(store, planned):
    fill(store, good(planned))
    text = said(store)
    assert "Fastest for this suite: local-cpu" in text
    for word in ("more than once", "not asked for", "schema", "clock", "can be read", "impossible"):
        assert word not in text


def changed(**changes):
    return lambda made: [replace(made[0], **changes), *made[1:]]


def slower(seconds):
    return changed(wall=timing(seconds), phases_s={}, wall_s=0.0)


SCENARIOS = {
    "one cell": (lambda made: made[:1], "Only local-cpu-1 has ok cells: measure a second machine"),
    "all failed": (
        lambda made: [replace(r, verdict=Verdict.CRASHED, reasons=("it fell",), wall=None) for r in made],
        "The baseline, local-cpu-1, has no ok cell, so there is no speedup.",
    ),
    "zero time": (slower(0.0), "its compute time is 0 s"),
    "negative time": (slower(-1.0), "its compute time is -1 s"),
    "denormal time": (slower(5e-324), "its compute time is 4.94066e-324 s"),
    "time of ages": (slower(1e300), "its compute time is 1e+300 s"),
    "ok without a time": (changed(wall=None), "it is ok but holds no time"),
    "negative phase": (changed(phases_s={"import": -2.0}), "its phase import took -2 s: the clock ran backwards"),
    "negative rest": (changed(unattributed_s=-50.0), "its phases took 50 s more than its process"),
    "wrong result": (changed(wall=replace(timing(1.0), ci_low_s=7.0, ci_high_s=8.0)), "with an interval of 7 to 8 s"),
    "unknown hardware": (changed(hardware="toaster"), "toaster/matmul/"),
    "unknown case": (lambda m: [replace(m[0], case=replace(m[0].case, size=(("n", 3),))), *m[1:]], "was not asked for"),
    "size unlike its workload": (
        lambda m: [replace(m[0], case=replace(m[0].case, size=(("<n>", 3),))), *m[1:]],
        "was not asked for by the plan of this run",
    ),
    "another run's": (changed(run="yesterday"), "was not asked for by the plan of this run"),
    "one repeat too many": (changed(repeat=7), "#7 was not asked for by the plan of this run"),
    "schema 1 among 3": (changed(schema=1), "1 of 8 records are of an older schema than 3"),
    "before its plan": (
        changed(started_at="2001-01-01T00:00:00+00:00"),
        "1 repeat of local-cpu-1 began before the run was planned: a clock there is wrong.",
    ),
    "two at once": (
        lambda made: [replace(r, started_at="2199-01-01T00:00:00+00:00", wall_s=60.0, phases_s={}) for r in made],
        "3 repeats of local-cpu began before the one before had ended",
    ),
    "no time of day": (changed(started_at="yesterday at noon"), "Fastest for this suite"),
    "huge reason": (changed(verdict=Verdict.WRONG, reasons=(HUGE,)), "alert('x')"),
    "another device": (changed(device="<b>tpu</b>"), "neither cpu nor cuda"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_report_says_so(store, planned, name):
    change, words = SCENARIOS[name]
    fill(store, change(good(planned)))
    assert words in said(store)


TEXTS = {
    "corrupt JSON": ('{"run": "a', "not JSON"),
    "no object": ("[1, 2]", "not an object"),
    "NaN": (None, "nan is not a finite number"),
    "unknown schema": (("schema", 99), "schema 99, this version reads 1 to 3"),
    "wrong type": (("repeat", "two"), "record.repeat is 'two', expected int"),
    "beyond 64 bits": (("seed", 2**80), "record.seed is"),
    "unknown field": (("colour", 1), "unknown field 'colour'"),
    "unknown verdict": (("verdict", "fine"), "record.verdict is 'fine', expected Verdict"),
    "huge value": (("repeat", HUGE), "record.repeat is"),
    "bytes": (b"\xff\xfe\x00", "not JSON"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_cannot_be_read_is_counted_and_named(store, planned, name):
    fill(store, good(planned))
    path = store.folder / "records" / record_path(good(planned)[0])
    text, words = TEXTS[name]
    if text is None:
        path.write_text(path.read_text().replace('"wall_s":', '"wall_s":NaN,"x":', 1))
        words = "NaN is not a finite number"
    elif isinstance(text, tuple):
        path.write_text(json.dumps(json.loads(path.read_text()) | dict([text])))
    else:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    report = said(store)
    assert "1 files hold no record that can be read, or one of another repeat: local-cpu-1/" in report
    assert words in report and "Fastest for this suite" in report
    (sentence,) = store.records()[1]
    assert len(sentence) < 600 and "\n" not in sentence


def test_a_record_that_is_there_twice_counts_once(store, planned):
    made = good(planned)
    fill(store, made)
    path = store.folder / "records" / record_path(made[0])
    (path.parent / "copy.json").write_text(path.read_text() + "\n" + path.read_text())
    text = said(store)
    assert f"{made[0].id} came more than once: the last record of each counts." in text
    assert "1 files hold no record that can be read, or one of another repeat" in text
    assert {s.repeats for s in judged(store.records()[0], store).summaries} == {2}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_no_file_can_hold_is_refused_in_memory_too(planned, bad):
    made = [replace(r, wall=timing(bad) if i == 0 else r.wall) for i, r in enumerate(good(planned))]
    comparison = compare(made, [machine(name) for name in HARDWARE], HARDWARE[0])
    assert any("its compute time is" in reason for s in comparison.summaries for reason in s.reasons)
    assert all(math.isfinite(s.compute_s.value) for s in comparison.summaries if s.compute_s)
    text = to_json(benchmark_json(made, comparison, INFO))
    assert "NaN" not in text and "Infinity" not in text
    full_text(made, comparison)


@pytest.mark.parametrize("price", [None, 0.0, 5e-324])
def test_without_a_price_that_means_something_nothing_is_cheapest(planned, price):
    machines = [machine(HARDWARE[0], 1.0), machine(HARDWARE[1], price)]
    made = good(planned)
    comparison = compare(made, machines, HARDWARE[0])
    full_text(made, comparison)
    json.loads(to_json(benchmark_json(made, comparison, INFO)))
    if not price:
        assert all(pairing.cost is None for pairing in comparison.pairings)
        assert not any("Cheapest" in sentence for sentence in comparison.answer)


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
def test_a_plan_that_cannot_be_right_is_one_sentence(monkeypatch, capsys, store, planned, name):
    fill(store, good(planned)[:1])
    change, words = PLANS[name]
    path = store.folder / "plan.json"
    if change is None:
        path.unlink()
    else:
        raw = change(json.loads(path.read_text()))
        path.write_text(raw if isinstance(raw, str) else json.dumps(raw))
    code, text = run_report(monkeypatch, capsys, store, store.folder.parent)
    assert code == 2 and text.startswith("error: ") and words in text and len(text) < 600


def test_a_run_without_records_and_one_without_readable_ones_are_sentences(
    monkeypatch, capsys, store, planned
):
    code, text = run_report(monkeypatch, capsys, store, store.folder.parent)
    assert code == 2 and f"run {planned.run}: has no records yet; `gridbench resume" in text
    fill(store, good(planned)[:2])
    for path in (store.folder / "records").rglob("*.json"):
        path.write_text("nonsense")
    code, text = run_report(monkeypatch, capsys, store, store.folder.parent)
    assert code == 2 and "none of its 2 records can be read" in text


ATOMS = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            0,
            -1,
            3.5,
            1e308,
            -1e308,
            5e-324,
            2**63,
            2**80,
            "",
            "x",
            HUGE[:60],
            "../..",
            [],
            [1],
            {},
            {"a": 1},
        ]
    ),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)


def places(value, path=()):
    """Every place in a JSON value, below its top."""
    items = (
        value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    )
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


FULL = record(0.01, hardware=HARDWARE[0])
PLACES = list(places(json.loads(FULL.to_json())))


def mutated(text, path, value):
    """A record's JSON with one value replaced; `...` takes it away."""
    raw = json.loads(text)
    inner = raw
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(raw)


ONE_MISTAKE = given(path=st.sampled_from(PLACES), value=ATOMS | st.just(...))
SAME_FOLDER = [HealthCheck.function_scoped_fixture]


def judge_with_a_mistake(store, planned, path, value):
    made = good(planned)
    fill(store, made)
    file = store.folder / "records" / record_path(made[0])
    file.write_text(mutated(made[0].to_json(), path, value))
    try:
        text = said(store)
    except GridbenchError as error:
        assert "\n" not in str(error)
        return
    assert ("1 files hold no record that can be read" in text) >= (len(store.records()[0]) < len(made))


@settings(suppress_health_check=SAME_FOLDER, max_examples=10)
@ONE_MISTAKE
def test_a_single_mistake_in_a_record_gives_a_report_or_a_sentence(store, planned, path, value):
    judge_with_a_mistake(store, planned, path, value)


@pytest.mark.server
@settings(suppress_health_check=SAME_FOLDER, max_examples=400)
@ONE_MISTAKE
def test_any_single_mistake_in_a_record_gives_a_report_or_a_sentence(store, planned, path, value):
    judge_with_a_mistake(store, planned, path, value)


@settings(suppress_health_check=SAME_FOLDER, max_examples=10)
@given(path=st.data(), value=ATOMS | st.just(...))
def test_any_single_mistake_in_a_plan_gives_a_report_or_a_sentence(store, planned, path, value):
    fill(store, good(planned))
    raw = json.loads(planned.model_dump_json())
    at = path.draw(st.sampled_from([p for p in places(raw) if p[0] != "skips"]))
    (store.folder / "plan.json").write_text(mutated(json.dumps(raw), at, value))
    try:
        said(store)
    except GridbenchError as error:
        assert "\n" not in str(error) and len(str(error)) < 600
    finally:
        (store.folder / "plan.json").write_text(planned.model_dump_json())


@settings(max_examples=15)
@given(
    factor=st.sampled_from([0.0, -1.0, 1e-300, 5e-324, 1e-9, 1e9, 1e150, 1e300]),
    which=st.sampled_from(["one", "cell", "machine", "all"]),
    what=st.sets(st.sampled_from(["wall", "work", "phases"]), min_size=1),
)
def test_figures_that_agree_with_each_other_and_with_nothing_else(planned, factor, which, what):
    """A clock or a formula that is off by any factor, everywhere alike, meets no division that it breaks."""
    made, first = good(planned), good(planned)[0]
    hit = {
        "one": lambda r: r.id == first.id,
        "cell": lambda r: r.cell == first.cell,
        "machine": lambda r: r.hardware == first.hardware,
        "all": lambda r: True,
    }[which]
    off = [scaled(r, factor, what) if hit(r) else r for r in made]
    comparison = compare(off, [machine(name) for name in HARDWARE], HARDWARE[0])
    text_tables(comparison)
    full_text(off, comparison)
    json.loads(to_json(benchmark_json(off, comparison, INFO)))
    for pairing in comparison.pairings:
        for ratio in (pairing.compute, pairing.end_to_end, pairing.cost):
            assert ratio is None or 0 < ratio.estimate.value < math.inf


def scaled(made: Record, factor: float, what: set[str]) -> Record:
    def times(timed: Timing) -> Timing:
        low, high = sorted((timed.ci_low_s * factor, timed.ci_high_s * factor))
        return replace(
            timed,
            samples_s=tuple(s * factor for s in timed.samples_s),
            median_s=timed.median_s * factor,
            ci_low_s=low,
            ci_high_s=high,
        )

    changes = {
        "wall": lambda: {"wall": times(made.wall)},
        "work": lambda: {
            "work": replace(made.work, units=factor, flops=made.work.flops * factor, bytes=made.work.bytes * factor)
        },
        "phases": lambda: {
            "phases_s": {name: s * factor for name, s in made.phases_s.items()},
            "wall_s": made.wall_s * factor,
            "unattributed_s": made.unattributed_s * factor,
        },
    }  # fmt: skip
    return replace(made, **{key: value for name in what for key, value in changes[name]().items()})


def test_an_empty_run_still_has_a_report(store):
    """The flow publishes whatever came: nothing, too."""
    comparison = judged([], store)
    assert comparison.answer[0] == "The baseline, local-cpu-1, has no ok cell, so there is no speedup."
    assert "has no ok cell" in full_text([], comparison)
    assert results_table([]).empty and benchmark_json([], comparison, INFO)["rows"] == []


@pytest.mark.server
@pytest.mark.parametrize(
    "name",
    ["nothing", "one cell", "all failed", "negative time", "unknown hardware", "huge reason", "corrupt JSON"],
)
def test_every_file_of_the_report_is_written(store, planned, name):
    made = [] if name == "nothing" else good(planned)
    fill(store, SCENARIOS[name][0](made) if name in SCENARIOS else made)
    if name == "corrupt JSON":
        (store.folder / "records" / record_path(made[0])).write_text("{")
    report = write_files([], judged([], store), store) if name == "nothing" else outcome.rebuild(store)
    page = (store.folder / "report.html").read_text()
    assert str(report) == str(store.folder / "report.html") and "<script>alert" not in page
    for file in (
        "results.parquet",
        "comparison.csv",
        "benchmark_results.json",
        "time_by_size.png",
        "speedup.png",
    ):
        assert (store.folder / file).stat().st_size > 0


def test_failures_of_a_whole_run_are_no_numbers(planned):
    made = [failed(Verdict.TIMEOUT, HUGE, r.case, r.hardware, r.repeat) for r in good(planned)]
    comparison = compare(made, [machine(name) for name in HARDWARE], HARDWARE[0])
    assert not comparison.totals and all(s.compute_s is None for s in comparison.summaries)
    assert len(full_text(made, comparison)) < 20 * len(HUGE)


@given(
    factor=st.sampled_from([0.0, -1.0, 1e-300, 5e-324, 1e300]),
    what=st.sets(st.sampled_from(["wall", "work", "phases"]), min_size=1),
)
def test_a_terminal_shows_records_that_cannot_be(planned, factor, what):
    """`show`, `compare` and `roofline` of the harness see records before any gate does."""
    made = good(planned)
    off = [scaled(made[0], factor, what), *made[1:]]
    assert len(table([HEAD, *map(line, off)]).splitlines()) == len(off) + 2
    assert all(detail(each) for each in off)
    assert "nan" not in comparison(off[:4], off[4:])
    json.loads(roofline_json(off))
    roofline_text(off)
