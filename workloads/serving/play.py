"""Send requests when they are due, and collect settled answers."""

import asyncio
import math
import statistics
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from workloads.harness.engine.timing import collector_off
from workloads.serving.client import MOST_LINE_BYTES, ServedAnswer, Server, ask
from workloads.serving.load import Request
from workloads.serving.promise import METRICS, QUANTILES, quantile

if TYPE_CHECKING:
    from aiohttp import ClientSession

ALL_FAILED = 20  # requests at the beginning, after which a server that answers none is left alone
FEWEST = 2  # settled requests of a play
FIRST_LOOK = 50  # settled requests; each further look is at half as many again
TIMER_S = 1.5e-3  # an event loop wakes up to 1 ms late: the rest of a wait is spent awake
TURN_S = 1e-4  # for which a thread keeps others from running Python
BUSY = 0.95  # of a CPU, at which requests wait for the load generator
LATE_S, LATE_SHARE = 2e-3, 0.01  # of the median time to the first token


@dataclass(slots=True)
class Play:
    """The limits of one play, and its answers.

    Attributes:
        most_s: after which no request is sent.
        warm_up_s: answers to requests due before this do not count.
        patience_s: a request that waits longer at the end has failed; one that waits less does not count.
        is_enough: returns whether the settled answers, in the order of their due times, suffice; called by a
            thread, so that no request waits for it.
        cpu_share: of one CPU over the play; None before its end.
    """

    most_s: float
    warm_up_s: float
    patience_s: float
    is_enough: Callable[[Sequence[ServedAnswer]], bool] = lambda settled: False
    answers: list[ServedAnswer] = field(default_factory=list)
    open: set[asyncio.Task[None]] = field(default_factory=set)
    next_look: float = FIRST_LOOK
    look: asyncio.Future[bool] | None = None
    began_s: float = field(default_factory=time.monotonic)
    began_cpu_s: float = field(default_factory=time.process_time)
    cpu_share: float | None = None

    def begin(self) -> None:
        """Note the time from which due times count."""
        self.began_s, self.began_cpu_s = time.monotonic(), time.process_time()

    def settled(self) -> list[ServedAnswer]:
        """Return the answers that count: of all requests due before the first open one.

        Early answers, while others are open, say too little about the slow ones.
        """
        ended = takewhile(lambda answer: answer.last_s > 0 and (answer.tokens or answer.error), self.answers)
        return [answer for answer in ended if answer.due_s >= self.warm_up_s]

    def is_over(self, due_s: float) -> bool:
        """Return whether no further request is sent."""
        if due_s > self.most_s or self._has_failed():
            return True
        if self.look is None and len(self.answers) - len(self.open) >= self.next_look:
            self.look = asyncio.get_running_loop().run_in_executor(None, self._is_enough)
        if self.look is None or not self.look.done():
            return False
        is_enough, self.look = self.look.result(), None
        return is_enough

    def _is_enough(self) -> bool:
        settled = self.settled()
        self.next_look = 1.5 * max(self.next_look, len(settled))
        return self.is_enough(settled)

    def _has_failed(self) -> bool:
        return len(self.answers) >= ALL_FAILED and all(answer.error for answer in self.answers[:ALL_FAILED])

    def send(
        self, session: "ClientSession", server: Server, request: Request, due_s: float
    ) -> asyncio.Task[None]:
        """Send a request without waiting for its answer."""
        answer = ServedAnswer(due_s)
        self.answers.append(answer)
        task = asyncio.create_task(ask(session, server, request, answer, self.began_s))
        self.open.add(task)
        task.add_done_callback(self.open.discard)
        return task

    async def end(self) -> list[ServedAnswer]:
        """Cancel the open requests, and return the settled answers."""
        self.cpu_share = (time.process_time() - self.began_cpu_s) / (time.monotonic() - self.began_s)
        open_now = list(self.open)
        now_s = time.monotonic() - self.began_s
        for task in open_now:
            task.cancel()
        await asyncio.gather(*open_now, *filter(None, [self.look]), return_exceptions=True)
        for answer in self.answers:
            if not (answer.tokens or answer.error) and now_s - answer.due_s > self.patience_s:
                answer.last_s, answer.error = now_s, "unanswered at the end"
        return self.settled()


async def open_loop(
    server: Server, arrivals: Iterator[float], requests: Iterator[Request], play: Play
) -> list[ServedAnswer]:
    """Send each request when it is due, however many are open; return the settled answers."""
    async with _session() as session:
        with collector_off(), _quick_turns():
            play.begin()
            for due_s, request in zip(arrivals, requests, strict=False):
                if play.is_over(due_s):
                    break
                await until(play.began_s + due_s)
                play.send(session, server, request, due_s)
            else:
                await asyncio.wait(play.open, timeout=server.timeout_s) if play.open else None
            return await play.end()


async def closed_loop(
    server: Server, clients: int, requests: Iterator[Request], play: Play
) -> list[ServedAnswer]:
    """Let each client send a request when its last one is answered; return the settled answers."""

    async def client() -> None:
        while not play.is_over(due_s := time.monotonic() - play.began_s):
            await play.send(session, server, next(requests), due_s)

    async with _session() as session:
        with collector_off(), _quick_turns():
            play.begin()
            await asyncio.gather(*(client() for _ in range(clients)))
            return await play.end()


@contextmanager
def _quick_turns() -> Iterator[None]:
    """Let the event loop interrupt the thread that checks answers within a fraction of a millisecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _session() -> "ClientSession":
    try:
        from aiohttp import ClientSession, ClientTimeout, TCPConnector
    except ImportError:
        raise RuntimeError("the load generator needs the package aiohttp: add it to `packages`") from None
    return ClientSession(
        connector=TCPConnector(limit=0), timeout=ClientTimeout(total=None), read_bufsize=MOST_LINE_BYTES
    )


async def until(moment_s: float) -> None:
    """Wait for a monotonic time."""
    while (left_s := moment_s - time.monotonic()) > 0:
        await asyncio.sleep(left_s - TIMER_S if left_s > TIMER_S else 0)


@dataclass(frozen=True, slots=True)
class PlaySummary:
    """The measurements of a play; times in seconds, infinite if too many requests failed.

    Attributes:
        seconds: from the first to the last due time that counts.
        errors: number of failed requests, by reason.
        quantiles: of each metric, over all requests.
        late_s: 99 % of requests were sent within this time after they were due.
        in_flight: the mean number of open requests, in each half of the time.
        cpu_share: of one CPU, for the load generator.
    """

    requests: int
    seconds: float
    errors: dict[str, int]
    quantiles: dict[str, dict[str, float]]
    output_tokens: int
    prompt_tokens: int | None
    late_s: float
    in_flight: tuple[float, float]
    cpu_share: float | None = None

    @property
    def requests_per_s(self) -> float:
        """The rate of whole answers."""
        return (self.requests - sum(self.errors.values())) / self.seconds

    @property
    def tokens_per_answer(self) -> float:
        """The mean number of tokens of a whole answer."""
        return self.output_tokens / max(self.requests - sum(self.errors.values()), 1)

    @property
    def output_tokens_per_s(self) -> float:
        """The rate of tokens of whole answers."""
        return self.output_tokens / self.seconds

    @property
    def is_late(self) -> bool:
        """True if the load generator, not the server, made requests late."""
        return self.late_s > max(LATE_S, LATE_SHARE * min(self.quantiles["ttft"]["p50"], 10.0))

    @property
    def is_busy(self) -> bool:
        """True if the load generator needed all of its CPU, which can cause latencies."""
        return (self.cpu_share or 0.0) > BUSY

    @property
    def grows(self) -> bool:
        """True if more and more requests were open, so that the rate cannot last."""
        first, second = self.in_flight
        return second > 2 * first + 3


def summary(answers: Sequence[ServedAnswer], cpu_share: float | None = None) -> PlaySummary:
    """Return the summary of settled answers, in the order of their due times.

    Raises:
        ValueError: there are fewer than two.
    """
    if len(answers) < FEWEST:
        raise ValueError(f"{len(answers)} requests were answered: too few to say anything")
    span_s = (answers[-1].due_s - answers[0].due_s) * len(answers) / (len(answers) - 1)
    whole = [answer for answer in answers if not answer.error]
    counted = [answer.prompt_tokens for answer in whole if answer.prompt_tokens is not None]
    return PlaySummary(
        requests=len(answers),
        seconds=span_s or math.inf,
        errors=dict(Counter(answer.error for answer in answers if answer.error)),
        quantiles={
            metric: {
                name: quantile([getattr(a, f"{metric}_s") for a in answers], q)
                for name, q in QUANTILES.items()
            }
            for metric in METRICS
        },
        output_tokens=sum(answer.tokens for answer in whole),
        prompt_tokens=sum(counted) if len(counted) == len(whole) else None,
        late_s=quantile([answer.sent_s - answer.due_s for answer in answers], 0.99),
        in_flight=_in_flight(answers),
        cpu_share=cpu_share,
    )


def _in_flight(answers: Sequence[ServedAnswer]) -> tuple[float, float]:
    dues, ends = [answer.due_s for answer in answers], sorted(answer.last_s for answer in answers)
    open_then = [number - bisect_right(ends, due_s) for number, due_s in enumerate(dues)]
    half = len(dues) // 2
    return statistics.fmean(open_then[:half]), statistics.fmean(open_then[half:])
