"""Client of Lambda's API."""

import os
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import anyio
import httpx
from pydantic import TypeAdapter, ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_before_delay
from tenacity.wait import wait_random_exponential

from infra.lambda_cloud.errors import (
    KEYS_PAGE,
    BadRequest,
    Doubtful,
    LambdaError,
    NotFound,
    Unavailable,
    refusal,
)
from infra.lambda_cloud.models import LambdaInstance, LambdaOffer, Launched, LaunchRequest, SshKey
from infra.lambda_cloud.settings import ApiPace, Turnstile, shared_file, unbroken

URL = "https://cloud.lambda.ai/api/v1"  # API document, servers
KEY_VARIABLE, URL_VARIABLE = "LAMBDA_API_KEY", "LAMBDA_API_URL"
AGENT = "gridbench"  # a gateway can refuse the default names of HTTP libraries
TERMINATE = "instance-operations/terminate"
LOOKS = 3  # an instance can be missing from the first list after its launch

T = TypeVar("T")
Shared = Callable[[str], Awaitable[None]]  # waits until other machines allow a `call`, or a `launch`
OFFERS = TypeAdapter(dict[str, LambdaOffer])
INSTANCE = TypeAdapter(LambdaInstance)
INSTANCES = TypeAdapter(list[LambdaInstance])
SSH_KEY = TypeAdapter(SshKey)
SSH_KEYS = TypeAdapter(list[SshKey])
TERMINATED = TypeAdapter(dict[str, list[LambdaInstance]])


def api_key() -> str:
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        raise LambdaError(f"Lambda's API needs a key: set {KEY_VARIABLE} to one from {KEYS_PAGE}")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise LambdaError(f"{KEY_VARIABLE} holds characters that no key has: copy it again from {KEYS_PAGE}")
    return key


def api_url() -> str:
    url = os.environ.get(URL_VARIABLE, "").strip().rstrip("/") or URL
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise LambdaError(f"{URL_VARIABLE} is {url!r}, which is not an address: it looks like {URL}")
    if parts.scheme == "http" and not _private(parts.hostname):
        raise LambdaError(f"{URL_VARIABLE} is {url!r}: the key would be sent in the clear, so use https")
    return url


def _private(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_private
    except ValueError:
        return False


def _user_agent() -> str:
    try:
        return f"{AGENT}/{version(AGENT)}"
    except PackageNotFoundError:  # a checkout that is not installed
        return AGENT


@cache
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context()  # takes a tenth of a second


class LambdaApi:
    """The calls that renting needs.

    Every method can raise a `LambdaError`: `KeyRefused` for a refused key or account, `Unavailable` after
    `pace.patience_s` seconds of failures, and those that it names.
    """

    def __init__(
        self, key: str, url: str = URL, pace: ApiPace | None = None, shared: Shared | None = None
    ) -> None:
        self.pace, self._shared = pace or ApiPace(), shared
        self._secrets = (key,)
        account, every_s = f"{url} {key}", {"call": self.pace.call_s, "launch": self.pace.launch_s}
        self._calls, self._launches = (
            Turnstile(seconds, file=shared_file(account, what)) for what, seconds in every_s.items()
        )
        self._client = httpx.AsyncClient(
            base_url=f"{url.rstrip('/')}/",
            headers={
                "Authorization": f"Bearer {key}",
                "Accept": "application/json",
                "User-Agent": _user_agent(),
            },
            timeout=self.pace.timeout_s,
            verify=_certificates(),
        )

    def __repr__(self) -> str:
        return f"LambdaApi({str(self._client.base_url)!r})"

    async def __aenter__(self) -> "LambdaApi":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def offers(self) -> dict[str, LambdaOffer]:
        return self._read(OFFERS, await self._surely("listing instance types", "GET", "instance-types"))

    async def instances(self) -> list[LambdaInstance]:
        """Return all instances of the account; ended ones stay listed for a while."""
        return self._read(INSTANCES, await self._surely("listing instances", "GET", "instances"))

    async def instance(self, instance_id: str) -> LambdaInstance:
        """Raise `NotFound` if the instance does not exist."""
        path = f"instances/{quote(instance_id, safe='')}"
        return self._read(INSTANCE, await self._surely(f"looking at {instance_id}", "GET", path))

    async def terminate(self, instance_ids: Sequence[str]) -> list[LambdaInstance]:
        """Return the instances reported as ended, which can be fewer."""
        body = {"instance_ids": list(instance_ids)}
        doing = f"giving back {', '.join(instance_ids)}"
        answer = await self._surely(doing, "POST", TERMINATE, body)
        return self._read(TERMINATED, answer).get("terminated_instances", [])

    async def ssh_keys(self) -> list[SshKey]:
        return self._read(SSH_KEYS, await self._surely("listing SSH keys", "GET", "ssh-keys"))

    async def add_ssh_key(self, name: str, public_key: str) -> SshKey:
        """Register a public key, or reuse that of this name from a lost answer."""

        async def attempt() -> SshKey:
            body = {"name": name, "public_key": public_key}
            try:
                answer = await self._ask(f"adding the SSH key {name}", "POST", "ssh-keys", body)
                return self._read(SSH_KEY, answer)
            except Unavailable as error:
                present = await self.ssh_keys() if error.perhaps_done else []
                for key in present:
                    if (key.name, key.public_key.split()[:2]) == (name, public_key.split()[:2]):
                        return key
                raise

        return await self._again()(attempt)

    async def remove_ssh_key(self, key_id: str) -> None:
        try:
            path = f"ssh-keys/{quote(key_id, safe='')}"
            await self._surely(f"removing the SSH key {key_id}", "DELETE", path)
        except NotFound:
            return
        except BadRequest:  # the API documents no 404 for keys
            if any(key.id == key_id for key in await self.ssh_keys()):
                raise

    async def launch(
        self, request: LaunchRequest, ours: set[str] | None = None, patience_s: float | None = None
    ) -> str:
        """Rent one instance and return its id; `ours` receives it at once, for a cancelled caller.

        Raises:
            NoCapacity: the type is not available in the region now.
            QuotaExceeded, BadRequest, NotFound: a retry would not help.
            Unavailable: no instance was made.
            Doubtful: an instance might have been made.
        """
        taken = ours if ours is not None else set()
        unanswered: list[LambdaError] = []

        async def attempt() -> str:
            await self._launches.wait()
            if self._shared:
                await self._shared("launch")
            return await unbroken(self._launch_once(request, taken, unanswered))

        return await self._again(patience_s)(attempt)

    async def _launch_once(
        self, request: LaunchRequest, ours: set[str], unanswered: list[LambdaError]
    ) -> str:
        doing = f"launching {request.instance_type_name} in {request.region_name}"
        try:
            answer = await self._ask(doing, "POST", "instance-operations/launch", request.body())
            instance_id = Launched.model_validate(answer).instance_ids[0]
        except (Unavailable, ValidationError) as error:
            if isinstance(error, Unavailable) and not error.perhaps_done:
                raise
            lost = error if isinstance(error, Unavailable) else Unavailable(f"{doing}: the answer has no id")
            unanswered.append(lost)
            instance_id = await self._look_for(request.name, lost)
        except LambdaError as error:
            if not unanswered:
                raise
            # the previous attempt might have taken the last
            instance_id = await self._look_for(request.name, error)
        ours.add(instance_id)
        return instance_id

    async def _look_for(self, name: str, lost: LambdaError) -> str:
        """Return a launch without an answer; raise `lost`, or `Doubtful` if the API fails."""
        for _ in range(LOOKS):
            await anyio.sleep(self.pace.look_s)
            try:
                for instance in await self.instances():
                    if instance.name == name and not instance.ended:
                        return instance.id
            except LambdaError as error:
                raise Doubtful(
                    f"it is unknown if an instance named {name} runs now ({lost}; then {error}): "
                    "`gridbench lambda janitor` gives it back after its deadline"
                ) from None
        raise lost

    async def _surely(self, doing: str, method: str, path: str, body: Any = None) -> Any:
        return await self._again()(self._ask, doing, method, path, body)

    def _again(self, patience_s: float | None = None) -> AsyncRetrying:
        longest_s = self.pace.patience_s if patience_s is None else min(patience_s, self.pace.patience_s)
        grown = wait_random_exponential(multiplier=self.pace.retry_s, max=self.pace.longest_retry_s)

        def wait_s(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            return max(grown(state), error.after_s if isinstance(error, Unavailable) else 0.0)

        return AsyncRetrying(
            retry=retry_if_exception_type(Unavailable),
            wait=wait_s,
            stop=stop_before_delay(longest_s),
            sleep=anyio.sleep,
            reraise=True,
        )

    async def _ask(self, doing: str, method: str, path: str, body: Any = None) -> Any:
        await self._calls.wait()
        if self._shared and path != TERMINATE:  # a termination ends costs, so it does not wait
            await self._shared("call")
        try:
            answer = await self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
            why = f"{doing}: Lambda's API at {self._client.base_url.host} can't be reached"
            raise Unavailable(f"{why} ({type(error).__name__})", perhaps_done=not never_sent) from None
        if not answer.is_success:
            pause = answer.headers.get("Retry-After", "")
            raise refusal(doing, answer.status_code, answer.text, pause, self._secrets)
        try:
            return answer.json()["data"]
        except (ValueError, KeyError, TypeError):
            raise Unavailable(f"{doing}: Lambda's API sent no data (HTTP {answer.status_code})") from None

    @staticmethod
    def _read(adapter: TypeAdapter[T], data: Any) -> T:
        try:
            return adapter.validate_python(data)
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the answer"
            raise LambdaError(f"Lambda's API did not answer as documented: {where}: {first['msg']}") from None
