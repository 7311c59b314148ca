"""Text that terminals, files and pictures can show: no control sequences, nothing foreign to UTF-8 or XML."""

import re
from typing import Any

# Colours, cursor moves and titles of terminals. Source: ECMA-48, 5.4 and 5.6; xterm ends a title by BEL too.
SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]P^_X]|[\x9d\x90\x9e\x9f\x98])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
WHITE, CONTROL = re.compile(r"[\t\n\r]+"), re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Half a pair, and what XML forbids (XML 1.0, 2.2): a picture is SVG before it is PNG.
NO_CHARACTER = re.compile("[\ud800-\udfff\ufffe\uffff]")
REPLACEMENT = "\ufffd"
# In JSON, escaped or not; what only looks like one costs a closer look.
SUSPECT = re.compile(r"\\u00[01789]|\\[bfnrt]|\\u[dDfF]|[\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Return text as one line: breaks and tabs become spaces, control sequences and characters go."""
    if text.isascii() and text.isprintable():
        return text
    plain = CONTROL.sub("", SEQUENCE.sub("", WHITE.sub(" ", text)))
    return NO_CHARACTER.sub(REPLACEMENT, plain)


def printable_values(value: Any) -> Any:
    """Return plain values, such as parsed JSON, with every text in them printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_values(key): printable_values(item) for key, item in value.items()}
    return [printable_values(item) for item in value] if isinstance(value, list) else value


def printable_json(value: Any, text: str) -> Any:
    """Return the same for JSON parsed from `text`: most have nothing to mend, and are not gone through."""
    return printable_values(value) if SUSPECT.search(text) else value
