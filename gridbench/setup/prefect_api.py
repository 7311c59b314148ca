"""The Prefect API of a cloud's machines."""

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from infra.workers.base.environment import reach_fault
from tasks.errors import GridbenchError, one_line

if TYPE_CHECKING:  # Prefect is slow to import
    from prefect.client.orchestration import SyncPrefectClient

WAYS = (
    "There are two ways to one: `prefect cloud login`, which is read from Prefect's profile; or a Prefect "
    "server of your own with a public https address and an auth string: `prefect config set "
    "PREFECT_API_URL=https://HOST/api PREFECT_API_AUTH_STRING=USER:PASSWORD`. docs/aws.md says more"
)


def no_answer(url: str, error: Exception) -> str:
    why = one_line(str(error)) or type(error).__name__
    return (
        f"the Prefect API at {url} does not answer ({why}): start it (`prefect server start`), set PREFECT_API_URL to "
        "one that answers, or unset it to use a server that gridbench starts"
    )


@dataclass(frozen=True, slots=True)
class PrefectApi:
    """A Prefect API with its credentials, which are never printed.

    Attributes:
        url: ends in `/api`, or in the workspace's id at Prefect Cloud.
        key: of Prefect Cloud.
        auth_string: of another server.
    """

    url: str
    key: str | None = field(default=None, repr=False)
    auth_string: str | None = field(default=None, repr=False)
    ui_url: str = ""

    @property
    def environment(self) -> dict[str, str]:
        names = {
            "PREFECT_API_URL": self.url,
            "PREFECT_API_KEY": self.key,
            "PREFECT_API_AUTH_STRING": self.auth_string,
        }
        return {name: value for name, value in names.items() if value}

    @contextmanager
    def client(self) -> "Iterator[SyncPrefectClient]":
        import httpx
        from prefect.client.orchestration import SyncPrefectClient
        from prefect.exceptions import PrefectHTTPStatusError

        try:
            with SyncPrefectClient(self.url, api_key=self.key, auth_string=self.auth_string) as client:
                yield client
        except PrefectHTTPStatusError as error:
            status, text = error.response.status_code, " ".join(error.response.text.split())[:300]
            login = ": `prefect cloud login`, or set PREFECT_API_AUTH_STRING"
            refused = f"refuses these credentials ({status}){login}"
            words = refused if status in (401, 403) else f"answers {status}: {text}"
            raise GridbenchError(f"the Prefect API at {self.url} {words}") from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise GridbenchError(no_answer(self.url, error)) from None


def settings_api() -> PrefectApi | None:
    """Return the API of Prefect's settings: variables, files here, or a login's profile.

    Errors do not quote an invalid setting, because it can be a secret.
    """
    from prefect.settings import Settings
    from pydantic import ValidationError

    try:
        settings = Settings()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "one of them"
        raise GridbenchError(f"Prefect's settings make no sense, {where}: {first['msg']}") from None
    if not settings.api.url:
        return None
    key, auth_string = settings.api.key, settings.api.auth_string
    return PrefectApi(
        settings.api.url.rstrip("/"),
        key.get_secret_value() if key else None,
        auth_string.get_secret_value() if auth_string else None,
        (settings.ui_url or settings.api.url.rstrip("/").removesuffix("/api")).rstrip("/"),
    )


def reachable_api(service: str) -> PrefectApi:
    """Return the API that a service's machines can reach, without a request to it."""
    api = settings_api()
    if api is None:
        raise GridbenchError(f"machines of {service} need a Prefect API that they reach. {WAYS}")
    if fault := reach_fault(api.url):
        raise GridbenchError(f"{fault} {WAYS}")
    if not api.key and not api.auth_string:
        raise GridbenchError(
            f"the Prefect API at {api.url} has no credentials in Prefect's settings: a server that asks for "
            "none lets everybody run code on your workers; set PREFECT_SERVER_API_AUTH_STRING there and "
            "PREFECT_API_AUTH_STRING here"
        )
    return api


def notes_on(api: PrefectApi) -> tuple[str, ...]:
    """Return warnings about an API for the user, before money is spent."""
    url, notes = urlsplit(api.url), []
    if url.scheme == "http":
        notes.append(f"{api.url} is not https: its auth string crosses networks in clear text")
    try:
        if ipaddress.ip_address(url.hostname or "").is_private:
            notes.append(
                f"{url.hostname} is a private address: machines elsewhere reach it only by a way of your own"
            )
    except ValueError:
        pass
    return tuple(notes)


def check_answers(api: PrefectApi) -> None:
    with api.client() as client:
        client.read_work_pools(limit=1)
