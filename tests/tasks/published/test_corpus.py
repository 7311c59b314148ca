"""Published tables: no right one is accused in a hundred, nine of ten wrong ones are.

`corpus/` has numbers and headers with their source's address. All are real tables of public repositories;
`wrong` names the fault, as published or `made` by one mechanical change. The rules were written with
`development.yaml`; `held_out.yaml` is of other sources. `reshaped.yaml` has shapes of forty more with our own
numbers, judged once when it was written.
"""

from functools import cache
from pathlib import Path

import pytest
import yaml

from tasks.errors import GridbenchError
from tasks.published.read import read_tables
from tasks.published.review import review

# Of each set, the least number of right tables, of wrong ones, and of those that were published with their error.
SETS = {"development": (40, 30, 6), "held_out": (40, 30, 6), "reshaped": (30, 10, 1)}
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def entries(name):
    return yaml.load((Path(__file__).parent / "corpus" / f"{name}.yaml").read_text(), LOADER)


def accused(text, known):
    try:
        tables = read_tables(text, "f")
    except GridbenchError:
        return None
    return [flaw.text for table in tables for flaw in review(table, None, known).findings if not flaw.doubt]


@pytest.mark.parametrize("name", SETS)
def test_no_right_table_is_accused(name, known):
    right = [entry for entry in entries(name) if "wrong" not in entry]
    verdicts = {entry["source"] + entry["text"][:40]: accused(entry["text"], known) for entry in right}
    assert len(right) >= SETS[name][0] and None not in verdicts.values()
    assert {source: found for source, found in verdicts.items() if found} == {}


@pytest.mark.parametrize("name", SETS)
def test_nine_of_ten_wrong_tables_are_caught(name, known):
    wrong = [entry for entry in entries(name) if "wrong" in entry]
    missed = [(entry["wrong"], entry["source"]) for entry in wrong if not accused(entry["text"], known)]
    assert len(wrong) >= SETS[name][1] and len(missed) <= len(wrong) / 10, missed


@pytest.mark.parametrize("name", SETS)
def test_every_error_that_was_published_is_caught(name, known):
    published = [entry for entry in entries(name) if "wrong" in entry and "made" not in entry]
    assert len(published) >= SETS[name][2]
    assert [entry["wrong"] for entry in published if not accused(entry["text"], known)] == []
