"""One streamed request to an OpenAI-compatible server, and the times of its answer's parts."""

import asyncio
import json
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workloads.serving.load import Request

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

MOST_LINE_BYTES = 1 << 20
MOST_ANSWER_BYTES = 64 << 20


@dataclass(slots=True)
class ServedAnswer:
    """A request's outcome; times in seconds from the beginning of the load.

    Attributes:
        due_s: its planned arrival, from which every latency counts: a load generator that waits for the server
            would leave out the requests due meanwhile (coordinated omission).
        sent_s: when it was sent.
        first_s: when its first token came.
        last_s: when its last token came, or when it failed.
        tokens: of the answer by the server's count, else the parts with text.
        gaps_s: times from each part with text to the next.
        error: the reason why there is no whole answer.
    """

    due_s: float
    sent_s: float = 0.0
    first_s: float | None = None
    last_s: float = 0.0
    tokens: int = 0
    prompt_tokens: int | None = None
    gaps_s: "array[float]" = field(default_factory=lambda: array("d"))
    error: str | None = None

    @property
    def ttft_s(self) -> float:
        """The time to the first token."""
        return float("inf") if self.first_s is None else self.first_s - self.due_s

    @property
    def tpot_s(self) -> float:
        """The mean time per token after the first."""
        if self.first_s is None or self.error:
            return float("inf")
        return (self.last_s - self.first_s) / max(self.tokens - 1, 1)

    @property
    def itl_s(self) -> float:
        """The longest time between two parts of the answer."""
        return float("inf") if self.error else max(self.gaps_s, default=0.0)

    @property
    def e2e_s(self) -> float:
        """The time to the last token."""
        return float("inf") if self.error else self.last_s - self.due_s


@dataclass(frozen=True, slots=True)
class Server:
    """The address of a server, and the constant fields of each request.

    Attributes:
        url: of the completions or of the chat completions.
        body: `model` and the server's own options, such as `ignore_eos`.
        timeout_s: after which a request has failed.
    """

    url: str
    body: Mapping[str, Any]
    timeout_s: float = 120.0

    def body_of(self, request: Request) -> dict[str, Any]:
        """Return the body of a request."""
        is_chat = self.url.rstrip("/").endswith("/chat/completions")
        prompt: dict[str, Any] = (
            {"messages": [{"role": "user", "content": request.prompt}]}
            if is_chat
            else {"prompt": request.prompt}
        )
        stream = {"stream": True, "stream_options": {"include_usage": True}}
        return {**prompt, "max_tokens": request.output_tokens, "temperature": 0, **stream, **self.body}


async def ask(
    session: "ClientSession", server: Server, request: Request, answer: ServedAnswer, began_s: float
) -> None:
    """Send a request now, and complete its answer; a failure is the answer's error.

    Args:
        began_s: the monotonic time from which the answer's times count.
    """
    from aiohttp import ClientError  # a box that only measures torch does not have it

    answer.sent_s = time.monotonic() - began_s
    try:
        async with asyncio.timeout(server.timeout_s):
            async with session.post(server.url, json=server.body_of(request)) as response:
                if response.status == 200:
                    await _read(response, answer, began_s)
                else:
                    answer.error = f"HTTP {response.status}"
    except TimeoutError:
        answer.error = f"no whole answer in {server.timeout_s:g} s"
    except (ClientError, OSError, ValueError) as error:  # ValueError: a line longer than the client's buffer
        answer.error = type(error).__name__
    if answer.error or answer.first_s is None:
        answer.error = answer.error or "no token"
        answer.last_s = time.monotonic() - began_s


async def _read(response: "ClientResponse", answer: ServedAnswer, began_s: float) -> None:
    """Read the events of an answer, and note when each came.

    Source: server-sent events, https://html.spec.whatwg.org/multipage/server-sent-events.html; the API's own end
    is the event `[DONE]`.
    """
    size_bytes, parts = 0, 0
    usage: Any = None
    async for line in response.content:
        now_s = time.monotonic() - began_s
        size_bytes += len(line)
        if size_bytes > MOST_ANSWER_BYTES:
            answer.error = f"more than {MOST_ANSWER_BYTES >> 20} MiB"
            return
        if not line.startswith(b"data:"):
            continue
        if line[5:].strip() == b"[DONE]":
            answer.tokens = _count(usage, "completion_tokens") or parts
            answer.prompt_tokens = _count(usage, "prompt_tokens")
            return
        text, usage = _event(line[5:], usage)
        if text:
            parts += 1
            if answer.first_s is None:
                answer.first_s = now_s
            else:
                answer.gaps_s.append(now_s - answer.last_s)
            answer.last_s = now_s
    answer.error = "the stream ended early"


def _event(data: bytes, usage: Any) -> tuple[bool, Any]:
    """Return whether an event has text, and the server's count of tokens so far.

    Raises:
        ValueError: it is not a JSON object.
    """
    event = json.loads(data)
    if not isinstance(event, dict) or "error" in event:
        raise ValueError("no event of an answer")
    choices = event.get("choices") or [{}]
    choice = choices[0] if isinstance(choices, list) and isinstance(choices[0], dict) else {}
    delta = choice.get("delta")
    fields = delta if isinstance(delta, dict) else choice
    has_text = any(fields.get(name) for name in ("content", "reasoning_content", "reasoning", "text"))
    return has_text, event.get("usage") or usage


def _count(usage: Any, name: str) -> int | None:
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if type(count) is int and 0 < count < 1 << 31 else None
