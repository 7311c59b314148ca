"""Jobs that tests begin on a box by hand."""

import asyncio
import logging
import shlex
import uuid

from infra.workers.ssh.command_line import env_file, run_command
from infra.workers.ssh.configuration import SshJobConfiguration
from infra.workers.ssh.sending import bring_code

LOG = logging.getLogger("ssh")
LOCK = "~/.gridbench/box.lock"


OWN_RUN = "/flow_runs/own"
ASKS = """
import base64, os, sys, tomllib, urllib.error, urllib.request
path = sys.argv[1].replace("own", os.environ["PREFECT__FLOW_RUN_ID"])
request = urllib.request.Request(os.environ["PREFECT_API_URL"] + path)
if sys.argv[2] == "True":
    profile = tomllib.load(open(os.environ["PREFECT_PROFILES_PATH"], "rb"))["profiles"]["box"]
    token = base64.b64encode(profile["PREFECT_API_AUTH_STRING"].encode()).decode()
    request.add_header("Authorization", "Basic " + token)
try:
    print(urllib.request.urlopen(request).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def asks(path, token=True):
    return shlex.join(["python3", "-c", f"exec({ASKS!r})", path, str(token)])


async def nothing(name):
    return ""


def asked(machine, variables, script, **changes):
    return SshJobConfiguration(
        **{
            "hosts": [machine.host],
            **variables,
            "command": f"sh -c '{script}'",
            "env": {},
            "tunnel": False,
            "least_free_mib": 1,
            "wait_s": 60,
        }
        | changes
    )


def new_name():
    return f"prefect-{uuid.uuid4()}-1"


async def begin(box, job, name, limit_s=600, secret="", **files):
    if job.has_containers:
        wanted = {"run": run_command(job, name, None)}
    else:
        wanted = await bring_code(box, job, name, LOG)
    await box.prepare(name, {path: as_file(words) for path, words in wanted.items()} | files)
    await box.start(name, LOCK, limit_s, env_file(job, name, None), secret)


def as_file(words):
    return "".join(f"{word}\0" for word in words).encode()


async def until(box, name, *states):
    while (look := await box.look(name)).state not in states:
        await asyncio.sleep(0.2)
    return look


async def text(box, name):
    return b"".join([chunk async for chunk in box.lines(name, 0)]).decode()
