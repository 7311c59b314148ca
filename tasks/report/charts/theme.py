"""Colours, shapes and axes, light and dark."""

import math
from typing import Any

# Hues of Okabe and Ito's colour-blind-safe set (jfly.uni-koeln.de/color), darkened for white paper and
# lightened for dark, until each has a contrast of 3:1 with its background (WCAG 1.4.11).
LIGHT_SERIES = ("#0072b2", "#d55e00", "#00856a", "#b5499b", "#6a51a3", "#8c6d00", "#555b62", "#2b8cbe")
DARK_SERIES = ("#56b4e9", "#f0a35e", "#3ddbb0", "#f29ad6", "#b9a7f5", "#e3c34b", "#b4bac2", "#8fd3ff")
_TRIANGLES = ("triangle-up", "triangle-down", "triangle-right", "triangle-left")
SHAPES = ("circle", "square", _TRIANGLES[0], "diamond", "cross", *_TRIANGLES[1:])

# Phases of a cold start in order, then further parts of a bill. Neighbours differ in lightness or hue.
LIGHT_PHASES = ("#3b3f46", "#2f62ad", "#4f8fc9", "#b87400", "#a8322a", "#00856a", "#7a4fa3", "#7b838c")
DARK_PHASES = ("#9aa3ad", "#5e94e0", "#a9d0f5", "#f0b95a", "#f08a7e", "#3ddbb0", "#b9a7f5", "#d5dae0")

SECONDS_LABEL = "replace(format(datum.value, '~s'), regexp('([a-zµ]?)$'), ' $1') + 's'"
TIMES_LABEL = "format(datum.value, '~r') + '×'"


def config(dark: bool = False, font: str = "system-ui, sans-serif") -> dict[str, Any]:
    ink, muted, line = ("#e8eaed", "#b0b7c0", "#3a4048") if dark else ("#1c2127", "#525a64", "#dfe2e6")
    text = {"labelColor": muted, "titleColor": ink, "labelFontSize": 11, "titleFontSize": 11}
    return {
        "font": font,
        "background": "transparent" if dark else "#ffffff",
        "view": {"stroke": None},
        "axis": text
        | {
            "titleFontWeight": "normal",
            "gridColor": line,
            "domainColor": muted,
            "tickColor": muted,
            "labelLimit": 220,
        },
        "legend": text | {"symbolSize": 90, "symbolStrokeWidth": 0, "orient": "top", "title": None},
        "title": {"color": ink, "subtitleColor": muted, "anchor": "start", "fontSize": 13, "fontWeight": 600},
        "text": {"fill": ink, "fontSize": 11},
        "rule": {"color": ink},
        "tick": {"color": ink},
        "style": {
            "quiet": {"fill": muted},
            "band": {"fillOpacity": 0.13},
            "gap": {"stroke": "#16191d" if dark else "#ffffff"},
        },
        "range": {
            "category": list(DARK_SERIES if dark else LIGHT_SERIES),
            "ordinal": list(DARK_PHASES if dark else LIGHT_PHASES),
        },
    }


def shapes(count: int) -> list[str]:
    """Return another shape for each repeated colour."""
    return [SHAPES[(i + i // len(LIGHT_SERIES)) % len(SHAPES)] for i in range(count)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return four to eight round numbers."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    finest: list[float] = []
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), tuple(n / 10 for n in range(10, 100))):
        decades = range(first, last + 1)
        finest = [float(f"{s * 10.0**e:.6g}") for e in decades for s in steps if low <= s * 10.0**e <= high]
        if len(finest) >= 4:
            break
    stride = max(1, math.ceil(len(finest) / 8))
    return finest[::stride]


def padded(values: list[float], by: float = 1.3) -> tuple[float, float]:
    """Return (0.1, 10) without values."""
    return (min(values) / by, max(values) * by) if values else (0.1, 10.0)
