import subprocess
import sys

import pytest

from workloads.harness.records.streams import Forgiving

OPENS = """
import os
from workloads.harness.records.streams import begin_whole
begin_whole()
with open(os.devnull) as file:
    assert file.fileno() > 2, file.fileno()
print("progress", file=__import__("sys").stderr, flush=True)
try:
    print("a record", flush=True)
except OSError as error:
    os._exit(100 + error.errno)
os._exit(0)
"""
EBADF = 9


@pytest.mark.parametrize(("closed", "code"), [("", 0), ("<&-", 0), (">&-", 100 + EBADF), ("2>&-", 0)])
def test_no_file_takes_the_place_of_a_closed_stream(closed, code):
    words = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", OPENS]
    found = subprocess.run(words, capture_output=True, text=True)
    assert found.returncode == code, found.stderr
    assert "progress" not in found.stdout


def test_a_forgiving_stream_goes_on_and_keeps_the_reason():
    with pytest.raises(OSError, match="No space"), open("/dev/full", "w") as full:
        stream = Forgiving(full)
        assert stream.write("text") == 4
        assert stream.fault == ""  # it is in the buffer
        stream.flush()
        assert stream.fault == "No space left on device"
        assert stream.write("more") == 4
        stream.flush()


def test_a_reader_that_has_left_is_an_error():
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE, text=True)
    reader.wait()
    stream = Forgiving(reader.stdin)
    stream.write("text")
    with pytest.raises(BrokenPipeError):
        stream.flush()
    with pytest.raises(BrokenPipeError):
        reader.stdin.close()


def test_exit_codes_of_children_are_known_although_the_parent_ignored_their_ends():
    ignores = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    tells = (
        "import subprocess, sys; from workloads.harness.records.streams import begin_whole; begin_whole(); "
        "sys.exit(subprocess.run([sys.executable, '-c', 'raise SystemExit(3)']).returncode)"
    )
    found = subprocess.run([sys.executable, "-c", ignores, sys.executable, "-c", tells])
    assert found.returncode == 3
