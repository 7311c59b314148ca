"""Make docs/gallery anew from measurements of this machine: `make gallery`, or `python -m tests.docs.gallery NAME…`.

Each report is of real runs. The name of the machine is left out of its records, and a page that has a path or a
login name of this machine is refused.
"""

import argparse
import getpass
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from playwright.sync_api import sync_playwright

from tasks.gather import judged
from tasks.publish import run_info
from tasks.report.grid import grid_of
from tasks.report.html.page import report_html
from tasks.store.store import Store, runs
from workloads.harness.records.record import Record

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs" / "gallery"
BOTH = ("--on", "local-cpu-1", "--on", "local-cpu")
NOBODY = "not shown"
PRIVATE = re.compile(r"(?<![\w.<])/(?:home|root|tmp|work|Users|private|mnt|media|srv|data)/[\w.-]+")
WIDTH, HEIGHT, SCALE = 1280, 860, 0.55
MOST_PICTURE_BYTES = 150_000
SENTENCES = 3  # of the answer, beside its picture


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A report of the gallery, by the words of `gridbench` that measure it."""

    title: str
    words: tuple[str, ...]
    about: str


EXHIBITS = {
    "quick": Exhibit(
        "A first look",
        ("run", "quick", *BOTH),
        "What `make bench` leaves: five cases on one thread and on both cores of a small VM.",
    ),
    "script": Exhibit(
        "A training script, unchanged",
        ("run", "docs/gallery/script/shapes.toml", *BOTH),
        "[A small network](script/train.py) that tells shapes apart, by [a suite](script/shapes.toml) of two "
        "batch sizes: hours and USD of its 20 epochs, and what a step goes to.",
    ),
    "break-even": Exhibit(
        "From which size on do two cores pay?",
        ("run", "docs/gallery/sizes.toml", *BOTH, "--break-even"),
        "[Three sizes](sizes.toml) of two workloads, then further ones until each break-even is known.",
    ),
}
HEAD = """# Gallery

Three real reports, as `gridbench` wrote them on a VM with two cores. GitHub shows such a file as text: download it and open it
in a browser; it needs no network. `make gallery` measures and writes all of this page anew.
"""


def measured(exhibit: Exhibit, results: Path) -> Store:
    """Measure an exhibit with the command; return the store of its run."""
    command = [sys.executable, "-c", "from gridbench.main import main; main()", *exhibit.words]
    done = subprocess.run([*command, "--results", str(results)], cwd=ROOT, check=False)
    if done.returncode not in (0, 1):  # 1: some cell was not measured, which the report says
        sys.exit(f"{' '.join(exhibit.words)} ended with {done.returncode}")
    (name,) = runs(results)
    return Store.open(results, name)


def nameless(record: Record) -> Record:
    """Return a record without the name of its machine."""
    return replace(record, environment=record.environment | {"hostname": NOBODY})


def written(name: str, store: Store) -> list[str]:
    """Write the page of a run; return the sentences of its answer.

    Exits where the page has something of this machine that is nobody else's business.
    """
    records = [nameless(record) for record in store.records()[0]]
    comparison = judged(records, store)
    page = report_html(records, grid_of(records, comparison), run_info(store.plan))
    if found := private_words(page):
        sys.exit(f"{name}: the page names {', '.join(found)}")
    (GALLERY / f"{name}.html").write_text(page)
    return [*comparison.answer]


def private_words(page: str) -> list[str]:
    """Return the paths and login names of a machine that a page has, and the name of this one where it has it."""
    own = re.sub(r'<script type="module">.*?</script>', "", page, flags=re.DOTALL)  # code, the same in all
    user = re.findall(rf"\b{re.escape(getpass.getuser())}@", own)
    names = [text for text in re.findall(r'"hostname": ?"([^"]*)"', own) if text != NOBODY]
    return sorted({*PRIVATE.findall(own), *user, *names})


def pictured(name: str) -> None:
    """Write the picture of a page's beginning."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        size = {"width": WIDTH, "height": HEIGHT}
        page = browser.new_context(viewport=size, device_scale_factor=SCALE, color_scheme="light").new_page()
        page.goto((GALLERY / f"{name}.html").as_uri())
        page.locator("html[data-complete]").wait_for()
        page.screenshot(path=GALLERY / f"{name}.png")
        browser.close()
    if (size_bytes := (GALLERY / f"{name}.png").stat().st_size) > MOST_PICTURE_BYTES:
        sys.exit(f"{name}.png has {size_bytes:,} bytes; {MOST_PICTURE_BYTES:,} are enough")


def section(name: str, answer: Sequence[str]) -> str:
    """Return an exhibit's part of the page README.md."""
    exhibit = EXHIBITS[name]
    command = " ".join(("gridbench", *exhibit.words))
    said = "\n".join(f"> - {sentence}" for sentence in answer[:SENTENCES])
    picture = f"[![The beginning of the report]({name}.png)]({name}.html)"
    return f"## {exhibit.title}\n\n{exhibit.about}\n\n```\n{command}\n```\n\n{said}\n\n{picture}\n"


def main(names: Sequence[str]) -> None:
    """Measure exhibits one after another, then write their pages, pictures and parts of README.md."""
    readme = GALLERY / "README.md"
    before = readme.read_text() if readme.exists() else ""
    kept = dict(re.findall(r"<!-- (\S+) -->\n(.*?)(?=<!-- |\Z)", before, re.DOTALL))
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            answer = written(name, measured(EXHIBITS[name], Path(folder) / "results"))
        pictured(name)
        kept[name] = section(name, answer)
    parts = [f"<!-- {name} -->\n{kept[name].rstrip()}\n" for name in EXHIBITS if name in kept]
    readme.write_text("\n".join([HEAD, *parts]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make docs/gallery anew")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(EXHIBITS)}; all by default")
    main(parser.parse_args().names or [*EXHIBITS])
