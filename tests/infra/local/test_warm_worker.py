import subprocess
import sys

import pytest

NURSERY = """
import os, signal, sys, time
from multiprocessing import Pipe
from pathlib import Path
from infra.local.warm_worker import FlowStart, nursery

ours, theirs = Pipe()
if not (there := os.fork()):
    ours.close()
    if (job := nursery(theirs)) is None:
        os._exit(42)
    if job.words[0] == "wait":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        time.sleep(30)
    os._exit(int(job.words[0]))
theirs.close()


def start(word):
    ours.send(tuple(FlowStart([word], Path("/"), {}, True)))
    pid, status = ours.recv()
    assert status is None
    return pid  # which may have ended, and be gone, already


"""
ENDS = """
first = start("7")
assert ours.recv() == (first, 7)
waiting = start("wait")
assert os.getpgid(waiting) == waiting
second = start("0")
assert ours.recv() == (second, 0)
os.killpg(waiting, signal.SIGTERM)
assert ours.recv() == (waiting, -signal.SIGTERM)
"""
WORKER_GONE = """
waiting = start("wait")
os.kill(there, signal.SIGTERM)  # as a sweep does; the flow run has its own
ours.close()
time.sleep(0.2)
assert os.waitpid(there, os.WNOHANG) == (0, 0)
os.killpg(waiting, signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(there, 0)[1]) == 42
"""


@pytest.mark.skipif(sys.platform != "linux", reason="flow runs are forked on Linux only")
@pytest.mark.parametrize("story", [ENDS, WORKER_GONE])
def test_a_nursery_tells_how_its_processes_end_and_waits_for_them(story: str):
    subprocess.run([sys.executable, "-c", NURSERY + story], check=True, timeout=60)
