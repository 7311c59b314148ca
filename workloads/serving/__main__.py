"""`python -m workloads.serving ADDRESS`: load a server, and print its rate at a promised latency."""

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workloads.harness.records.finite_json import to_json
from workloads.harness.records.program import PROMISED, LoadPoint, PromisedRate
from workloads.serving.client import ServedAnswer, Server
from workloads.serving.load import Lengths, Request, drawn_requests, poisson, requests_of_file, trace
from workloads.serving.play import FEWEST, Play, PlaySummary, closed_loop, open_loop, summary
from workloads.serving.promise import METRICS, Promise
from workloads.serving.search import LargestRate, RateTrial, is_decided, largest_rate, point

PATIENCE_S = 30.0  # of a request at the end of a play, if no promise says how long it can wait
IDLE_REQUESTS = 8
MOST_OF_AN_OPTION = 1e5  # seconds, clients, requests a second


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser("python -m workloads.serving", description=__doc__, exit_on_error=False)
    made.add_argument("address", help="of an OpenAI-compatible server: http://127.0.0.1:8000/v1/completions")
    made.add_argument("--model", help="the name of the model in each request")
    made.add_argument("--body", default="{}", help='more of each request: {"ignore_eos": true}')
    made.add_argument("--prompt-tokens", default="256", help="256, or 128-512")
    made.add_argument("--output-tokens", default="128", help="128, or 64-256")
    made.add_argument("--requests", type=Path, help="a file of requests: prompt and output_tokens a line")
    made.add_argument("--promise", action="append", default=[], help="ttft_p99_ms=500")
    load = made.add_mutually_exclusive_group()
    load.add_argument("--rate", type=float, help="requests a second, in place of a search")
    load.add_argument(
        "--clients", type=int, help="clients who each wait for their answer, in place of a rate"
    )
    load.add_argument("--trace", type=Path, help="a file of arrival times in seconds, in place of a rate")
    made.add_argument("--seconds", type=float, default=60.0, help="at most, of each rate")
    made.add_argument("--search-seconds", type=float, default=900.0, help="at most, of all rates together")
    made.add_argument("--warm-up-seconds", type=float, default=2.0, help="of each rate, which do not count")
    made.add_argument("--timeout-seconds", type=float, default=120.0, help="of a request")
    made.add_argument("--seed", type=int, default=0)
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Load a server and print one JSON object; return 1 if nothing was measured."""
    try:
        options = parser().parse_args(words)
        check(options)
    except (ValueError, argparse.ArgumentError) as error:
        parser().error(str(error))
    try:
        result = searched(options) if options.promise and not _is_one_load(options) else played(options)
    except (ValueError, RuntimeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(to_json(result))
    return 0


def words_of(address: str, slo: Mapping[str, Any], load: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words that load an address at promises such as `ttft_p99_ms = 500`.

    Raises:
        ValueError: an option does not exist.
    """
    names = vars(parser().parse_args([address])).keys() - {"address", "promise"}
    if unknown := sorted(load.keys() - names):
        raise ValueError(f"load has the unknown key {unknown[0]!r}; known are {', '.join(sorted(names))}")
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in load.items()}
    promises = [f"--promise={name}={limit}" for name, limit in slo.items()]
    return address, *promises, *(f"--{name.replace('_', '-')}={text}" for name, text in texts.items())


def check_words(words: Sequence[str]) -> None:
    """Check the words of a load before it begins.

    Raises:
        ValueError: with the option, its value and what would be right.
    """
    try:
        check(parser().parse_args(words))
    except argparse.ArgumentError as error:
        raise ValueError(str(error)) from None


def check(options: argparse.Namespace) -> None:
    """Read the options that are texts in place.

    Raises:
        ValueError: with the option, its value and what would be right.
    """
    options.promise = [Promise.parse(text) for text in options.promise]
    for name in ("prompt_tokens", "output_tokens"):
        setattr(options, name, Lengths.parse(getattr(options, name)))
    options.body = json.loads(options.body)
    if not isinstance(options.body, dict):
        raise ValueError(f"--body {options.body!r} is not a JSON object")
    if not options.address.startswith(("http://", "https://")):
        raise ValueError(f"{options.address!r} is not an address: write http://127.0.0.1:8000/v1/completions")
    for name in ("rate", "clients", "seconds", "search_seconds", "timeout_seconds"):
        number = getattr(options, name)
        if number is not None and not 0 < number < MOST_OF_AN_OPTION:
            raise ValueError(
                f"--{name.replace('_', '-')} {number:g} must be above 0 and below {MOST_OF_AN_OPTION:g}"
            )
    if not options.promise and not _is_one_load(options):
        raise ValueError("name a --promise to search its largest rate, or a --rate, --clients or --trace")


def _is_one_load(options: argparse.Namespace) -> bool:
    return bool(options.rate or options.clients or options.trace)


def requests_of(options: argparse.Namespace, seed: int) -> Iterator[Request]:
    """Return the requests that the options describe."""
    if options.requests:
        return requests_of_file(options.requests)
    return drawn_requests(options.prompt_tokens, options.output_tokens, seed)


def play_of(options: argparse.Namespace, **changes: Any) -> Play:
    """Return the limits that the options describe."""
    limits_s = [promise.limit_s for promise in options.promise if promise.metric in ("ttft", "e2e")]
    limits = {
        "most_s": options.seconds,
        "warm_up_s": options.warm_up_seconds,
        "patience_s": max(limits_s, default=PATIENCE_S),
    }
    return Play(**limits | changes)


def server_of(options: argparse.Namespace) -> Server:
    """Return the server that the options describe."""
    model = {"model": options.model} if options.model else {}
    return Server(options.address, model | options.body, options.timeout_seconds)


def played(options: argparse.Namespace) -> dict[str, Any]:
    """Return the measurements of one load."""
    server, requests = server_of(options), requests_of(options, options.seed)
    play = play_of(options)
    if options.clients:
        answers = asyncio.run(closed_loop(server, options.clients, requests, play))
    else:
        arrivals = trace(options.trace) if options.trace else poisson(options.rate, options.seed)
        answers = asyncio.run(open_loop(server, arrivals, requests, play))
    whole = _with_answers(answers, play)
    rate = options.rate or whole.requests / whole.seconds
    return described(point(rate, answers, options.promise, whole))


def searched(options: argparse.Namespace) -> dict[str, Any]:
    """Return the largest rate that keeps the promises, and all tried rates."""
    server, began_s = server_of(options), time.monotonic()
    idle = idle_summary(server, options)

    def measure(rate: float) -> RateTrial | None:
        seed = options.seed + len(tried)
        play = play_of(options, is_enough=is_decided(options.promise))
        answers = asyncio.run(open_loop(server, poisson(rate, seed), requests_of(options, seed), play))
        if len(answers) < FEWEST:
            too_low.append(rate)
            return None
        # An overloaded server can leave all requests unanswered: the rate is not met, and lower ones are tried.
        tried.append(point(rate, answers, options.promise, summary(answers, play.cpu_share)))
        return tried[-1]

    tried, too_low = list[RateTrial](), list[float]()
    left_s = began_s + options.search_seconds - options.seconds - time.monotonic()  # to begin a further rate
    found = largest_rate(measure, 1 / idle.quantiles["e2e"]["p50"], left_s)
    if too_low and found.point is None and math.isinf(found.high):
        raise ValueError(
            f"no rate above {too_low[0]:.3g} requests a second met the promises, and this one has fewer than "
            f"{FEWEST} answers in {options.seconds:g} s: give the load more --seconds"
        )
    return largest(found, idle, options.promise)


def idle_summary(server: Server, options: argparse.Namespace) -> PlaySummary:
    """Return the summary of a single client who waits for each answer."""
    play = play_of(options, warm_up_s=0.0, is_enough=lambda answers: True)
    play.next_look = IDLE_REQUESTS
    return _with_answers(asyncio.run(closed_loop(server, 1, requests_of(options, options.seed), play)), play)


def _with_answers(answers: Sequence[ServedAnswer], play: Play) -> PlaySummary:
    """Return the summary of answers.

    Raises:
        ValueError: none is whole; with the most frequent reason.
    """
    whole = summary(answers, play.cpu_share)
    if whole.errors and sum(whole.errors.values()) == whole.requests:
        reason = max(whole.errors, key=lambda text: whole.errors[text])
        raise ValueError(f"no request of {whole.requests} was answered: {reason}")
    return whole


def described(at: RateTrial) -> dict[str, Any]:
    """Return a point as data: seconds, requests and tokens a second."""
    measured = asdict(at.summary)
    measured |= {
        "requests_per_s": at.summary.requests_per_s,
        "output_tokens_per_s": at.summary.output_tokens_per_s,
    }
    promises = [
        {
            "promise": str(j.promise),
            "verdict": j.verdict,
            "seconds": j.quantile_s,
            "broken_share": j.broken_share,
        }
        for j in at.judged
    ]
    return {"rate": at.rate, "verdict": at.verdict, "reason": at.reason, "promises": promises, **measured}


def promised(result: LargestRate, promises: Sequence[Promise]) -> PromisedRate:
    """Return a search's result for a record; tokens a second are those of the rate, not of the drawn arrivals."""
    best = result.point
    return PromisedRate(
        promises=tuple(map(str, promises)),
        limits_s=tuple(promise.limit_s for promise in promises),
        requests_per_s=best.rate if best else 0.0,
        low=result.low,
        high=result.high if math.isfinite(result.high) else None,
        output_tokens_per_s=best.rate * best.summary.tokens_per_answer if best else 0.0,
        points=tuple(
            LoadPoint(
                at.rate,
                at.summary.output_tokens_per_s,
                at.verdict,
                tuple(held.quantile_s if math.isfinite(held.quantile_s) else None for held in at.judged),
                at.reason or "",
            )
            for at in result.points
        ),
    )


def largest(result: LargestRate, idle: PlaySummary, promises: Sequence[Promise]) -> dict[str, Any]:
    """Return a search's result as data."""
    found = promised(result, promises)
    return {
        PROMISED: asdict(found),
        "requests_per_s": found.requests_per_s,
        "output_tokens_per_s": found.output_tokens_per_s,
        "idle": {"quantiles": idle.quantiles, "requests": idle.requests},
        "points": [described(at) for at in result.points],
        "metrics": METRICS,
    }


if __name__ == "__main__":
    sys.exit(main())
