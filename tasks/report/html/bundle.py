"""Vega, Vega-Lite and vega-embed as one cached script of 0.9 MB, which takes 1.5 s to build."""

import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import vl_convert

from tasks.report.charts.draw import VEGA_LITE
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text


def bundle_file() -> Path:
    """Return the file in the user's cache, which has the versions in its name."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gridbench"
    return folder / f"vega-lite-{VEGA_LITE}-by-vl-convert-{version('vl-convert-python')}.js"


@cache
def bundle() -> str:
    """Return the script.

    Raises:
        ValueError: the script contains `</script`.
    """
    path, script = bundle_file(), ""
    with suppress(OSError, ValueError):
        script = path.read_text(encoding="utf-8")
    if not script:
        script = str(vl_convert.javascript_bundle(vl_version=VEGA_LITE))  # type: ignore[call-arg]
        with suppress(WorkloadsError):
            write_text(path, script)
    if "</script" in script.lower():
        raise ValueError(
            "the bundle of vl-convert would end its own script element; pin another version of it"
        )
    return script
