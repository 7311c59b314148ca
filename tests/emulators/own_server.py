"""A Prefect server with an auth string, on an address that other machines reach."""

import os
import socket
import subprocess
import sys
import time

import httpx
import psutil

from gridbench.run.session import ROOT
from infra.local.ports import free_port
from tests.emulators.prefect_api import DATABASE, with_tables

AUTH = "me:very-secret"


def address():
    found = (entry for entries in psutil.net_if_addrs().values() for entry in entries)
    of_ip4 = (entry.address for entry in found if entry.family == socket.AF_INET)
    return next(text for text in of_ip4 if not text.startswith("127."))


class PrefectServer:
    def __init__(self, folder):
        port = free_port("0.0.0.0")
        self.url = f"http://{address()}:{port}/api"
        environment = os.environ | {
            "HOME": str(folder),
            "PREFECT_SERVER_API_AUTH_STRING": AUTH,
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{with_tables(folder) / DATABASE}",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        }
        command = [sys.executable, "-m", "infra.local.server", "--host", "0.0.0.0", "--port", str(port)]
        self.log = (folder / "server.log").open("wb")
        self.process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=self.log, stderr=self.log)

    def wait(self):
        deadline = time.monotonic() + 280
        while True:
            try:
                if httpx.get(f"{self.url}/health", auth=tuple(AUTH.split(":")), trust_env=False).is_success:
                    return self
            except httpx.HTTPError:
                pass
            assert self.process.poll() is None and time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.2)

    def names(self, kind):
        with httpx.Client(auth=tuple(AUTH.split(":")), trust_env=False, timeout=60) as client:
            return {row["name"] for row in client.post(f"{self.url}/{kind}/filter", json={}).json()}

    def empty(self):
        with httpx.Client(
            base_url=self.url, auth=tuple(AUTH.split(":")), trust_env=False, timeout=60
        ) as client:
            for row in client.post("/deployments/filter", json={}).json():
                client.delete(f"/deployments/{row['id']}").raise_for_status()
            for kind, by_name in (("work_pools", "work_pools"), ("variables", "variables/name")):
                for name in self.names(kind):
                    client.delete(f"/{by_name}/{name}").raise_for_status()

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()
