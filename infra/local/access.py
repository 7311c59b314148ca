"""Who may use the server of a stack: an auth string of its own, in a file that only its owner reads."""

import os
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path

import httpx

USER = "gridbench"
TIMEOUT_S = 10.0


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


def basic_auth(auth: str) -> httpx.BasicAuth:
    """Return how requests show an auth string, USER:PASSWORD."""
    return httpx.BasicAuth(*auth.split(":", 1))


@cache
def api_client(state: Path, api_url: str) -> httpx.Client:
    """Return a client of a stack: a new one reads certificates for 60 ms of CPU, ten times a second.

    Each request has its own connection, because the server may have been started again since the last.
    """
    limits = httpx.Limits(max_keepalive_connections=0)
    auth = basic_auth(auth_string(state))
    return httpx.Client(base_url=api_url, auth=auth, timeout=TIMEOUT_S, trust_env=False, limits=limits)
