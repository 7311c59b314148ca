from dataclasses import replace

import pytest

from tasks.results.wording import code_of, code_text
from tests.tasks.examples.records import ENVIRONMENT, record
from tests.tasks.examples.script_records import script_repeats

COMMIT = "d1e4668d" + "0" * 32


@pytest.mark.parametrize(
    ("facts", "code", "short"),
    [
        ({"commit": COMMIT, "code": "1a2b3c4d5e6f"}, COMMIT, "d1e4668d"),
        (
            {"commit": f"{COMMIT}-dirty", "code": "1a2b3c4d5e6f"},
            f"{COMMIT}-dirty-1a2b3c4d5e6f",
            "d1e4668d+1a2b3c4d",
        ),
        ({"commit": f"{COMMIT}-dirty"}, f"{COMMIT}-dirty", "d1e4668d+"),
        ({"commit": "v1.4"}, "v1.4", "v1.4"),
    ],
)
def test_uncommitted_code_is_marked_with_its_hash(facts, code, short):
    found = code_of(record(1.0, environment=ENVIRONMENT | facts))
    assert found == code and code_text(found) == short


def test_a_script_has_the_id_of_its_own_code():
    one = script_repeats("cpu-box", [1.0])[0]
    own = replace(one, script=replace(one.script, code="sha256:" + "ab" * 32))
    assert code_of(own) == own.script.code and code_text(own.script.code) == "abababab"
    assert code_of(record(1.0, environment={"commit": 3})) is None
