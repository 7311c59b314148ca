"""Access to a stack's server by an auth string."""

import os
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path

import httpx

USER = "gridbench"
TIMEOUT_S = 10.0


def auth_file(state: Path) -> Path:
    """Return the file with the auth string, which is also the UI's password."""
    return state / "prefect" / "auth"


def auth_string(state: Path) -> str:
    """Return USER:PASSWORD; the first call makes it."""
    path = auth_file(state)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"auth.{os.getpid()}")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{USER}:{secrets.token_urlsafe(32)}")
        with suppress(FileExistsError):  # our other process was faster
            os.link(draft, path)
        draft.unlink()
    return path.read_text()


def basic_auth(auth: str) -> httpx.BasicAuth:
    return httpx.BasicAuth(*auth.split(":", 1))


@cache
def api_client(state: Path, api_url: str) -> httpx.Client:
    """Return a client to reuse: a new one takes 60 ms of CPU for certificates.

    Each request has its own connection: the server might have restarted.
    """
    limits = httpx.Limits(max_keepalive_connections=0)
    auth = basic_auth(auth_string(state))
    return httpx.Client(base_url=api_url, auth=auth, timeout=TIMEOUT_S, trust_env=False, limits=limits)
