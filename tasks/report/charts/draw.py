"""Pictures by Vega, with any text in them."""

from html import escape
from typing import Any

import vl_convert

from workloads.harness.records.printable import printable, printable_values

VEGA_LITE = "6.4"


def png_of(spec: dict[str, Any], scale: int) -> bytes:
    """Draw Vega-Lite as PNG.

    Characters that XML forbids are removed: they would end the process.
    """
    return bytes(vl_convert.vegalite_to_png(printable_values(spec), vl_version=VEGA_LITE, scale=scale))


def svg_of(spec: dict[str, Any]) -> str:
    return str(vl_convert.vegalite_to_svg(printable_values(spec), vl_version=VEGA_LITE))


def svg_text(text: str) -> str:
    return escape(printable(text))
