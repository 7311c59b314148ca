import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from infra.workers.ssh.connection import for_any_shell

ROOT = Path(__file__).parents[4]

WORDS = (
    *("plain", "it's", 'a "quote"', "q!x", "!!", "two\nlines", "end\n", "back\\slash", "\\", "\\n", "ü €"),
    *("$HOME", "`id`", "%s", "\\0101", "*", "~", "-n", "a;b|c&d", "\t", "'\\''", "#"),
)
SHELLS = [shell for shell in ("sh", "bash", "dash", "tcsh", "csh", "fish", "zsh") if shutil.which(shell)]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_word_arrives_as_it_is(shell):
    command = for_any_shell(shlex.join(["printf", "%s\\0", *WORDS]))
    found = subprocess.run([shell, "-c", command], capture_output=True)
    assert found.stdout.decode().split("\0")[:-1] == [*WORDS], found.stderr


@pytest.mark.parametrize("word", ["q!x", "two\nlines", "back\\slash"])
def test_nothing_is_left_that_csh_or_fish_reads_otherwise(word):
    """csh expands `!` and ends words at a line break within quotes; fish reads a backslash before another, or a
    quote.
    """
    text = for_any_shell(shlex.join(["echo", word]))
    assert not re.search(r"[!\n]|\\\\|\\'", text)


def test_a_command_that_every_shell_reads_alike_stays_unquoted():
    command = shlex.join(["sh", ".prefect-ssh/box-1.sh", "look", "/home/it's/x"])
    assert for_any_shell(command) == command


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the tests of the wheel are not in a git checkout")
def test_scripts_for_boxes_keep_their_line_ends_despite_gits_settings():
    words = ["git", "check-attr", "text", "eol", "--", *(str(path) for path in ROOT.glob("infra/**/*.sh"))]
    lines = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) >= 8 and {line.rpartition(": ")[2] for line in lines} == {"auto", "lf"}
