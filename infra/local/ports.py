"""Ports of this machine."""

import socket

import psutil


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def port_taken(host: str, port: int) -> str | None:
    """Return a sentence about the program on `port`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            return f"Port {port} on {host} can't be used, {error.strerror}{_holder(port)}: choose another."
    return None


def _holder(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            taken = connection.status == psutil.CONN_LISTEN and tuple(connection.laddr)[1:2] == (port,)
            if taken and connection.pid:
                return f" by {psutil.Process(connection.pid).name()}, process {connection.pid}"
    except psutil.Error:
        pass  # sockets of other users are not visible
    return ""
