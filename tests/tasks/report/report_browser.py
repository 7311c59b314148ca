"""A real browser for tests of the report."""

from contextlib import contextmanager

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


@contextmanager
def chromium():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        browser.close()


def opened(browser, path, width=1280, height=900, scheme="light", **context):
    """Return the drawn page; `page.heard` has its requests and errors."""
    made = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **context)
    page = made.new_page()
    page.heard = []
    page.on("request", lambda request: page.heard.append(request.url))
    page.on("console", lambda message: page.heard.append(message.text))
    page.on("pageerror", lambda error: page.heard.append(str(error)))
    page.goto(path.as_uri())
    page.locator("html[data-complete]").wait_for()
    return page


def unfold(page):
    page.evaluate(
        "for (const e of document.querySelectorAll('details:not(.vega-embed details)')) e.open = true"
    )
    charts = page.locator("[data-chart]").count()
    sync_api.expect(page.locator("svg.marks")).to_have_count(charts, timeout=60_000)
