"""The connections to a proxy: each counts as a stranger's until a request on it has the token.

Every user of the box can connect, so strangers take no places of the box's own connections and are
disconnected soon.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from .limits import CONNECTIONS, STRANGER_S

CALLER = "caller"  # in the state of an ASGI scope


@dataclass(eq=False)
class Caller:
    """The other end of one connection; `known` once it has sent the token."""

    transport: asyncio.Transport | None = None
    known: bool = False

    def end(self) -> None:
        if self.transport and not self.known:
            self.transport.abort()


@dataclass
class Callers:
    """All connections to one proxy, oldest first."""

    _callers: list[Caller] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return sum(caller.known for caller in self._open()) >= CONNECTIONS

    def add(self, caller: Caller) -> None:
        """Add a connection, which ends soon without the token; end the oldest of too many strangers."""
        self._callers = [*self._open(), caller]
        strangers = [each for each in self._callers if not each.known]
        for oldest in strangers[:-CONNECTIONS]:
            oldest.end()
        asyncio.get_running_loop().call_later(STRANGER_S, caller.end)

    def _open(self) -> list[Caller]:
        return [each for each in self._callers if each.transport and not each.transport.is_closing()]


class Protocol(H11Protocol):
    """HTTP on one connection, which its requests know as `Caller`."""

    def __init__(self, config: Config, state: ServerState, callers: Callers) -> None:
        self._callers, self._caller = callers, Caller()
        super().__init__(config, state, {CALLER: self._caller})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._caller.transport = transport
        self._callers.add(self._caller)
        super().connection_made(transport)


def admit(scope: Mapping[str, Any]) -> None:
    """Keep the connection of a request with the token."""
    if caller := (scope.get("state") or {}).get(CALLER):
        caller.known = True
