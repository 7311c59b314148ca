import re
import subprocess
from collections import Counter

import pytest

from tasks.report.grid import grid_of
from tasks.report.html.page import report_html
from tests.tasks.examples.reports import RUN, comparison, records
from tests.tasks.report.report_browser import FLAGS, chromium, opened, unfold
from tests.tasks.report.server.pdf_text import pdf_text

CHARTS = """() => [...document.querySelectorAll("[data-chart]")].map(
  (box) => [...box.querySelectorAll("svg.marks text")].map((text) => text.textContent))"""


BEGIN = 16  # characters of a name that no width of a chart cuts
AXES = ("times as fast", "seconds before the first result")  # titles that only charts have


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = records()
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(report_html(made, grid_of(made, comparison(made)), RUN), "utf-8")
    return file


@pytest.fixture(scope="module")
def charts(path):
    with chromium() as browser:
        page = opened(browser, path)
        unfold(page)
        texts = page.evaluate(CHARTS)
    return [[text[:BEGIN] for text in chart if re.search(r"[a-z]{3}", text)] for chart in texts]


def printed(path, folder, *flags):
    """Return the words on paper, by Chromium's own command, which never waits."""
    made = folder / "report.pdf"
    command = ["/usr/bin/chromium", "--headless", *FLAGS, *flags, f"--print-to-pdf={made}", path.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return pdf_text(made.read_bytes())


@pytest.mark.parametrize("flags", [(), ("--blink-settings=preferredColorScheme=0",)], ids=["light", "dark"])
def test_every_chart_is_on_paper(path, charts, tmp_path, flags):
    paper = printed(path, tmp_path, *flags)
    assert len(charts) > 20 and [] not in charts
    wanted = Counter(text for chart in charts for text in set(chart))
    missing = {text: count for text, count in wanted.items() if paper.count(text) < count}
    assert missing == {}


def test_a_page_without_its_scripts_has_no_chart_on_paper(path, charts, tmp_path):
    still = tmp_path / "still.html"
    still.write_text(
        re.sub(r'<script type="module">.*?</script>', "", path.read_text("utf-8"), flags=re.DOTALL)
    )
    paper = printed(still, tmp_path)
    assert all(any(axis.startswith(text) for chart in charts for text in chart) for axis in AXES)
    assert not any(axis in paper for axis in AXES)
