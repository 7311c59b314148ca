import json
import re
from dataclasses import replace

import pytest

from tasks.gather import judged
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.report.html.templates import TEMPLATES
from tasks.store.store import Store
from tests.docs.gallery import EXHIBITS, GALLERY, MOST_PICTURE_BYTES, NOBODY, packed, private_words, unpacked
from tests.tasks.report.nonsense import HARDWARE, fill, good
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
        assert f"]({name}.html)" in readme and exhibit.command in readme


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
def test_paths_and_host_names_are_found(words):
    assert private_words(f"<p>{words}</p>") and not private_words("<p>a/tmp/x and </home/>, 5 USD/h</p>")


def test_a_packed_run_can_be_drawn_again_and_names_no_machine(tmp_path):
    planned = make_plan(RunRequest(suite="quick", hardware=HARDWARE, repeats=2, seed=7))
    store = Store.create(tmp_path / "measured", planned)
    made = [
        replace(record, environment=record.environment | {"hostname": "box-7"}) for record in good(planned)
    ]
    fill(store, made)
    content = packed(store)
    again = unpacked(content, tmp_path / "unpacked")
    assert again.plan == planned
    records, odd = again.records()
    assert odd == [] and {record.id for record in records} == {record.id for record in made}
    assert {record.environment["hostname"] for record in records} == {NOBODY}
    assert judged(records, again).answer == judged(made, store).answer


def test_a_run_with_a_path_of_the_machine_is_not_packed(tmp_path):
    planned = make_plan(RunRequest(suite="quick", hardware=HARDWARE, repeats=2, seed=7))
    store = Store.create(tmp_path, planned)
    fill(store, [replace(good(planned)[0], reasons=("see /home/me/log",))])
    with pytest.raises(SystemExit, match="/home/me"):
        packed(store)
