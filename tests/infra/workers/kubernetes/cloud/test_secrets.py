import base64
import json

import pytest
from prefect.settings import PREFECT_CLIENT_CUSTOM_HEADERS, temporary_settings

from tests.infra.workers.kubernetes.worker_checks import NAMESPACE

HUSH = "hush-9f2c"
HEADERS = {"X-Of-A-Proxy": f"Bearer {HUSH}"}

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)


async def test_headers_are_in_the_container_and_nowhere_else(pool, cluster):
    text = json.dumps(HEADERS)
    data = {"headers": base64.b64encode(text.encode()).decode()}
    metadata = {"name": "prefect", "namespace": NAMESPACE}
    cluster.apply([{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}])
    reference = {"prefect_client_custom_headers_secret": "prefect/headers"}
    script = "echo ${#PREFECT_CLIENT_CUSTOM_HEADERS}"
    with temporary_settings({PREFECT_CLIENT_CUSTOM_HEADERS: HEADERS}):
        runs = [await pool.start("told", script=script, **reference), await pool.start("not", script=script)]
        async with pool.worker():
            told, refused = [await pool.end(run_id) for run_id in runs]
            assert await pool.lines_when(runs[0], bool) == [str(len(text))]
    assert told.name == "Completed" and refused.name == "Crashed"
    assert refused.message.startswith("prefect_client_custom_headers_secret is not set: PREFECT_CLIENT")
    sent = [request.body for request in cluster.control.requests]
    logs = [line.message for run_id in runs for line in await pool.logs(run_id)]
    shown = str([sent, cluster.control.pods(), logs, told.message, refused.message])
    assert "'name': 'prefect', 'key': 'headers'" in shown and HUSH not in shown
