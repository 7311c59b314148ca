"""Arrival times and lengths of requests, drawn by seed."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, cycle, pairwise, repeat
from pathlib import Path

# Short words that most tokenizers hold as one token each, so that a prompt of n words has about n tokens.
WORDS = """
about after again air all also and any are ask away back ball be bed best big bird blue boat body
book both box boy bring build but buy call came can car cat change city clean clear close cold come
cook cool country cut dark day deep did door down draw dry each early earth east eat end even every
eye face fact fall far farm fast feel few field find fire first fish floor fly follow food foot form
free from full game garden get girl give glass go gold good grass great green ground group grow half
hand happy hard has have head hear heart heat
""".split()  # noqa: SIM905
MOST_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class Lengths:
    """Numbers of tokens, uniform from `low` to `high`."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> "Lengths":
        """Return the lengths of `512` or `128-1024`.

        Raises:
            ValueError: the text is malformed, or a number is not from 1 to 1,000,000.
        """
        first, dash, last = text.partition("-")
        try:
            lengths = cls(int(first), int(last if dash else first))
        except ValueError:
            raise ValueError(f"{text!r} is not a number of tokens: write 512, or 128-1024") from None
        if not 1 <= lengths.low <= lengths.high <= MOST_TOKENS:
            raise ValueError(f"{text!r}: tokens are from 1 to {MOST_TOKENS:,}, the smaller number first")
        return lengths


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt, and the requested number of its answer's tokens."""

    prompt: str
    output_tokens: int


def drawn_requests(prompts: Lengths, outputs: Lengths, seed: int) -> Iterator[Request]:
    """Yield endless requests of random words, without long common prefixes, which caches could serve."""
    draw = random.Random(f"requests {seed}")
    while True:
        words = draw.choices(WORDS, k=draw.randint(prompts.low, prompts.high))
        yield Request(" ".join(words), draw.randint(outputs.low, outputs.high))


def requests_of_file(path: Path) -> Iterator[Request]:
    """Yield a file's requests endlessly, in order: a JSON object a line, `prompt` and `output_tokens`.

    Raises:
        ValueError: a line is malformed, or there is none.
    """
    requests = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            entry = json.loads(line)
            request = Request(entry["prompt"], entry["output_tokens"])
        except (ValueError, TypeError, KeyError):
            request = Request("", 0)
        if (
            not isinstance(request.prompt, str)
            or not request.prompt
            or type(request.output_tokens) is not int
        ):
            raise ValueError(
                f'{path}, line {number}: write {{"prompt": "…", "output_tokens": 128}} on each line'
            )
        Lengths.parse(str(request.output_tokens))
        requests.append(request)
    if not requests:
        raise ValueError(f"{path} has no requests")
    return cycle(requests)


def poisson(rate: float, seed: int) -> Iterator[float]:
    """Yield arrival times in seconds from 0 on, endlessly: independent, `rate` of them a second."""
    draw = random.Random(f"arrivals {seed}")
    return accumulate(draw.expovariate(rate) for _ in repeat(None))


def trace(path: Path, speed: float = 1.0) -> Iterator[float]:
    """Yield a file's arrival times, one number of seconds a line, `speed` times as dense.

    Raises:
        ValueError: a line is not a number, or the times do not rise.
    """
    try:
        times_s = [float(line) for line in path.read_text().split()]
    except ValueError as error:
        raise ValueError(f"{path}: a trace is a number of seconds a line ({error})") from None
    if not times_s or times_s[0] < 0 or any(b < a for a, b in pairwise(times_s)):
        raise ValueError(f"{path}: the times of a trace start at 0 or later and rise")
    return (time_s / speed for time_s in times_s)
