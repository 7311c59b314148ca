"""One sweep, for a schedule on another machine: `python -m infra.lambda_cloud`, with LAMBDA_API_KEY set.

Needs only httpx, anyio, tenacity, pydantic and pydantic-settings.
"""

import asyncio
import sys
from datetime import UTC, datetime

from infra.lambda_cloud.api import LambdaApi, api_key, api_url
from infra.lambda_cloud.errors import LambdaError
from infra.lambda_cloud.janitor import Swept, sweep


def main() -> int:
    async def sweep_once() -> Swept:
        async with LambdaApi(api_key(), api_url()) as api:
            return await sweep(api, datetime.now(UTC), print)

    try:
        swept = asyncio.run(sweep_once())
    except LambdaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for problem in swept.problems:
        print(f"error: {problem}", file=sys.stderr)
    if not (swept.returned or swept.removed_keys or swept.problems):
        print("no machine of Gridbench is overdue at Lambda Cloud")
    return 1 if swept.problems else 0


if __name__ == "__main__":
    sys.exit(main())
