import subprocess
import sys

SCRIPT = """
import threading, time
from infra.local import server

class Cycle:
    def __init__(self):
        self.itself = self
    def __del__(self):
        closed_by.append(threading.current_thread().name)

closed_by = []
server.PAUSE_S = 0.01
server.collect_elsewhere()
Cycle()
kept = [[] for _ in range(100_000)]  # enough for the interpreter to collect by itself
deadline = time.monotonic() + 60
while not closed_by and time.monotonic() < deadline:
    time.sleep(0.01)
print(closed_by)
"""


def test_garbage_is_never_finalised_on_the_main_thread():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "['garbage']"
