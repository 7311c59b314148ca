"""Jinja templates and their filters."""

import re
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

TEMPLATES = Path(__file__).parent / "templates"
LONG = 32  # characters that do not fit in a column
# For pages with pictures and without scripts.
STILL = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:"


@cache
def environment() -> jinja2.Environment:
    """Escape, and refuse undefined names."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
    )
    templates.filters["whole"] = _whole
    templates.filters["bounded"] = _bounded
    return templates


def style() -> Markup:
    return Markup((TEMPLATES / "report.css").read_text("utf-8"))


def slug(text: str) -> str:
    """Return a safe name for paths and URLs."""
    return re.sub(r"[^a-z0-9_.=-]+", "-", text.lower()).strip("-")


def _whole(sentence: str) -> Markup:
    """Keep names and intervals on one line; break long ids between parts."""
    words = []
    for word in sentence.split():
        if len(word) >= LONG:
            words.append(Markup("<wbr>").join(filter(None, re.findall(r"[^/,]*[/,]?", word))))
        elif "-" in word or "–" in word:
            words.append(Markup('<span class="whole">{}</span>').format(word))
        else:
            words.append(escape(word))
    return Markup(" ").join(words)


def _bounded(text: str) -> Markup:
    """Put the interval of `6.45× (6.44–6.47)` into an element that can wrap."""
    value, bracket, bounds = text.partition(" (")
    return Markup('{} <small class="bounds">({}</small>' if bracket else "{}").format(value, bounds)
