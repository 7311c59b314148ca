"""Calls of Prefect's API that outlive a restart of the server."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import httpx
from tenacity import AsyncRetrying, retry_if_exception, wait_random_exponential

LONGEST_WAIT_S = 10

T = TypeVar("T")


async def call_until_answered(call: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
    again = AsyncRetrying(
        retry=retry_if_exception(_is_transient),
        wait=wait_random_exponential(max=LONGEST_WAIT_S),
        sleep=anyio.sleep,
        reraise=True,
    )

    async def shielded() -> T:
        with anyio.CancelScope(shield=True):  # a stopping worker leaves no request half done
            answer = await call(*args, **kwargs)
        return answer

    return await again(shielded)


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= 500 or error.response.status_code == 429
    return isinstance(error, httpx.TransportError)
