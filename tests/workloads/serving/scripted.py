"""A server with scripted answers, as a process that logs its times.

`python -m tests.workloads.serving.scripted SCRIPT [PORT]` prints the address; `GET /log` returns the times of each request:
when its bytes were read, and when each part of its answer was written, by the monotonic clock that all processes share. It
speaks HTTP itself, so that no library stands between its log and the socket.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from workloads.serving.play import until

ROOT = Path(__file__).parents[3]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Script:
    """The behaviour of the server.

    Attributes:
        first_s, next_s: before the first part and each further one.
        service_s: of the one worker behind a queue, before the first part; 0 without a queue.
        stall_s: seconds from .. to .. after the first request without an answer.
        pause_s: before the fifth part.
        fails_every, cuts_every, hangs_every: each n-th request gets a 503, half an answer, or no answer.
        tokens_a_part: by the server's own count; 0 if it does not count.
    """

    first_s: float = 0.0
    next_s: float = 0.0
    service_s: float = 0.0
    stall_s: tuple[float, float] = (0.0, 0.0)
    pause_s: float = 0.0
    fails_every: int = 0
    cuts_every: int = 0
    hangs_every: int = 0
    tokens_a_part: int = 1


class Scripted:
    def __init__(self, script):
        self.script, self.log, self.free_at, self.began = script, [], 0.0, None

    async def answer(self, came, path, body, transport):
        """Answer a request that came at a time; return False to close the connection."""
        if path in ("/log", "/health"):
            content = json.dumps(self.log).encode() if path == "/log" else b""
            transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content))
            return True
        script = self.script
        self.began = self.began or came
        self.log.append(times := [came])
        number = len(self.log)
        if script.fails_every and number % script.fails_every == 0:
            transport.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
            return True
        if script.hangs_every and number % script.hangs_every == 0:
            await asyncio.sleep(3600)
        ready = came + script.first_s
        if script.service_s:
            ready = self.free_at = max(self.free_at, came) + script.service_s
        begin, end = (self.began + edge for edge in script.stall_s)
        await until(end if begin <= ready < end else ready)
        transport.write(HEAD)
        parts, at = json.loads(body)["max_tokens"], time.monotonic()
        for part in range(parts):
            if part:
                at += script.next_s + (script.pause_s if part == 4 else 0.0)
                await until(at)
            if script.cuts_every and number % script.cuts_every == 0 and part == parts // 2:
                return False
            text = f"word{part} "
            chosen = {"delta": {"content": text}} if "chat" in path else {"text": text}
            event = chunk({"choices": [chosen]})
            times.append(time.monotonic())
            transport.write(event)
        if script.tokens_a_part:
            usage = {"completion_tokens": parts * script.tokens_a_part, "prompt_tokens": 7}
            transport.write(chunk({"choices": [], "usage": usage}))
        transport.write(chunk("[DONE]") + b"0\r\n\r\n")
        return True


def chunk(event):
    """A server-sent event as a chunk of HTTP/1.1."""
    text = event if isinstance(event, str) else json.dumps(event)
    return b"%x\r\ndata: %s\n\n\r\n" % (len(text) + 8, text.encode())


class Connection(asyncio.Protocol):
    """One client, of one request at a time; a request counts from the moment at which its last bytes are read."""

    def __init__(self, scripted):
        self.scripted, self.unread, self.answering = scripted, b"", None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        came = time.monotonic()
        self.unread += data
        head, gap, body = self.unread.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)^content-length: *(\d+)", head, re.M)
        if gap and len(body) >= (int(length[1]) if length else 0):
            self.unread = b""
            self.answering = asyncio.create_task(self.answer(came, head.split()[1].decode(), body))

    async def answer(self, *request):
        if not await self.scripted.answer(*request, self.transport):
            self.transport.close()

    def connection_lost(self, _):
        if self.answering:
            self.answering.cancel()


async def main():
    loop, scripted = asyncio.get_running_loop(), Scripted(Script(**json.loads(sys.argv[1])))
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    server = await loop.create_server(lambda: Connection(scripted), "127.0.0.1", port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@contextmanager
def scripted(script):
    """Start a server; yield its address, and a function that returns its log."""
    command = [sys.executable, "-m", "tests.workloads.serving.scripted", json.dumps(asdict(script))]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip()
        yield address, lambda: json.loads(urllib.request.urlopen(f"{address}/log").read())
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    asyncio.run(main())
