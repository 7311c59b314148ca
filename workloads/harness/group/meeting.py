"""The network by which ranks meet: loopback, and the interface in Gloo's variable."""

import os
import socket
from collections.abc import Mapping

MEET_S = 5.0
GLOO = "GLOO_SOCKET_IFNAME"  # docs.pytorch.org/docs/stable/distributed.html, "Common environment variables"


def no_meeting(device: str, environ: Mapping[str, str] = os.environ) -> str | None:
    return _no_loopback() or (_no_interface(environ) if device == "cpu" else None)


def _no_loopback() -> str | None:
    try:
        with (
            socket.create_server(("localhost", 0)) as server,
            socket.create_connection(server.getsockname(), MEET_S),
        ):
            return None
    except OSError as error:
        return (
            f"ranks meet at localhost, which can't be reached ({error.strerror or error}): enable the loopback "
            "interface (ip link set lo up), and name localhost in /etc/hosts"
        )


def _no_interface(environ: Mapping[str, str]) -> str | None:
    here = [name for _, name in socket.if_nameindex()]
    missing = [name for name in environ.get(GLOO, "").split(",") if name and name not in here]
    if not missing:
        return None
    return f"{GLOO}={environ[GLOO]} names an interface that this machine lacks; it has {', '.join(here)}"
