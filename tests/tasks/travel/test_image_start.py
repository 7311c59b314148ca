import base64
import hashlib
import http.server
import io
import json
import os
import shlex
import subprocess
import sys
import threading
import zipfile
from types import SimpleNamespace

import pytest

from infra.workers.batch.request import BATCHS_OWN, OVERRIDES_LENGTH
from tasks.errors import GridbenchError
from tasks.planning.hardware import load_hardware
from tasks.planning.images import check_images, in_images
from tasks.travel.image_start import in_image, keep_lane
from tasks.travel.run_code import JobCode, code_for
from tasks.travel.sending import CODE_TRANSFER, CodeTransfer
from tests.tasks.examples.scripts import plan_of

ENGINE = '#!/bin/sh\necho "$0" "$@" "$PYTHONPATH" "$GRIDBENCH_COMMIT" "$GRIDBENCH_KEPT"\n'
INSTALL = """
import sys
from pathlib import Path
place = Path(sys.argv[0]).with_suffix("")
(place / "code").mkdir(parents=True)
(place / "env").mkdir()
(place / "bin").symlink_to(place / "env")
(place / "env/python").write_text({engine!r})
(place / "env/python").chmod(0o755)
"""
IMAGE = "docker.io/vllm/vllm-openai:v0.11.0"


def bundle_of(text):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("__main__.py", text)
    return made.getvalue()


class Api:
    def __init__(self, content, damage=b""):
        self.digest, self.states, self.logins = hashlib.sha256(content).hexdigest(), [], set()
        name, half = f"code-{self.digest[:16]}", len(content) // 2
        pieces = [content[:half], content[half:] + damage]
        transfer = CodeTransfer(f"sha256:{self.digest}", len(content), len(pieces))
        self.inputs = {f"{name}-{n}": base64.b64encode(piece) for n, piece in enumerate(pieces)}
        self.inputs[name] = CODE_TRANSFER.dump_json(transfer)
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                found = api.inputs.get(self.path.rpartition("/")[2])
                self.reply(404 if found is None else 200, found or b"")

            def do_POST(self):
                api.states.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["state"])
                self.reply(201, b"{}")

            def reply(self, status, content):
                api.logins.add(self.headers["Authorization"])
                self.send_response(status)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def boot(self, tmp_path, change=("", ""), **more):
        command = shlex.split(in_image({}, IMAGE, f"sha256:{self.digest} abc")["command"])
        words = [sys.executable, *command[1:2], command[2].replace(*change), *command[3:]]
        env = {
            "PREFECT_API_URL": f"http://127.0.0.1:{self.server.server_port}/api",
            "PREFECT__FLOW_RUN_ID": "run",
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
        }
        return subprocess.run(words, env=env | more, capture_output=True, text=True, timeout=30)


def test_the_lane_is_put_in_place_and_becomes_its_flow(tmp_path):
    api = Api(bundle_of(INSTALL.format(engine=ENGINE)))
    (tmp_path / "profiles.toml").write_text(
        'active = "box"\n[profiles.box]\nPREFECT_API_AUTH_STRING = "a:b"\n'
    )
    done = api.boot(tmp_path, PREFECT_PROFILES_PATH=str(tmp_path / "profiles.toml"), PYTHONPATH="/of/image")
    kept = tmp_path / ".gridbench/kept"
    lane = kept / f"lane-{api.digest[:16]}"
    assert done.stdout.split() == [
        *(f"{lane}/env/python", "-m", "prefect.engine"),
        *(f"{lane}/code:/of/image", "abc", str(kept)),
    ], done.stderr
    assert not api.states and api.logins == {"Basic YTpi"}


@pytest.mark.parametrize(
    ("install", "damage", "change", "why"),
    [
        ("print('uv is not\\nhere.'); raise SystemExit(1)", b"", ("", ""), "uv is not here."),
        ("", b"x", ("", ""), "the lane's code came damaged"),
        ("", b"", ("OLDEST = (3, 11)", "OLDEST = (9, 1)"), f"its python3 is {sys.version.split()[0]}"),
    ],
)
def test_a_hindrance_is_the_state_of_the_flow_run(tmp_path, install, damage, change, why):
    api = Api(bundle_of(install), damage)
    assert api.boot(tmp_path, change, PREFECT_API_KEY="key").returncode == 1
    (state,) = api.states
    assert (state["type"], state["name"]) == ("FAILED", "Unfit") and api.logins == {"Bearer key"}
    assert state["message"].startswith(f"the image can't run a lane: {why}")


def test_the_command_leaves_room_for_the_variables_of_a_job_on_batch():
    command = shlex.split(in_image({}, IMAGE, f"sha256:{'0' * 64} {'0' * 40}-dirty")["command"])
    assert len(json.dumps(command)) + 1500 < OVERRIDES_LENGTH - BATCHS_OWN
    assert not any(
        odd in command[2] for odd in ("{{", "}}", "$(")
    )  # Prefect and Kubernetes would fill them in


def test_a_run_keeps_the_lane_once_and_a_job_in_the_image_gets_it(tmp_path):
    plan = plan_of(tmp_path, more=f'image = "{IMAGE}"', hardware=["gke-l4"])
    (machine,) = plan.hardware
    store = SimpleNamespace(plan=plan, folder=tmp_path / "run")
    bundles = iter([(b"lane", "abc")])
    keep_lane(store, lambda: next(bundles))
    keep_lane(store, lambda: next(bundles))  # of a resume
    repeats = plan.repeats_on(machine)
    code = code_for(store, machine, repeats)
    digest = hashlib.sha256(b"lane").hexdigest()
    assert code.lane == f"sha256:{digest} abc" and code.ids == (plan.cases[0].script.code, f"sha256:{digest}")
    assert (store.folder / "code" / f"{digest}.pack").read_bytes() == b"lane"
    assert any(f"the pull of {IMAGE}" in note for note in plan.notes)
    assert code_for(store, load_hardware("local-cpu"), repeats) == JobCode()
    (asked,) = in_images(plan)
    assert asked.job_variables == machine.job_variables | {"image": IMAGE}


def test_a_machine_without_containers_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(
        GridbenchError, match=f"train is measured in image {IMAGE}, and hardware local-cpu has no"
    ):
        plan_of(tmp_path, more=f'image = "{IMAGE}"', hardware=["local-cpu"])
    check_images([load_hardware("local-cpu")], [])
