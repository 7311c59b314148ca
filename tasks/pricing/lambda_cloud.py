"""Lambda's prices in US cents an hour, from `GET /api/v1/instance-types`. They are the same in every region."""

import os
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel, ValidationError

from tasks.errors import GridbenchError
from tasks.pricing.checks import no_price
from tasks.pricing.facts import Fact, Name, PriceAnswer
from tasks.schema import first_mistake

URL = "https://cloud.lambda.ai/api/v1/instance-types"
KEY = "LAMBDA_API_KEY"
TIMEOUT_S = 15.0
USER_AGENT = f"gridbench/{version('gridbench')}"  # a gateway can refuse the names of HTTP libraries


class _Type(BaseModel):
    """The fields of an instance type that are read."""

    name: Name
    price_cents_per_hour: float


class _Entry(BaseModel):
    instance_type: _Type


class _Reply(BaseModel):
    data: dict[str, _Entry]


def ask(facts: Sequence[Fact], today: date, url: str | None = None) -> PriceAnswer:
    """Fetch today's price of every instance type that Lambda offers.

    Raises:
        GridbenchError: there is no key, no connection, or the answer is not what the API documents.
    """
    entries = _reply(url or URL).data.values()
    new_facts, missing = [], []
    shared: dict[str, Any] = {
        "provider": "lambda",
        "purchase": "on-demand",
        "source": "Lambda API",
        "date": today,
    }
    for name, usd in ((e.instance_type.name, e.instance_type.price_cents_per_hour / 100) for e in entries):
        if reason := no_price(usd) or ("the API says 0" if usd == 0 else ""):
            missing.append(f"lambda {name}: {reason}")
        else:
            new_facts.append(Fact(instance=name, usd_per_hour=round(usd, 4), **shared))
    return PriceAnswer(tuple(new_facts), tuple(missing))


def _reply(url: str) -> _Reply:
    import httpx  # slow

    key = os.environ.get(KEY, "")
    if not key.strip():
        raise GridbenchError(f"Lambda's API needs a key: set {KEY}")
    try:
        with httpx.Client(transport=httpx.HTTPTransport(retries=2), timeout=TIMEOUT_S) as client:
            headers = {"Authorization": f"Bearer {key.strip()}", "User-Agent": USER_AGENT}
            reply = client.get(url, headers=headers)
            reply.raise_for_status()
        return _Reply.model_validate_json(reply.content)
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        sentences = {401: f"refuses the key in {KEY}", 403: "or what stands before it refuses the request"}
        what = sentences.get(code, "did not answer as documented")
        raise GridbenchError(f"Lambda's API {what} (HTTP {code})") from None
    except ValidationError as error:
        mistake = first_mistake(error)[:200]
        raise GridbenchError(f"Lambda's API did not answer as documented: {mistake}") from None
    except (httpx.HTTPError, UnicodeEncodeError) as error:
        raise GridbenchError(f"Lambda's API can't be reached ({type(error).__name__})") from None
