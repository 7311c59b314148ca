import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.errors import GridbenchError
from tasks.findings.compare import compare
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.grid import grid_of
from tasks.report.text.boxes import text_tables
from tasks.report.text.comparison import full_text
from tests.tasks.examples.records import machine, record
from tests.tasks.report.nonsense import HARDWARE, HUGE, INFO, fill, good, said, scaled
from workloads.harness.records.files import record_path
from workloads.harness.records.finite_json import to_json

ATOMS = st.one_of(
    st.sampled_from(
        [None, True, 0, -1, 3.5, 1e308, -1e308, 5e-324, 2**63, 2**80, "", "x", HUGE[:60], "../..", [], [1], {}, {"a": 1}]
    ),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)  # fmt: skip


def places(value, path=()):
    items = enumerate(value[:3]) if isinstance(value, list) else ()
    for key, item in value.items() if isinstance(value, dict) else items:
        yield (*path, key)
        yield from places(item, (*path, key))


PLACES = list(places(json.loads(record(0.01, hardware=HARDWARE[0]).to_json())))
ONE_MISTAKE = given(path=st.sampled_from(PLACES), value=ATOMS | st.just(...))
SAME_FOLDER = [HealthCheck.function_scoped_fixture]


def mutated(text, path, value):
    """Return a record's JSON with one value replaced; `...` removes it."""
    raw = json.loads(text)
    inner = raw
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(raw)


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
def test_a_single_mistake_in_a_record_gives_a_report_or_a_sentence(empty_store, planned, path, value):
    judge_with_a_mistake(empty_store, planned, path, value)


@pytest.mark.chaos
@settings(suppress_health_check=SAME_FOLDER, max_examples=400)
@ONE_MISTAKE
def test_any_single_mistake_in_a_record_gives_a_report_or_a_sentence(empty_store, planned, path, value):
    judge_with_a_mistake(empty_store, planned, path, value)


@settings(suppress_health_check=SAME_FOLDER, max_examples=10)
@given(path=st.data(), value=ATOMS | st.just(...))
def test_any_single_mistake_in_a_plan_gives_a_report_or_a_sentence(empty_store, planned, path, value):
    fill(empty_store, good(planned))
    raw = json.loads(planned.model_dump_json())
    at = path.draw(st.sampled_from([p for p in places(raw) if p[0] != "skips"]))
    (empty_store.folder / "plan.json").write_text(mutated(json.dumps(raw), at, value))
    try:
        said(empty_store)
    except GridbenchError as error:
        assert "\n" not in str(error) and len(str(error)) < 600
    finally:
        (empty_store.folder / "plan.json").write_text(planned.model_dump_json())


@settings(max_examples=15)
@given(
    factor=st.sampled_from([0.0, -1.0, 1e-300, 5e-324, 1e-9, 1e9, 1e150, 1e300]),
    which=st.sampled_from(["one", "cell", "machine", "all"]),
    what=st.sets(st.sampled_from(["wall", "work", "phases"]), min_size=1),
)
def test_figures_that_agree_with_each_other_and_with_nothing_else(planned, factor, which, what):
    """A consistently wrong clock or formula."""
    made, first = good(planned), good(planned)[0]
    hit = {
        "one": lambda r: r.id == first.id,
        "cell": lambda r: r.cell == first.cell,
        "machine": lambda r: r.hardware == first.hardware,
        "all": lambda r: True,
    }[which]
    off = [scaled(r, factor, what) if hit(r) else r for r in made]
    comparison = compare(off, [machine(name) for name in HARDWARE], HARDWARE[0])
    text_tables(grid_of((), comparison))
    full_text(off, grid_of(off, comparison))
    json.loads(to_json(benchmark_json(off, grid_of(off, comparison), INFO)))
    for pairing in comparison.pairings:
        for ratio in (pairing.compute, pairing.end_to_end, pairing.cost):
            assert ratio is None or 0 < ratio.estimate.value < math.inf
