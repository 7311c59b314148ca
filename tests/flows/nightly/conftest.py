import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gridbench.run.session import ROOT
from tests.flows.nightly.watched_case import MACHINE, SUITE, WATCHED

ALERTS = {  # of two teams, one of which has other machines
    (): "a night fails",
    ("--about", "slower", "--on", "watch*"): "a case got slower on watch*",
    ("--about", "slower", "--on", "gke-*"): "a case got slower on gke-*",
}


def alert(*options):
    command = [Path(sys.executable).with_name("gridbench"), "alert", "custom-webhook/team", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, cwd=ROOT).stdout


@pytest.fixture
async def watch(bench, tmp_path):
    """A machine, a suite, and the nightly deployment without its schedule."""
    folder, speeds = Path(bench.environment["GRIDBENCH_DEPLOYMENTS"]), tmp_path / "speeds.json"
    machine = MACHINE.format(python=sys.executable, watched=WATCHED, speeds=speeds)
    (folder / "hardware" / "watched.yaml").write_text(machine)
    (folder / "suites" / "watch.toml").write_text(SUITE)
    deployment = await bench.nightly()
    results = tmp_path / "results"

    async def start(told, **more):
        speeds.write_text(json.dumps(told))
        asked = {"suite": "watch", "hardware": ["watched"], "results": str(results)} | more
        async with bench.client() as client:
            return (await client.create_flow_run_from_deployment(deployment.id, parameters=asked)).id

    async def night(told, **more):
        run_id = await start(told, **more)
        return run_id, await bench.end(run_id)

    night.results, night.start = results, start
    yield night
    for path in (folder / "hardware" / "watched.yaml", folder / "suites" / "watch.toml"):
        path.unlink()


@pytest.fixture
def told(bench):
    """The messages of the server's notification block, received by a local web server."""
    heard = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = {
            "name": "team",
            "url": f"http://127.0.0.1:{server.server_port}/",
            "json_data": {"text": "{{body}}"},
        }
        block = f"CustomWebhookNotificationBlock(**{words!r}, allow_private_urls=True).save('team', overwrite=True)"
        code = f"from prefect.blocks.notifications import CustomWebhookNotificationBlock\n{block}"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=120)
        for about, what in ALERTS.items():
            assert f"custom-webhook/team gets a message when {what}" in alert(*about)
        yield heard
        for about in ALERTS:
            assert "no longer gets a message" in alert(*about, "--off")
        server.shutdown()
