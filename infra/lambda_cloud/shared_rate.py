"""One rate for all machines with an API key, by optional concurrency limits of the Prefect server."""

import time

from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError, rate_limit

LIMITS = {"call": "gridbench-lambda-call", "launch": "gridbench-lambda-launch"}
LONGEST_S = {"call": 15.0, "launch": 60.0}
OFF_S = 120.0  # until the next request for a limit after a failed one

_off_until: dict[str, float] = {}


async def shared_rate(what: str) -> None:
    if time.monotonic() < _off_until.get(what, 0.0):
        return
    try:
        await rate_limit(LIMITS[what], timeout_seconds=LONGEST_S[what], strict=True)
    except (ConcurrencySlotAcquisitionError, TimeoutError):
        _off_until[what] = time.monotonic() + OFF_S
