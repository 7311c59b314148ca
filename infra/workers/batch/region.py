"""AWS calls of one region: in a thread, one attempt each, so that the caller decides about failures."""

import threading
import time
from typing import Any

import anyio
import anyio.to_thread
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from infra.workers.base.job_configuration import JobRefused
from infra.workers.batch.errors import sentence, worth_another_try

SLOW_CALL_S = 30  # then the connection counts as lost
LONGEST_WAIT_S = 8  # between tries


class RegionCalls:
    """The clients of one region, made when they are first needed."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self._clients: dict[str, Any] = {}
        self._making = threading.Lock()

    async def call(self, service: str, operation: str, **request: Any) -> dict[str, Any]:
        """Make one call, in a thread; failures come through as botocore raises them."""
        return await anyio.to_thread.run_sync(lambda: getattr(self._client(service), operation)(**request))

    async def retry(self, service: str, operation: str, patience_s: float, **request: Any) -> dict[str, Any]:
        """Make a call that changes nothing when it is repeated, until AWS answers.

        Raises:
            JobRefused: AWS said no, or did not answer within `patience_s`.
        """
        again = AsyncRetrying(
            retry=retry_if_exception(lambda e: isinstance(e, Exception) and worth_another_try(e)),
            stop=stop_after_delay(patience_s),
            wait=wait_random_exponential(max=LONGEST_WAIT_S),
            sleep=anyio.sleep,
            reraise=True,
        )
        try:
            return await again(self.call, service, operation, **request)
        except Exception as error:
            raise JobRefused(sentence(error, action_of(service, operation))) from error

    def _client(self, service: str) -> Any:
        import boto3
        from botocore.config import Config

        with self._making:  # making clients is not safe in threads; using them is
            if service not in self._clients:
                config = Config(
                    retries={"mode": "standard", "total_max_attempts": 1},
                    connect_timeout=10,
                    read_timeout=SLOW_CALL_S,
                    max_pool_connections=20,
                )
                session = boto3.session.Session(region_name=self.name)
                self._clients[service] = session.client(service, config=config)
            return self._clients[service]


def action_of(service: str, operation: str) -> str:
    """Name a call as IAM policies and AWS's pages do: `batch:SubmitJob`."""
    return f"{service}:{''.join(word.capitalize() for word in operation.split('_'))}"


def now_ms() -> int:
    """Return the time as AWS Batch writes it, in milliseconds."""
    return int(time.time() * 1000)
