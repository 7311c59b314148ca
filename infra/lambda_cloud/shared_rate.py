"""One rate for all machines with an API key: limits of the Prefect server, where somebody has made them.

They only spare requests that Lambda would refuse. So nothing waits for them long, and without the limit, or
while the server is away, each machine keeps its own pace.
"""

import time

from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError, rate_limit

LIMITS = {"call": "gridbench-lambda-call", "launch": "gridbench-lambda-launch"}
LONGEST_S = {"call": 15.0, "launch": 60.0}
OFF_S = 120.0  # without asking for a limit again, after it was not to be had

_off_until: dict[str, float] = {}


async def shared_rate(what: str) -> None:
    """Wait for the turn of this machine for a `call` or a `launch`."""
    if time.monotonic() < _off_until.get(what, 0.0):
        return
    try:
        await rate_limit(LIMITS[what], timeout_seconds=LONGEST_S[what], strict=True)
    except (ConcurrencySlotAcquisitionError, TimeoutError):
        _off_until[what] = time.monotonic() + OFF_S
