"""AWS calls of one account and region."""

import threading
import time
from typing import Any

import anyio
import anyio.to_thread
import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from prefect_aws import AwsCredentials
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from ..base.job_configuration import JobRefused
from .errors import EXPIRED, code_of, sentence, worth_another_try

SLOW_CALL_S = 30  # then the connection counts as lost
LONGEST_WAIT_S = 8  # between tries
ONE_ATTEMPT = Config(
    retries={"mode": "standard", "total_max_attempts": 1},
    connect_timeout=10,
    read_timeout=SLOW_CALL_S,
    max_pool_connections=20,
)


class RegionCalls:
    """One region in one account."""

    def __init__(self, name: str | None, credentials: AwsCredentials | None = None) -> None:
        """Without credentials, AWS's client finds those of the worker's machine."""
        self.name = name or (credentials.region_name if credentials else None)
        self._credentials = credentials
        self._clients: dict[str, Any] = {}
        self._making = threading.Lock()

    async def call(self, service: str, operation: str, **request: Any) -> dict[str, Any]:
        """Make one call, in a thread; raise botocore's errors.

        A block's role is assumed for an hour, then again.
        """
        client = await anyio.to_thread.run_sync(self._client, service)
        try:
            return await self._in_thread(client, operation, request)
        except ClientError as error:
            if self._credentials is None or code_of(error) not in EXPIRED:
                raise
            with self._making:
                if self._clients.get(service) is client:  # else another call has made a new one
                    del self._clients[service]
        client = await anyio.to_thread.run_sync(self._client, service)
        return await self._in_thread(client, operation, request)

    @staticmethod
    async def _in_thread(client: Any, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = await anyio.to_thread.run_sync(lambda: getattr(client, operation)(**request))
        return answer

    async def retry(self, service: str, operation: str, patience_s: float, **request: Any) -> dict[str, Any]:
        """Make an idempotent call until AWS answers.

        `JobRefused` if AWS refused, or did not answer within `patience_s`.
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
        with self._making:  # making clients is not safe in threads; using them is
            if service not in self._clients:
                self._clients[service] = self._new_client(service)
            return self._clients[service]

    def _new_client(self, service: str) -> Any:
        if self._credentials is None:
            return boto3.session.Session(region_name=self.name).client(service, config=ONE_ATTEMPT)
        options = self._credentials.aws_client_parameters.get_params_override()
        config = options.pop("config", Config()).merge(ONE_ATTEMPT)
        session = self._credentials.get_boto3_session()  # the block caches its client beyond the role's hour
        return session.client(service, region_name=self.name, config=config, **options)


def action_of(service: str, operation: str) -> str:
    return f"{service}:{''.join(word.capitalize() for word in operation.split('_'))}"


def now_ms() -> int:
    return int(time.time() * 1000)
