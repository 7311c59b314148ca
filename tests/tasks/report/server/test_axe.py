import pytest

from tasks.report.html.page import report_html
from tests.tasks.examples import five_cases, scaling, script_records
from tests.tasks.examples.reports import RUN, arranged, comparison, nothing_ok, records
from tests.tasks.report.report_browser import chromium, opened

pytestmark = pytest.mark.flaky(
    reruns=2, reason="Chromium loses a click or draws late where the machine is busy"
)

axe = pytest.importorskip("axe_core_python.sync_playwright")
PAGES = {
    "images": lambda: (made := records(), comparison(made)),
    "scaling": scaling.run,
    "script": script_records.run,
    "five": five_cases.run,
    "nothing": nothing_ok,
}


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def written(folder, name):
    path = folder / f"{name}.html"
    path.write_text(report_html(*arranged(*PAGES[name]()), RUN), "utf-8")
    return path


# The rule `summary-name` is newer than this axe.
NAMELESS = "them => them.filter(it => !it.ariaLabel && !it.textContent.trim()).map(it => it.outerHTML)"
# Each page, width and scheme at least once, and the fullest page in both: a look takes half a minute.
LOOKS = [
    ("images", 1440, "light"),
    pytest.param("images", 390, "dark", marks=pytest.mark.chaos),
    pytest.param("scaling", 1440, "dark", marks=pytest.mark.chaos),
    ("nothing", 390, "light"),
    ("script", 390, "dark"),
    ("five", 1280, "light"),
]


@pytest.mark.parametrize(("name", "width", "scheme"), LOOKS)
def test_axe_finds_no_violation(browser, tmp_path, name, width, scheme):
    page = opened(browser, written(tmp_path, name), width, 900, scheme, bypass_csp=True)
    page.evaluate("for (const e of document.querySelectorAll('details')) e.open = true")
    for button in page.locator(".more").all()[:2]:
        button.click()
    # the marks inside of charts are hidden from assistive technology, and take axe most of its time
    found = axe.Axe().run(page, context={"exclude": [["svg.marks"]]})
    told = [(rule["id"], rule["nodes"][0]["html"][:160], len(rule["nodes"])) for rule in found["violations"]]
    assert told == []
    assert page.locator("summary").evaluate_all(NAMELESS) == []
    assert len(found["passes"]) > 20
    page.context.close()
