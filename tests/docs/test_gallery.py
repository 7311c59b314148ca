"""The gallery: its pages are reports of today's format, of real runs, and nobody's machine is named in them."""

import json
import re

import pytest

from tasks.report.html.templates import TEMPLATES
from tests.docs.gallery import EXHIBITS, GALLERY, MOST_PICTURE_BYTES, NOBODY, private_words
from workloads.harness.records.record import SCHEMA

MOST_PAGE_BYTES = 1_500_000  # 0.9 MB of it is the script that draws
PAGES = sorted(GALLERY.glob("*.html"))
IDS = set(
    re.findall(r'<(?:section|div) id="([\w-]+)"', "".join(p.read_text() for p in TEMPLATES.glob("*.j2")))
)


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])


def test_each_exhibit_has_its_page_its_picture_and_its_part_of_the_readme():
    assert {path.stem for path in PAGES} == {path.stem for path in GALLERY.glob("*.png")} == EXHIBITS.keys()
    readme = (GALLERY / "README.md").read_text()
    for name, exhibit in EXHIBITS.items():
        assert f"]({name}.html)" in readme and " ".join(("gridbench", *exhibit.words)) in readme


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_is_a_report_of_todays_format_that_can_be_kept(path):
    page = path.read_text()
    assert f', records of schema {SCHEMA}"' in page, "make gallery"
    shown = {name for name in re.findall(r'<section id="([\w-]+)"', page)}
    assert {"answer", "records"} <= shown <= IDS, "make gallery"
    data = data_of(page)
    assert data.keys() == {"themes", "charts", "records", "environments"} and len(data["records"]) >= 12
    assert path.stat().st_size < MOST_PAGE_BYTES
    assert path.with_suffix(".png").stat().st_size < MOST_PICTURE_BYTES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_names_no_machine(path):
    page = path.read_text()
    assert private_words(page) == []
    hostnames = {facts["hostname"] for facts in data_of(page)["environments"].values()}
    assert hostnames == {NOBODY}


@pytest.mark.parametrize(
    "words", ["in /home/me/code/train.py", 'folder="/root/x"', "(/tmp/a1/records)", '"hostname": "box-7"']
)
def test_what_names_a_machine_is_seen(words):
    assert private_words(f"<p>{words}</p>") and not private_words("<p>a/tmp/x and </home/>, 5 USD/h</p>")
