"""Text of a machine, which can be hostile, for terminals and logs."""

import re

LONGEST = 300  # characters of a machine's text in a sentence
# Colours, cursor moves and titles of terminals. Source: ECMA-48, 5.4 and 5.6; xterm ends a title by BEL too.
SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P^_X][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)|[ -/]*[0-Z\\^-~])"
)
BREAK = re.compile("[\t\n\x0b\x0c\r\x1c-\x1e\x85\u2028\u2029]")
# Control characters, lone surrogates, and Unicode's Bidi_Control (UAX #9), which change the order of a text.
MISLEADING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
REPLACEMENT = "\ufffd"


def printable(text: str) -> str:
    """Return text on one line, without control sequences, invisible signs marked."""
    if text.isascii() and text.isprintable():
        return text
    return MISLEADING.sub(REPLACEMENT, BREAK.sub(" ", SEQUENCE.sub("", text)))


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def quoted(text: str) -> str:
    """Return a machine's text for a sentence: printable, at most `LONGEST` characters."""
    return " ".join(printable(text[: 8 * LONGEST]).split())[:LONGEST]
