import pytest

from tests.docs.ends import HEADS, lines, with_table
from tests.docs.shown import DOCS
from tests.infra.workers.ssh.ends.ends import ENDS, Said
from tests.infra.workers.ssh.ends.lanes import KINDS
from tests.infra.workers.ssh.ends.told import is_said


@pytest.mark.parametrize("name", HEADS)
def test_a_page_has_the_ends_of_the_suite(name):
    text = (DOCS / name).read_text()
    assert "\n".join(lines(name)) in text and with_table(name, text) == text, (
        "write it: python -m tests.docs.ends"
    )


def test_every_kind_of_lane_has_an_end_that_all_have_in_the_same_words():
    same = [
        name for name, end in ENDS.items() if end.said.keys() == set(KINDS) and len({*end.said.values()}) == 1
    ]
    assert len(same) > len(ENDS) / 3, same


def test_a_stated_sentence_matches_with_any_text_for_its_gaps():
    said = Said("Crashed", "crashed", "Box … stopped the job after timeout_s 10.").message
    assert is_said(said, "Box root@10.0.0.1:22 stopped the job after timeout_s 10.")
    assert not is_said(said, "Box root@10.0.0.1:22 stopped the job after timeout_s 100.")
    assert not is_said(said, "Box b stopped the job after timeout_s 10. And more.")
