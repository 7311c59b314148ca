"""Tables that people published, right and wrong: no right one is accused in a hundred, nine of ten wrong ones are.

`corpus/` has numbers and headers with the address of their source. Both halves are real tables of public
repositories; `wrong` says what is wrong in one: either as it was published, or `made`, by one mechanical change
of a right one. The rules were written with `development.yaml` at hand; `held_out.yaml` is of other sources.
"""

from functools import cache
from pathlib import Path

import pytest
import yaml

from tasks.errors import GridbenchError
from tasks.published.read import read_tables
from tasks.published.review import review

HALVES = ("development", "held_out")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def entries(half):
    return yaml.load((Path(__file__).parent / "corpus" / f"{half}.yaml").read_text(), LOADER)


def accused(text, known):
    try:
        tables = read_tables(text, "f")
    except GridbenchError:
        return None
    return [flaw.text for table in tables for flaw in review(table, None, known).findings if not flaw.doubt]


@pytest.mark.parametrize("half", HALVES)
def test_no_right_table_is_accused(half, known):
    right = [entry for entry in entries(half) if "wrong" not in entry]
    verdicts = {entry["source"] + entry["text"][:40]: accused(entry["text"], known) for entry in right}
    assert len(right) >= 40 and None not in verdicts.values()
    assert {name: found for name, found in verdicts.items() if found} == {}


@pytest.mark.parametrize("half", HALVES)
def test_nine_of_ten_wrong_tables_are_caught(half, known):
    wrong = [entry for entry in entries(half) if "wrong" in entry]
    missed = [(entry["wrong"], entry["source"]) for entry in wrong if not accused(entry["text"], known)]
    assert len(wrong) >= 30 and len(missed) <= len(wrong) / 10, missed


@pytest.mark.parametrize("half", HALVES)
def test_every_error_that_was_published_is_caught(half, known):
    published = [entry for entry in entries(half) if "wrong" in entry and "made" not in entry]
    assert len(published) >= 6
    assert [entry["wrong"] for entry in published if not accused(entry["text"], known)] == []
