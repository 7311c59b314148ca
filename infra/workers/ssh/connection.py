"""SSH connections to boxes with known host keys."""

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh

from ..base.job_configuration import JobRefused
from ..base.printable import printable, quoted
from .client_config import CONFIG, config_files, known_hosts, user_of, way_to
from .configuration import Host, SshAddress

CONNECT_S = 30  # for the login to a box
BEAT_S, BEATS = 10, 3  # a connection without this many answers is lost
BLOCK = "block:"
ANSWER_BYTES = 1024 * 1024  # of each of a command's two outputs; `docker info` has some kB
REASON_BYTES = 4096
PLAIN = re.compile(r"[^!\n\\]*")  # text that every shell reads alike, as we quote it
SPECIAL = re.compile(rb"[^\w ./:=@,+-]")
DECODE = 'eval "$(printf %b "$0")"'
ANSWER_S = 120  # a box without an answer for this time is gone: `docker info` of a busy one takes seconds

# A user's configuration can forward an agent, start a command or ask for a terminal: not here.
OPTIONS: dict[str, Any] = {
    "keepalive_interval": BEAT_S,
    "keepalive_count_max": BEATS,
    "login_timeout": CONNECT_S,
    "connect_timeout": CONNECT_S,
    "agent_forwarding": False,
    "request_pty": False,
    "command": None,
    "send_env": [],
    "env": {},
}

LOST = (asyncssh.DisconnectError, asyncssh.ChannelOpenError, OSError, TimeoutError)
SecretOf = Callable[[str], Awaitable[str]]


class BoxUnreachable(Exception):
    """The box did not answer; it might answer later."""

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence))


class Pinned(asyncssh.SSHClient):
    """Stores the unknown key that a box showed."""

    shown: str | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Refuse the key: known ones have been compared before."""
        self.shown = f"{key.get_algorithm()} {key.get_fingerprint()}"
        return False


async def connect(
    host: Host, secret_of: SecretOf, *, in_before: bool = False
) -> asyncssh.SSHClientConnection:
    """Connect through the jumps, whose connections end with this one.

    With `in_before`, a refused login counts as temporary, because the box accepted us earlier. `JobRefused`
    for an unknown host key, a refused login or an unreadable key; `BoxUnreachable` without an answer.
    """
    way: asyncssh.SSHClientConnection | None = None
    for each in [*way_to(host), host]:
        try:
            connection = await _connect(each, secret_of, in_before, way)
        except BaseException:
            if way is not None:
                way.abort()
            raise
        connection.set_tunnel(way)
        way = connection
    assert way is not None  # the box itself is the last
    return way


async def _connect(
    host: SshAddress, secret_of: SecretOf, in_before: bool, way: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    client, user, trusted = Pinned(), user_of(host), _known(host)
    login: dict[str, Any] = {}
    if host.key:  # only the box's own key
        login = {"client_keys": await _keys(host, secret_of), "client_certs": [], "agent_path": None}
    try:
        connection, _ = await asyncssh.create_connection(
            lambda: client,
            host.address,
            host.port or (),
            username=user,
            tunnel=way,
            known_hosts=trusted,
            **login,
            **OPTIONS,
            config=config_files(),
        )
    except asyncssh.HostKeyNotVerifiable as error:
        raise JobRefused(_unknown(host, client.shown, error), "HostKeyRefused") from None
    except asyncssh.PermissionDenied:
        if in_before:
            raise BoxUnreachable(f"Box {host} accepts no login.") from None
        which = host.key or "any key of the worker's agent and home"
        raise JobRefused(
            f"Box {host} does not accept {user} with {which}: add the public key to its authorized_keys.",
            "KeyRefused",
        ) from None
    except asyncssh.KeyExchangeFailed as error:
        if "host key" in str(error).lower():
            raise JobRefused(_unknown(host, client.shown, error), "HostKeyRefused") from None
        text = f"Box {host} and the worker have no common SSH algorithm ({error_text(error)})."
        raise BoxUnreachable(text) from None
    except (ValueError, FileNotFoundError) as error:
        raise JobRefused(f"{CONFIG} can't be used for box {host}: {error}.", "KeyRefused") from None
    except (*LOST, asyncssh.Error) as error:
        raise BoxUnreachable(f"Box {host} does not answer ({error_text(error)}).") from None
    return connection


async def _keys(host: SshAddress, secret_of: SecretOf) -> list[asyncssh.SSHKey]:
    key = str(host.key)
    secret = await secret_of(key.removeprefix(BLOCK)) if key.startswith(BLOCK) else None
    try:
        if secret is not None:
            return [asyncssh.import_private_key(secret)]
        return [asyncssh.read_private_key(Path(key).expanduser())]
    except (OSError, ValueError, asyncssh.KeyImportError) as error:
        reason = "it does not hold a private key without a passphrase"
        if isinstance(error, OSError):
            reason = error_text(error)
        raise JobRefused(f"key {key!r} of box {host} can't be used: {reason}.", "KeyRefused") from None


def _known(host: SshAddress) -> Any:
    if host.host_key is None:
        return known_hosts(host)
    try:
        return ([asyncssh.import_public_key(host.host_key)], [], [])
    except asyncssh.KeyImportError:
        raise JobRefused(f"host_key of box {host} is {host.host_key!r}: that is not a public key.") from None


def _unknown(host: SshAddress, shown: str | None, error: Exception) -> str:
    seen = f"shows the key {shown}" if shown else f"shows no key that can be checked ({error_text(error)})"
    if host.host_key is None:
        return (
            f"Box {host} {seen}, and no key is pinned for it: compare it with the key that its owner names, "
            "and add it to host_key or known_hosts."
        )
    pinned = asyncssh.import_public_key(host.host_key)
    expected = f"{pinned.get_algorithm()} {pinned.get_fingerprint()}"
    return (
        f"Box {host} {seen} instead of {expected}: it is another machine, or the connection is "
        "intercepted. Nothing was sent to it."
    )


def error_text(error: BaseException) -> str:
    text = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return quoted(str(text)).rstrip(".") or type(error).__name__


def for_any_shell(command: str) -> str:
    """Quote a command of sh for every login shell.

    csh and tcsh expand `!` and end a word at a line break even in quotes; fish reads backslashes there.
    """
    if PLAIN.fullmatch(command):
        return command
    octal = SPECIAL.sub(lambda byte: b"\\0%03o" % byte[0][0], command.encode()).decode()
    return f"sh -c {shlex.quote(DECODE)} {shlex.quote(octal)}"


async def call(
    connection: asyncssh.SSHClientConnection, command: str, content: bytes = b"", within_s: float = ANSWER_S
) -> asyncssh.SSHCompletedProcess:
    """Run a command; `BoxUnreachable` for a lost connection, a late or too large answer."""
    command = for_any_shell(command)
    try:
        async with asyncio.timeout(within_s):
            process = await connection.create_process(command, input=content, encoding=None)
            return await answer_of(process)
    except (*LOST, asyncssh.Error) as error:
        raise BoxUnreachable(f"The connection was lost ({error_text(error)}).") from None


async def answer_of(process: asyncssh.SSHClientProcess[bytes]) -> asyncssh.SSHCompletedProcess:
    """Raise `BoxUnreachable` after ANSWER_BYTES or a lost connection."""
    reading = [asyncio.create_task(_read(stream)) for stream in (process.stdout, process.stderr)]
    try:
        output, errors = await asyncio.gather(*reading)
        await process.wait_closed()
    finally:
        for task in reading:
            task.cancel()
        process.close()
    if process.exit_status is None:  # output before a connection was lost
        raise BoxUnreachable("The connection was lost.")
    # A sentence has its reason at its beginning, and a long log of a runtime at its end.
    reason = errors[:REASON_BYTES] + errors[REASON_BYTES:][-REASON_BYTES:]
    return asyncssh.SSHCompletedProcess(exit_status=process.exit_status, stdout=output, stderr=reason)


async def _read(stream: asyncssh.SSHReader[bytes]) -> bytes:
    content = bytearray()
    while chunk := await stream.read(ANSWER_BYTES):
        content += chunk
        if len(content) > ANSWER_BYTES:
            raise BoxUnreachable(f"The box answers a command with more than {ANSWER_BYTES} bytes.")
    return bytes(content)
