"""Templates, and the filters that they use."""

import re
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
LONG = 32  # characters of a word that does not fit in a column
# For pages that show pictures and run no script.
STILL = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:"


@cache
def environment() -> jinja2.Environment:
    """Jinja with everything escaped that comes from outside, and an error for every name that is missing."""
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
    """The style sheet that every page has."""
    return Markup((TEMPLATES / "report.css").read_text("utf-8"))


def slug(text: str) -> str:
    """A name that is safe in a path and in an address."""
    return re.sub(r"[^a-z0-9_.=-]+", "-", text.lower()).strip("-")


def _whole(sentence: str) -> Markup:
    """A sentence whose names and intervals, such as `aws-g5.8xlarge`, no line break cuts at a hyphen.

    A long id of a cell breaks between its parts: `llm_decode/millions=1236,`, `batch=1,` and so on.
    """
    words = (
        Markup('<span class="whole">{}</span>').format(word) if _joined(word) else _breakable(word)
        for word in sentence.split()
    )
    return Markup(" ").join(words)


def _breakable(word: str) -> Markup:
    parts = re.findall(r"[^/,]*[/,]?", word) if len(word) >= LONG else [word]
    return Markup("<wbr>").join(filter(None, parts))


def _bounded(text: str) -> Markup:
    """An estimate such as `6.45× (6.44–6.47)`, its interval on a line of its own where that saves room."""
    value, bracket, bounds = text.partition(" (")
    return Markup('{} <small class="bounds">({}</small>' if bracket else "{}").format(value, bounds)


def _joined(word: str) -> bool:
    return len(word) < LONG and ("-" in word or "–" in word)
