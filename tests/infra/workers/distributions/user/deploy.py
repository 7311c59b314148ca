"""Deploy the flow: `python deploy.py POOL IMAGE JOB_VARIABLES`."""

import json
import sys

from hello import hello

if __name__ == "__main__":
    pool, image, variables = sys.argv[1:]
    hello.deploy(
        name="hello",
        work_pool_name=pool,
        image=image,
        build=False,
        push=False,
        job_variables=json.loads(variables),
    )
