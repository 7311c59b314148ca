"""Series: what they are called, and where their segments start."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tasks.regressions.series import Observation, Series, SeriesKey

KEY = SeriesKey("local-cpu", "matmul/n=5000/fp32", "main")
AT = datetime(2026, 11, 1, 2, tzinfo=UTC)
IDS = st.sampled_from(["", "a", "b"])


def series(*ids):
    """Nights on machines and with references of these ids."""
    nights = (
        Observation(f"run-{i}", AT + timedelta(days=i), 1.0, machine_id=machine, reference=reference)
        for i, (machine, reference) in enumerate(ids)
    )
    return Series(KEY, tuple(nights))


def test_a_key_has_a_readable_name_and_an_order():
    assert KEY.id == "local-cpu/matmul/n=5000/fp32@main"
    other = SeriesKey("gke-l4", "matmul/n=5000/fp32", "release")
    assert sorted([KEY, other]) == [other, KEY]


def test_a_segment_starts_where_the_machine_or_the_reference_is_another():
    found = series(("a", "r"), ("a", "r"), ("b", "r"), ("b", "q"), ("a", "p"), ("a", "p"))
    assert found.changes == {2: ("machine",), 3: ("reference",), 4: ("machine", "reference")}
    assert found.segment_start == 4 and found.segment == found.nights[4:]


def test_what_is_unknown_starts_no_segment_and_hides_none():
    assert series(("", ""), ("a", ""), ("", "r"), ("a", ""), ("", "")).changes == {}
    assert series(("a", "r"), ("", ""), ("b", "r")).changes == {2: ("machine",)}


def test_a_night_counts_where_it_has_a_number():
    assert Observation("run", AT, 1.0).ok
    assert not Observation("run", AT, None, verdict="crashed", repeats=0).ok


def test_an_empty_series_has_an_empty_segment():
    assert series().changes == {} and series().segment_start == 0 and series().segment == ()


@given(st.lists(st.tuples(IDS, IDS), max_size=12))
def test_a_segment_is_of_one_machine_and_one_reference(ids):
    found = series(*ids)
    assert len({n.machine_id for n in found.segment} - {""}) <= 1
    assert len({n.reference for n in found.segment} - {""}) <= 1
    assert all(0 < index < len(ids) and ids[index] != ids[index - 1] for index in found.changes)
