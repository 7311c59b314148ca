"""Text that is safe to show: no control sequences or marks of order, valid XML."""

import re
from typing import Any

# Colours, cursor moves and titles of terminals. Source: ECMA-48, 5.4 and 5.6; xterm ends a title by BEL too.
SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]P^_X]|[\x9d\x90\x9e\x9f\x98])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
WHITE, CONTROL = re.compile("[\t\n\r\u2028\u2029]+"), re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Unicode's Bidi_Control (UAX #9): with them, a text reads in another order than its characters have.
BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Half a pair, and what XML forbids (XML 1.0, 2.2): a picture is SVG before it is PNG.
NO_CHARACTER = re.compile("[\ud800-\udfff\ufffe\uffff]")
REPLACEMENT = "\ufffd"
# In JSON, escaped or not; what only looks like one costs a closer look.
SUSPECT = re.compile(
    r"\\u00[01789]|\\[bfnrt]|\\u[dDfF]|\\u061[cC]|\\u20[0-6]"
    "|[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def printable(text: str) -> str:
    """Return text as one line, without control sequences and marks of order."""
    if text.isascii() and text.isprintable():
        return text
    plain = BIDI.sub("", CONTROL.sub("", SEQUENCE.sub("", WHITE.sub(" ", text))))
    return NO_CHARACTER.sub(REPLACEMENT, plain)


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def printable_values(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_values(key): printable_values(item) for key, item in value.items()}
    return [printable_values(item) for item in value] if isinstance(value, list) else value


def printable_json(value: Any, text: str) -> Any:
    return printable_values(value) if SUSPECT.search(text) else value
