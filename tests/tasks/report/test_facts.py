"""The report's numbers and its text.

`golden/numbers.txt` has the numbers of the page of commit d1e4668. `golden/report.txt` has the page's text;
write it with `WRITE_GOLDEN=1 pytest tests/tasks/report/test_facts.py`.
"""

import html
import re
from dataclasses import replace
from pathlib import Path

from tasks.report.html.page import report_html
from tests.golden import assert_golden
from tests.tasks.examples import five_cases
from tests.tasks.examples.reports import RUN, arranged

GOLDEN = Path(__file__).with_name("golden")


def blocks(page):
    page = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.S)
    page = re.sub(r"</?(?:p|li|h\d|dt|dd|td|th|summary|figcaption|option|tr|title)\b[^>]*>", "\f", page)
    text = html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\xa0", " ")
    return [line for block in text.split("\f") if (line := " ".join(block.split()))]


def test_the_page_has_every_number_that_it_had_before_its_details_were_folded():
    before = set((GOLDEN / "numbers.txt").read_text().splitlines())
    page = report_html(*arranged(*five_cases.run()), RUN)
    text = " ".join(blocks(page))
    assert len(before) > 200 and [number for number in sorted(before) if number not in text] == []


def test_the_text_of_the_page_is_as_in_the_golden_file():
    records, comparison = five_cases.run()
    bare = replace(comparison, answer=(), details=(), caveats=(), findings=(), observations=())
    _, grid = arranged(records, bare)
    text = "\n".join(blocks(report_html(records[-1:], grid, RUN))) + "\n"
    path = GOLDEN / "report.txt"
    assert_golden(text, path)
