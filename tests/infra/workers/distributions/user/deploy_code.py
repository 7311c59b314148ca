"""Deploy the flow with a folder of its machine: `python deploy_code.py POOL FOLDER JOB_VARIABLES`."""

import json
import sys

from prefect import flow

if __name__ == "__main__":
    pool, folder, variables = sys.argv[1:]
    flow.from_source(source=folder, entrypoint="hello.py:hello").deploy(
        name="hello", work_pool_name=pool, job_variables=json.loads(variables)
    )
