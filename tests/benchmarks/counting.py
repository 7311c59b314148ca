"""A counting relay in front of the Prefect API: requests by path, bytes each way, socket messages."""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

REQUEST = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (\S+) HTTP/1\.1\r\n")
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UPGRADE = re.compile(rb"\r\nupgrade: websocket\r\n", re.IGNORECASE)
CHUNK = 1 << 16


@dataclass
class Counts:
    """Traffic so far.

    Attributes:
        calls: requests, by method and path with `{id}` for each id.
        messages: of clients on sockets, mostly events.
    """

    calls: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    sent_bytes: int = 0
    answered_bytes: int = 0

    def clear(self) -> None:
        self.calls.clear()
        self.messages = self.sent_bytes = self.answered_bytes = 0


class Frames:
    """Count text messages in a client's half of a websocket, in pieces of any size."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int:
        """Take bytes; return how many messages begin in them."""
        self._rest += data
        count = 0
        while (length := self._frame_bytes()) is not None and len(self._rest) >= length:
            count += self._rest[0] & 0x0F in (1, 2)
            self._rest = self._rest[length:]
        return count

    def _frame_bytes(self) -> int | None:
        """Return the length of the next frame, or None if it is not known yet."""
        rest = self._rest
        if len(rest) < 2:
            return None
        short, masked = rest[1] & 0x7F, rest[1] >> 7
        size_bytes = {126: 2, 127: 8}.get(short, 0)
        if len(rest) < 2 + size_bytes:
            return None
        length = int.from_bytes(rest[2 : 2 + size_bytes], "big") if size_bytes else short
        return 2 + size_bytes + 4 * masked + length


async def _requests(counts: Counts, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Relay a client's bytes; an HTTP/1.1 client begins each request after the last answer."""
    frames: Frames | None = None
    while data := await source.read(CHUNK):
        counts.sent_bytes += len(data)
        if frames:
            counts.messages += frames.feed(data)
        elif begun := REQUEST.match(data):
            path = ID.sub("{id}", begun[2].decode().partition("?")[0])
            counts.calls[f"{begun[1].decode()} {path}"] += 1
            frames = Frames() if UPGRADE.search(data) else None
        sink.write(data)
        await sink.drain()
    sink.close()


async def _answers(counts: Counts, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK):
        counts.answered_bytes += len(data)
        sink.write(data)
        await sink.drain()
    sink.close()


@contextmanager
def counting(port: int) -> Iterator[tuple[int, Counts]]:
    counts, loop = Counts(), asyncio.new_event_loop()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        both = (_requests(counts, reader, back), _answers(counts, there, writer))
        await asyncio.gather(*both, return_exceptions=True)

    server = loop.run_until_complete(asyncio.start_server(relay, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1], counts
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
