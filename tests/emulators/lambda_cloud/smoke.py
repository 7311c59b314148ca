"""Ask Lambda for its answers, to compare the emulator of the tests with it.

    python -m tests.emulators.lambda_cloud.smoke --instance gpu_1x_a10 --yes

Sends free requests, rents one box, looks at it over SSH, returns it, writes Lambda's answers as JSON, and
prints differences from the emulator. It stops at a limit of minutes and USD, and always returns the box.
"""

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from infra.lambda_cloud.api import LambdaApi, api_key, api_url
from infra.lambda_cloud.choose import Wish, check
from infra.lambda_cloud.errors import BadRequest, LambdaError
from infra.lambda_cloud.janitor import sweep_overdue
from infra.lambda_cloud.lease import new_lease
from infra.lambda_cloud.rent import rented
from infra.lambda_cloud.settings import HoldSettings
from tests.emulators.lambda_cloud.reasons import BEHAVIOUR
from tests.emulators.lambda_cloud.smoke_cases import Seen, end, free, on_the_box, quietly
from tests.emulators.smoke_command import exit_code, tell

NAME = "smoke"
GRACE = timedelta(minutes=15)  # to give the box back, before a sweep does
REFUSED = ("instead of", "does not let")  # words of a box that answers and refuses us


async def run(arguments: argparse.Namespace) -> int:
    """Return the exit code: 0 as believed, 1 if something differs or was not seen."""
    await sweep_overdue(tell)
    async with LambdaApi(api_key(), api_url(), HoldSettings().api) as api:
        usd_per_hour = await _price(api, arguments.instance)
        minutes = min(arguments.max_minutes, math.floor(arguments.max_usd / usd_per_hour * 60))
        usd = minutes * usd_per_hour / 60
        if not arguments.yes:
            raise BadRequest(
                f"this rents {arguments.instance} at {usd_per_hour:.2f} USD an hour, for at most {minutes:g} minutes "
                f"and {usd:.2f} USD, and gives it back: say --yes to do it"
            )
        seen, began, stopped = Seen(), time.monotonic(), ""
        try:
            async with asyncio.timeout(minutes * 60):
                await _observe(api, seen, arguments.instance, usd_per_hour, minutes)
        except TimeoutError:
            stopped = f"{minutes:g} minutes or {arguments.max_usd:g} USD are used up"
        except LambdaError as error:
            stopped = str(error)
        finally:
            _write(arguments, seen, (time.monotonic() - began) / 60, usd_per_hour, stopped)
    different = sentences(seen)
    for sentence in ([f"stopped early: {stopped}"] if stopped else []) + different:
        tell(sentence)
    return 1 if different or stopped else 0


async def _price(api: LambdaApi, instance: str) -> float:
    offers = await api.offers()
    check(Wish((instance,), datetime.now(UTC), 0, math.inf), offers)
    return offers[instance].instance_type.usd_per_hour


async def _observe(api: LambdaApi, seen: Seen, instance: str, usd_per_hour: float, minutes: float) -> None:
    until = datetime.now(UTC) + timedelta(minutes=minutes)
    lease = new_lease(NAME, NAME, until + GRACE)
    await free(seen, api, lease.attempt(9))
    wish = Wish((instance,), until, minutes * 60, usd_per_hour, boxes=1)
    began = time.monotonic()

    def say(words: str) -> None:
        if any(word in words for word in REFUSED):
            seen.refusals.append(words)
        tell(words)

    async with rented(api, wish, lease, say) as box:
        await on_the_box(seen, box, lease, began)
        await quietly(seen, "terminate", lambda: end(seen, api, box.instance.id))


def sentences(seen: Seen) -> list[str]:
    """Return a sentence for each belief that failed or was not tested."""
    told = []
    for name, belief in BEHAVIOUR.items():
        if name not in seen.differs:
            told.append(f"{name}: not seen; believed: {belief.sentence} [{belief.mark}]")
        elif seen.differs[name]:
            told.append(f"{name}: {seen.answers[name]!r}; believed: {belief.sentence} [{belief.mark}]")
    return told


def _write(
    arguments: argparse.Namespace, seen: Seen, minutes: float, usd_per_hour: float, stopped: str
) -> None:
    usd = math.ceil(minutes) * usd_per_hour / 60
    head = {"instance": arguments.instance, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    taken = {"minutes": round(minutes, 1), "usd": round(usd, 4), "stopped": stopped or None}
    arguments.out.write_text(json.dumps(head | taken | {"answers": seen.answers}, indent=2) + "\n")
    tell(f"{arguments.out} has what Lambda said; about {usd:.3f} USD")


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m tests.emulators.lambda_cloud.smoke", description=__doc__
    )
    options.add_argument("--instance", default="gpu_1x_a10", help="the type to rent, a cheap one")
    options.add_argument("--max-minutes", type=float, default=30)
    options.add_argument("--max-usd", type=float, default=1)
    options.add_argument("--out", type=Path, default=Path("lambda-smoke.json"))
    options.add_argument("--yes", action="store_true", help="rent the box")
    return options


def main(words: Sequence[str] | None = None) -> int:
    return exit_code(lambda: asyncio.run(run(parser().parse_args(words))), LambdaError)


if __name__ == "__main__":
    sys.exit(main())
