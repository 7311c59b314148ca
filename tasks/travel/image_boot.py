"""Start a lane in a user's container image: `python3 -c` runs this text there.

It fetches the lane's code from the inputs of its flow run, has its packages installed, and becomes the flow.
Any failure becomes the flow run's state, for its `bench` to read.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

VOLUME = "/home/gridbench/.gridbench/kept"  # on a box behind SSH that keeps code and packages between jobs
WAIT_S, LOOK_S, ANSWER_S = 300, 2, 60  # the code comes shortly after the flow run is created
OLDEST = (3, 11)


def setting(name: str) -> str:
    """Return a setting of Prefect: a variable, or a line in the file of the job's secrets."""
    path = os.environ.get("PREFECT_PROFILES_PATH", "")
    if name not in os.environ and os.path.exists(path):
        with open(path) as file:
            for line in file:
                key, _, value = line.partition(" = ")
                if key == name:
                    return str(json.loads(value))
    return os.environ.get(name, "")


def answer(path: str, body: object = None) -> bytes:
    """Return the Prefect API's answer to a request about this flow run."""
    headers = {"Content-Type": "application/json", "User-Agent": "gridbench"}
    headers.update(json.loads(setting("PREFECT_CLIENT_CUSTOM_HEADERS") or "{}"))
    key, login = setting("PREFECT_API_KEY"), setting("PREFECT_API_AUTH_STRING")
    if key or login:
        basic = base64.b64encode(login.encode()).decode()
        headers["Authorization"] = "Bearer " + key if key else "Basic " + basic
    url = "/".join([setting("PREFECT_API_URL"), "flow_runs", os.environ["PREFECT__FLOW_RUN_ID"], path])
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=ANSWER_S) as reply:
        return bytes(reply.read())


def piece(name: str) -> bytes:
    """Wait for an input of this flow run, and return it."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            return answer("input/" + name)
        except OSError as error:
            if time.monotonic() > until:
                raise OSError("the lane's code can't be fetched: " + str(error)) from None
        time.sleep(LOOK_S)


def folder() -> str:
    """Return a folder that this user can write to, the most lasting first."""
    usual = [os.path.expanduser("~/.gridbench/kept"), os.path.join(tempfile.gettempdir(), "gridbench-kept")]
    for path in ([VOLUME] if os.path.isdir(VOLUME) else []) + usual:
        try:
            os.makedirs(path, exist_ok=True)
            if os.access(path, os.W_OK):
                return path
        except OSError:
            pass
    raise OSError("no folder can be written to")


def start(digest: str, commit: str) -> None:
    """Install the lane of this commit, and become its flow."""
    if sys.version_info < OLDEST:
        raise OSError("its python3 is " + sys.version.split()[0] + ", and 3.11 or newer is needed")
    name = "code-" + digest[:16]
    pieces = json.loads(piece(name))[2]
    content = b"".join(base64.b64decode(piece(name + "-" + str(place))) for place in range(pieces))
    if hashlib.sha256(content).hexdigest() != digest:
        raise OSError("the lane's code came damaged")
    kept = folder()
    lane = os.path.join(kept, "lane-" + digest[:16])
    with open(lane + ".pyz", "wb") as file:
        file.write(content)
    environ = dict(os.environ, GRIDBENCH_KEPT=kept, GRIDBENCH_COMMIT=commit)
    if not os.access(os.path.expanduser("~"), os.W_OK):
        environ["HOME"] = kept
    words = [sys.executable, lane + ".pyz"]
    done = subprocess.run(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise OSError(" ".join(done.stdout.decode(errors="replace").split())[-1500:])
    os.chdir(lane + "/code")
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.getcwd(), environ.get("PYTHONPATH")]))
    python = os.path.realpath(lane + "/bin") + "/python"
    os.execve(python, [python, "-m", "prefect.engine"], environ)


if __name__ == "__main__":
    try:
        start(*sys.argv[1:])
    except Exception as error:
        why = "the image can't run a lane: " + (str(error) or type(error).__name__)
        print(why, flush=True)
        unfit = {"type": "FAILED", "name": "Unfit", "message": why}
        answer("set_state", {"state": unfit})
        sys.exit(1)
