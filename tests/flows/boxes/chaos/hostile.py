"""A hostile box's job, which does one of `DEEDS` instead of measuring.

A lane job has the port of its tunnel, the token, and the id of its flow run.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
import tomllib
import uuid
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlparse

import httpx

sys.path.insert(0, str(Path(__file__).parents[4]))  # the checkout
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat

OWN = f"/flow_runs/{os.environ.get('PREFECT__FLOW_RUN_ID')}"  # of the job
PAUSE_S = 0.1
NICE = 19  # a real box has other CPUs: here it shares those of the server and the worker


def api():
    profiles = tomllib.loads(Path(os.environ["PREFECT_PROFILES_PATH"]).read_text())
    token = profiles["profiles"]["box"]["PREFECT_API_AUTH_STRING"]
    return httpx.Client(
        base_url=os.environ["PREFECT_API_URL"],
        auth=tuple(token.split(":", 1)),
        timeout=60,
        trust_env=False,
    )


def again(once):
    with api() as http:
        while True:
            try:
                if once(http).status_code < 400:
                    continue
            except httpx.HTTPError:
                pass
            time.sleep(PAUSE_S)


def is_running(http):
    return http.post(f"{OWN}/set_state", json={"state": {"type": "RUNNING"}})


def artifact(http, data):
    body = {"type": "bench-record", "flow_run_id": OWN.rpartition("/")[2], "data": data}
    return http.post("/artifacts/", json=body)


def has_itself_tried_again():
    with api() as http:
        http.patch(OWN, json={"empirical_policy": {"retries": 10, "retry_delay": 0}})
        http.post(f"{OWN}/set_state", json={"state": {"type": "FAILED"}})


def order(http):
    return [Repeat.from_json(json.dumps(each)) for each in http.get(f"{OWN}/input/repeats").json()]


def takes_the_name_of_bench():
    with api() as http:
        run = order(http)[0].run
    again(lambda http: http.patch(OWN, json={"name": run}))


def sends_empty_lines():
    again(lambda http: artifact(http, "\n" * 400_000))


def sends_pieces():
    again(
        lambda http: artifact(
            http, {"parcel": uuid.uuid4().hex, "place": 0, "pieces": 2, "text": "x" * 900_000}
        )
    )


def sends_records_of_the_honest_box():
    """Send false records that the honest lane still has to deliver."""
    with api() as http:
        theirs = [replace(repeat, hardware="honest") for repeat in order(http)]
    lines = "\n".join(repeat.failed(Verdict.CRASHED, "forged").to_json() for repeat in theirs)
    again(lambda http: artifact(http, lines))


def prints():
    while True:
        print("\n".join(["x" * 1000] * 100), flush=True)
        time.sleep(0.01)  # 10 MB a second, which the box itself stores


def logs():
    now = "2026-01-01T00:00:00Z"
    line = {
        "name": "x",
        "level": 20,
        "message": "x" * 1000,
        "timestamp": now,
        "flow_run_id": OWN.rpartition("/")[2],
    }
    again(lambda http: http.post("/logs/", json=[line] * 1000))


def connects_without_a_token():
    """Act as another user of the box: many silent connections, and requests without the token."""
    at = urlparse(os.environ["PREFECT_API_URL"])
    idle = []
    with httpx.Client(base_url=os.environ["PREFECT_API_URL"], trust_env=False) as http:
        while True:
            idle = [*idle[-200:], socket.create_connection((at.hostname, at.port))]
            try:
                http.get(OWN)
            except httpx.HTTPError:
                time.sleep(PAUSE_S)


def asks():
    for _ in range(16):
        threading.Thread(target=again, args=(lambda http: http.get(OWN),), daemon=True).start()
    time.sleep(3600)


def stays():
    """Ignore signals, and have children that leave the session."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
    state = {"type": "RUNNING", "message": "x" * 90_000}
    again(lambda http: http.post(f"{OWN}/set_state", json={"state": state}))


DEEDS = {
    deed.__name__: deed
    for deed in (
        has_itself_tried_again,
        takes_the_name_of_bench,
        sends_empty_lines,
        sends_pieces,
        sends_records_of_the_honest_box,
        prints,
        logs,
        connects_without_a_token,
        asks,
        stays,
    )
}

if __name__ == "__main__":
    os.nice(NICE)
    with api() as first:
        is_running(first)
    DEEDS[sys.argv[1]]()
