"""Write docs/gallery: `make gallery` measures, `python -m tests.docs.gallery --redraw` draws stored runs.

Each report is of a real run in `runs/NAME.tar.gz` without the machine's name, or of imported records: `python
-m tests.docs.gallery two-cards` needs no measurement. A page or run with a path or a login name of this
machine is refused.
"""

import argparse
import getpass
import gzip
import io
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import sync_playwright

from tasks.gather import judged
from tasks.publish import run_info
from tasks.report.grid import grid_of
from tasks.report.html.page import report_html
from tasks.store.store import Store, runs

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs" / "gallery"
RUNS = GALLERY / "runs"
BOTH = ("--on", "local-cpu-1", "--on", "local-cpu")
NOBODY = "not shown"
TWO_CARDS = ROOT / "tests" / "tasks" / "examples" / "two_cards.jsonl.gz"
IMPORTED = "records.jsonl"  # among the words of an exhibit: its unpacked records
PRIVATE = re.compile(r"(?<![\w.<])/(?:home|root|tmp|work|Users|private|mnt|media|srv|data)/[\w.-]+")
WIDTH, HEIGHT, SCALE = 1280, 860, 0.55
MOST_PICTURE_BYTES = 150_000


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A report of the gallery, by the `gridbench` command that measures it or imports its `records`."""

    title: str
    words: tuple[str, ...]
    about: str
    records: Path | None = None
    sentences: int = 3  # of the answer, above its picture

    @property
    def command(self) -> str:
        return shlex.join(("gridbench", *self.words))


EXHIBITS = {
    "quick": Exhibit(
        "A first look",
        ("run", "quick", *BOTH),
        "The report of `make bench`: five cases on one thread and on both cores of a small VM.",
    ),
    "script": Exhibit(
        "A training script, unchanged",
        ("run", "docs/gallery/script/shapes.toml", *BOTH),
        "[A small network](script/train.py) that classifies shapes, in [a suite](script/shapes.toml) of two "
        "batch sizes: time and cost of its 20 epochs, and the parts of a step.",
    ),
    "break-even": Exhibit(
        "From which size are two cores faster?",
        ("run", "docs/gallery/sizes.toml", *BOTH, "--break-even"),
        "[Three sizes](sizes.toml) of two workloads, then more sizes until each break-even is known.",
    ),
    "two-cards": Exhibit(
        "An H100 against an H200",
        (
            *("import", IMPORTED, "--usd", "h100=aws-p5.4xlarge", "--usd", "h200=aws-p5en.48xlarge"),
            *("--title", "An H100 against an H200"),
        ),
        "[Records](../../tests/tasks/examples/two_cards.jsonl.gz) that `python -m workloads suite` wrote on two rented "
        "machines, at AWS's prices for one card. The chip is the same and the memory 1.43 times as fast by the data "
        "sheets; the H100's host was half as fast, so that each speedup is split into the card's part and the waiting.",
        TWO_CARDS,
        sentences=5,
    ),
}
HEAD = """# Gallery

Four real reports: three from a VM with two cores, one of imported records of two GPU machines. GitHub shows them as text:
download a report and open it in a browser. It works offline. `make gallery` measures them again;
`python -m tests.docs.gallery --redraw` draws them again from `runs/`.
"""


def measured(exhibit: Exhibit, results: Path) -> Store:
    """Measure or import an exhibit with its command; return its store."""
    words = list(exhibit.words)
    if exhibit.records:
        records = results.parent / IMPORTED
        records.write_text(without_host(gzip.decompress(exhibit.records.read_bytes()).decode()))
        words[words.index(IMPORTED)] = str(records)
    command = [sys.executable, "-c", "from gridbench.main import main; main()", *words]
    done = subprocess.run([*command, "--results", str(results)], cwd=ROOT, check=False)
    if done.returncode not in (0, 1):  # 1: some cell was not measured, as the report states
        sys.exit(f"{' '.join(exhibit.words)} ended with {done.returncode}")
    (name,) = runs(results)
    return Store.open(results, name)


def without_host(text: str) -> str:
    """Return JSON without the machine's name, and with a neutral path of the checkout."""
    return re.sub(r'("hostname": ?)"[^"]*"', rf'\1"{NOBODY}"', text.replace(str(ROOT), "/gridbench"))


def packed(store: Store) -> bytes:
    """Return a run's plan, notes on jobs and records as an archive, without the machine's name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=9) as archive:
        paths = (
            store.folder / "plan.json",
            store.folder / "jobs.json",
            *store.folder.glob("records/**/*.json"),
        )
        for path in sorted(path for path in paths if path.is_file()):
            text = without_host(path.read_text())
            refuse_private(str(path.relative_to(store.folder)), text)
            entry = tarfile.TarInfo(f"{store.folder.name}/{path.relative_to(store.folder)}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def unpacked(content: bytes, results: Path) -> Store:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(results, filter="data")
    (name,) = runs(results)
    return Store.open(results, name)


def written(name: str, store: Store) -> list[str]:
    """Write the page of a run; return its answer."""
    records = store.records()[0]
    comparison = judged(records, store)
    page = report_html(records, grid_of(records, comparison), run_info(store.plan))
    refuse_private(name, page)
    (GALLERY / f"{name}.html").write_text(page)
    return [*comparison.sentences]


def refuse_private(name: str, text: str) -> None:
    """Exit if a text has a path, a login name or the name of this machine."""
    if found := private_words(text):
        sys.exit(f"{name} contains {', '.join(found)}")


def private_words(page: str) -> list[str]:
    """Return the paths, login names and host names in a page."""
    own = re.sub(r'<script type="module">.*?</script>', "", page, flags=re.DOTALL)  # code, the same in all
    user = re.findall(rf"\b{re.escape(getpass.getuser())}@", own)
    names = [text for text in re.findall(r'"hostname": ?"([^"]*)"', own) if text != NOBODY]
    return sorted({*PRIVATE.findall(own), *user, *names})


def pictured(name: str) -> None:
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
    exhibit = EXHIBITS[name]
    said = "\n".join(f"> - {sentence}" for sentence in answer[: exhibit.sentences])
    picture = f"[![First screen of the report]({name}.png)]({name}.html)"
    return f"## {exhibit.title}\n\n{exhibit.about}\n\n```\n{exhibit.command}\n```\n\n{said}\n\n{picture}\n"


def kept_run(name: str, folder: Path, redraw: bool) -> Store:
    """Return an exhibit's run without the machine's name: measured, unpacked with `redraw`, or imported."""
    archive, exhibit = RUNS / f"{name}.tar.gz", EXHIBITS[name]
    if exhibit.records:
        return measured(exhibit, folder / "results")
    if not redraw:
        RUNS.mkdir(exist_ok=True)
        archive.write_bytes(packed(measured(exhibit, folder / "measured")))
    return unpacked(archive.read_bytes(), folder / "results")


def main(names: Sequence[str], redraw: bool) -> None:
    """Measure exhibits, or unpack their runs; write pages, pictures and parts of README.md."""
    readme = GALLERY / "README.md"
    before = readme.read_text() if readme.exists() else ""
    kept = dict(re.findall(r"<!-- (\S+) -->\n(.*?)(?=<!-- |\Z)", before, re.DOTALL))
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            answer = written(name, kept_run(name, Path(folder), redraw))
        pictured(name)
        kept[name] = section(name, answer)
    parts = [f"<!-- {name} -->\n{kept[name].rstrip()}\n" for name in EXHIBITS if name in kept]
    readme.write_text("\n".join([HEAD, *parts]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write docs/gallery")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(EXHIBITS)}; all by default")
    parser.add_argument("--redraw", action="store_true", help="draw the kept runs instead of measuring")
    arguments = parser.parse_args()
    main(arguments.names or [*EXHIBITS], arguments.redraw)
