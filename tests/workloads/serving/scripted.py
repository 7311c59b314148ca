"""A server with scripted answers, as a process that logs its times.

`python -m tests.workloads.serving.scripted SCRIPT [PORT]` prints the port; `GET /log` returns each request's
arrival and the times of its answer's parts, by the shared monotonic clock.
"""

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from aiohttp import web

from workloads.serving.play import until

ROOT = Path(__file__).parents[3]


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

    async def answer(self, request):
        came, script = time.monotonic(), self.script
        body = await request.json()
        self.began = self.began or came
        self.log.append(times := [came])
        number = len(self.log)
        if script.fails_every and number % script.fails_every == 0:
            raise web.HTTPServiceUnavailable
        if script.hangs_every and number % script.hangs_every == 0:
            await asyncio.sleep(3600)
        ready = came + script.first_s
        if script.service_s:
            ready = self.free_at = max(self.free_at, came) + script.service_s
        begin, end = (self.began + edge for edge in script.stall_s)
        await until(end if begin <= ready < end else ready)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        parts = body["max_tokens"]
        at = time.monotonic()
        for part in range(parts):
            if part:
                at += script.next_s + (script.pause_s if part == 4 else 0.0)
                await until(at)
            if script.cuts_every and number % script.cuts_every == 0 and part == parts // 2:
                request.transport.close()
                return response
            await self.say(response, {"choices": [self.choice(request, f"word{part} ")]})
            times.append(time.monotonic())
        if script.tokens_a_part:
            usage = {"completion_tokens": parts * script.tokens_a_part, "prompt_tokens": 7}
            await self.say(response, {"choices": [], "usage": usage})
        await response.write(b"data: [DONE]\n\n")
        return response

    def choice(self, request, text):
        return {"delta": {"content": text}} if "chat" in request.path else {"text": text}

    async def say(self, response, event):
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")

    async def health(self, _):
        return web.Response()

    async def times(self, _):
        return web.json_response(self.log)


def main():
    scripted = Scripted(Script(**json.loads(sys.argv[1])))
    app = web.Application()
    app.add_routes(
        [
            web.post("/v1/completions", scripted.answer),
            web.post("/v1/chat/completions", scripted.answer),
            web.get("/log", scripted.times),
            web.get("/health", scripted.health),
        ]
    )
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    web.run_app(app, host="127.0.0.1", port=port, print=lambda text: print(text, flush=True), access_log=None)


@contextmanager
def scripted(script):
    """Start a server; yield its address, and a function that returns its log."""
    command = [sys.executable, "-m", "tests.workloads.serving.scripted", json.dumps(asdict(script))]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        address = next(line for line in process.stdout if "http://" in line)
        address = address[address.index("http://") :].split()[0].rstrip("=")
        yield address, lambda: json.loads(urllib.request.urlopen(f"{address}/log").read())
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
