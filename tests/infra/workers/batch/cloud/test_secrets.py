import json

import pytest
from prefect.settings import PREFECT_CLIENT_CUSTOM_HEADERS, temporary_settings

HUSH = "hush-9f2c"
HEADERS = {"X-Of-A-Proxy": f"Bearer {HUSH}"}
ROLE = "arn:aws:iam::123456789012:role/execution"

pytestmark = pytest.mark.flaky(
    reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
)


async def test_headers_are_in_the_container_and_nowhere_else(pool, aws):
    text = json.dumps(HEADERS)
    arn = aws.client("secretsmanager").create_secret(Name="headers", SecretString=text)["ARN"]
    reference = {"prefect_client_custom_headers_secret_arn": arn, "execution_role_arn": ROLE}
    script = "echo ${#PREFECT_CLIENT_CUSTOM_HEADERS}"
    with temporary_settings({PREFECT_CLIENT_CUSTOM_HEADERS: HEADERS}):
        runs = [await pool.start("told", script=script, **reference), await pool.start("not", script=script)]
        async with pool.worker():
            told, refused = [await pool.end(run_id) for run_id in runs]
            assert await pool.lines_when(runs[0], bool) == [str(len(text))]
    assert told.name == "Completed" and refused.name == "Crashed"
    assert refused.message.startswith("prefect_client_custom_headers_secret_arn is not set: PREFECT_CLIENT")
    batch = aws.client("batch")
    job = batch.describe_jobs(jobs=[(await pool.run(runs[0])).infrastructure_pid])["jobs"]
    definitions = batch.describe_job_definitions()["jobDefinitions"]
    logs = [line.message for run_id in runs for line in await pool.logs(run_id)]
    shown = str([aws.control.batch_calls, job, definitions, logs, told.message, refused.message])
    assert arn in shown and HUSH not in shown
