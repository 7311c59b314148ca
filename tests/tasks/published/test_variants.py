from collections import Counter

from tests.tasks.published.variants import caught, findings, right_tables, variants, verdict

# The least number that is caught, by kind; `python -m tests.tasks.published.variants` names the others.
LEAST = {
    "cost": 8,
    "USD per million": 7,
    "total": 6,
    "per-GPU × GPUs": 7,
    "time × rate": 9,
    "busbw": 8,
    "percentiles": 6,
    "serving report": 6,
    "MFU": 7,
    "speedup": 11,
    "scaling": 6,
    "a thousand": 5,
    "the same number": 2,
    "swapped rows": 3,
    "slower card": 1,
    "larger model": 1,
}


def test_no_right_table_of_a_kind_is_accused(known):
    accused = {table["source"]: findings(table["text"], known)[0] for table in right_tables()}
    assert {source: found for source, found in accused.items() if found} == {}


def test_as_many_faults_of_each_kind_are_caught_as_before(known):
    made = list(variants())
    found = Counter(variant.kind for variant in made if caught(variant, verdict(variant, known)))
    assert (
        len(made) >= 60
        and sum(found.values()) >= 0.9 * len(made)
        and {kind: found[kind] for kind, least in LEAST.items() if found[kind] < least} == {}
    )
