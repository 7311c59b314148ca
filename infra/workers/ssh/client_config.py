"""A box's entries in the worker's ~/.ssh/config and known_hosts files."""

import getpass
import os
import re
from pathlib import Path
from typing import cast

import asyncssh
from asyncssh.config import SSHClientConfig
from pydantic import ValidationError

from ..base.job_configuration import JobRefused
from .configuration import DEFAULT_USER, Host, SshAddress

CONFIG = "~/.ssh/config"
KNOWN_HOSTS = ("~/.ssh/known_hosts",)
GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts",)
HOP = re.compile(r"(ssh://)?((?P<user>[^@]+)@)?(\[(?P<ip>[^]]+)\]|(?P<name>[^:]+))(:(?P<port>[0-9]+))?")


def config_files() -> list[str]:
    return _readable([CONFIG])


def config_of(host: SshAddress) -> SSHClientConfig:
    """Return a box's configuration, its own fields first; `JobRefused` for an unreadable file."""
    said = (host.user or (), host.address, host.port or ())
    try:
        config = SSHClientConfig.load(None, config_files(), False, False, False, _local_user(), *said)
    except (ValueError, asyncssh.Error) as error:
        raise JobRefused(f"{CONFIG} can't be used for box {host}: {error}.") from None
    return cast(SSHClientConfig, config)


def _local_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return DEFAULT_USER


def user_of(host: SshAddress) -> str:
    return host.user or str(config_of(host).get("User") or DEFAULT_USER)


def way_to(host: SshAddress, seen: tuple[str, ...] = ()) -> list[SshAddress]:
    """Return the jump hosts, the first one first; `JobRefused` for a circle or an unreadable one."""
    name = SshAddress.__str__(host)
    if name in seen:
        circle = " → ".join((*seen, name))
        raise JobRefused(
            f"ProxyJump of {CONFIG} is circular ({circle}): set ProxyJump none for the first jump host."
        )
    hops = list(host.jump) if isinstance(host, Host) else []
    if not hops and (text := config_of(host).get("ProxyJump")):
        hops = [hop(word) for word in str(text).split(",")]
    return [*way_to(hops[0], (*seen, name)), *hops] if hops else []


def hop(text: str) -> SshAddress:
    """Parse [USER@]HOST[:PORT], as in ssh -J; `JobRefused` for other text."""
    parts = HOP.fullmatch(text.strip())
    try:
        if parts is None:
            raise ValueError(text)
        port = int(parts["port"]) if parts["port"] else None
        return SshAddress(address=parts["ip"] or parts["name"], user=parts["user"], port=port)
    except (ValueError, ValidationError):
        raise JobRefused(f"the jump {text!r} is not [USER@]HOST[:PORT].") from None


def known_hosts(host: SshAddress) -> asyncssh.SSHKnownHosts:
    """Return the known keys.

    No configuration switches the check off: with `UserKnownHostsFile none` no key is known.
    """
    config = config_of(host)
    named = [
        config.get("UserKnownHostsFile", KNOWN_HOSTS),
        config.get("GlobalKnownHostsFile", GLOBAL_KNOWN_HOSTS),
    ]
    files = _readable([str(path) for paths in named for path in cast(list[str], paths)])
    try:
        return asyncssh.read_known_hosts(files)
    except ValueError as error:
        raise JobRefused(f"the known hosts in {' and '.join(files)} can't be read: {error}.") from None


def _readable(paths: list[str]) -> list[str]:
    files = [Path(path).expanduser() for path in paths]
    return [str(path) for path in files if path.is_file() and os.access(path, os.R_OK)]
