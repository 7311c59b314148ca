import unicodedata
import uuid

import pytest

from infra.workers.base.job_configuration import JobRefused
from infra.workers.base.log_lines import Lines
from infra.workers.base.printable import LONGEST, printable, printable_lines, quoted

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x1b]8;;http://evil/\x07click\x1b]8;;\x07\nBox forged \u202egood\u2028\x00"


def test_nothing_in_a_line_moves_a_cursor_or_turns_its_order():
    """Each character of the first plane, alone and in a row."""
    signs = "".join(map(chr, range(0x10000)))
    line = printable(signs + HOSTILE)
    assert not any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in line)
    assert not any(unicodedata.bidirectional(sign) in ("RLO", "LRO", "RLE", "LRI", "PDF") for sign in line)
    assert printable(line) == line


@pytest.mark.parametrize("text", ["", "plain, with signs: /~ok", "Zürich 日本 🚀", "two  spaces"])
def test_ordinary_text_stays_unchanged(text):
    assert printable(text) == text


def test_lines_stay_lines_and_a_sentence_is_one_and_short():
    assert printable_lines("a\tb\n\x1b[31mc\x1b[0m\r") == "a b\nc "
    assert quoted(HOSTILE) == "click Box forged \ufffdgood \ufffd"
    assert len(quoted("x" * 10**6)) == LONGEST


def test_a_refusal_is_one_printable_line():
    assert str(JobRefused(f"no ({HOSTILE}).")) == "no (click Box forged \ufffdgood \ufffd)."


async def test_a_line_of_a_jobs_log_reaches_prefect_without_control_sequences():
    sent = []

    async def send(lines):
        sent.extend(line.message for line in lines)

    lines = Lines(uuid.uuid4(), send, 0, "job")
    lines.take(b"\x1b]0;owned\x07epoch 1\x1b[31m done\x1b[0m\r\nnext \xe2\x80\xae\n")
    await lines.flush()
    assert sent == ["epoch 1 done", "next \ufffd"]
