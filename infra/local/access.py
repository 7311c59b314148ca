"""Who may use the server of a stack: an auth string of its own, in a file that only its owner reads."""

import os
import secrets
from collections.abc import Generator
from contextlib import suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

import httpx

USER = "gridbench"
TIMEOUT_S = 10.0
CHANGES = ("POST", "PUT", "PATCH", "DELETE")


def auth_file(state: Path) -> Path:
    """Return the file with the auth string, which is also the password of the UI."""
    return state / "prefect" / "auth"


def auth_string(state: Path) -> str:
    """Return the auth string of a state folder, made at the first call: USER:PASSWORD."""
    path = auth_file(state)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"auth.{os.getpid()}")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{USER}:{secrets.token_urlsafe(32)}")
        with suppress(FileExistsError):  # another process of ours was faster
            os.link(draft, path)
        draft.unlink()
    return path.read_text()


class StackAuth(httpx.Auth):
    """The auth string, and the token that a server wants with each change, as Prefect's clients send it."""

    requires_response_body = True

    def __init__(self, auth: str) -> None:
        self._basic = httpx.BasicAuth(*auth.split(":", 1))
        self._client, self._token = str(uuid4()), ""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Name ourselves; a change has a token, which is fetched where there is none or it has expired."""
        next(self._basic.auth_flow(request))
        if request.method not in CHANGES:
            yield request
            return
        if not self._token:
            yield from self._fetch(request)
        self._sign(request)
        if "Invalid CSRF token" in (yield request).text:
            yield from self._fetch(request)
            self._sign(request)
            yield request

    def _sign(self, request: httpx.Request) -> None:
        request.headers.update({"Prefect-Csrf-Token": self._token, "Prefect-Csrf-Client": self._client})

    def _fetch(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        root = request.url.copy_with(path="/api/csrf-token", query=f"client={self._client}".encode())
        headers = {"Authorization": request.headers["Authorization"]}
        answer = yield httpx.Request("GET", root, headers=headers)
        self._token = str(answer.json()["token"]) if answer.is_success else ""


@cache
def api_client(state: Path, api_url: str) -> httpx.Client:
    """Return a client of a stack: a new one reads certificates for 60 ms of CPU, ten times a second.

    Each request has its own connection, because the server may have been started again since the last.
    """
    limits = httpx.Limits(max_keepalive_connections=0)
    auth = StackAuth(auth_string(state))
    return httpx.Client(base_url=api_url, auth=auth, timeout=TIMEOUT_S, trust_env=False, limits=limits)
