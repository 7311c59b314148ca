import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mutations import misleads, mutated
from tests.tasks.report.nonsense import fill, good, said
from workloads.harness.records.errors import RecordError
from workloads.harness.records.record import Record

WHO = ("run", "hardware", "case", "repeat", "schema")  # a receiver takes only records of the order


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_records_of_a_hostile_box_give_a_report(empty_store, planned, data):
    made = good(planned)
    for place in data.draw(st.sets(st.integers(0, len(made) - 1), min_size=1, max_size=3)):
        raw = json.loads(made[place].to_json())
        own = {key: value for key, value in raw.items() if key not in WHO}
        changed = data.draw(mutated(own, most=2) | mutated(own, most=6, of_the_same_type=True))
        try:
            text = json.dumps(changed | {key: raw[key] for key in WHO})
        except (TypeError, ValueError):
            continue
        try:
            made[place] = Record.from_json(text)
        except RecordError as error:
            assert not misleads(str(error))
    fill(empty_store, made)
    text = said(empty_store)
    assert "\x1b" not in text
