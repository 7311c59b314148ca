"""AWS's prices for Linux on shared tenancy, without pre-installed software.

On-demand prices are from `pricing:GetProducts`, spot prices from `ec2:DescribeSpotPriceHistory`.
"""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from math import nan
from typing import Any

from tasks.errors import GridbenchError
from tasks.pricing.checks import no_price
from tasks.pricing.facts import Fact, PriceAnswer

PRICING_REGION = "us-east-1"  # one of the few regions that serve the Price List, which is of all regions
LINUX = "Linux/UNIX"
# `capacitystatus` and `marketoption` exclude reservations and capacity blocks, of which some cost 0.
FILTERS = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "licenseModel": "No License required",
    "marketoption": "OnDemand",
}
Client = Callable[[str, str], Any]


class NoAnswer(Exception):
    """A price is missing from the answer, or is not valid; the message has the reason."""


def boto_client(service: str, region: str) -> Any:
    """Return a client that gives up within a minute, with the credentials that boto3 finds."""
    import boto3
    from botocore.config import Config

    retries = {"total_max_attempts": 3, "mode": "standard"}
    config = Config(region_name=region, connect_timeout=5, read_timeout=15, retries=retries)
    return boto3.client(service, config=config)


def ask(facts: Sequence[Fact], today: date, client: Client = boto_client) -> PriceAnswer:
    """Fetch today's prices of the snapshot's instances in its regions.

    A broken connection ends the requests to one API, and not those to the other.

    Raises:
        GridbenchError: AWS gave no price, for example without a network or credentials.
    """
    instances: dict[str, list[str]] = {}
    for fact in facts:
        if fact.instance and fact.region and fact.instance not in instances.setdefault(fact.region, []):
            instances[fact.region].append(fact.instance)
    answers = [_on_demand(instances, today, client), _spot(instances, today, client)]
    new_facts = tuple(fact for answer in answers for fact in answer.facts)
    missing = tuple(dict.fromkeys(reason for answer in answers for reason in answer.missing))
    if not new_facts:
        raise GridbenchError(missing[0] if missing else "the snapshot has no AWS instance with a region")
    return PriceAnswer(new_facts, missing, broken=any(answer.broken for answer in answers))


def _on_demand(instances: dict[str, list[str]], today: date, client: Client) -> PriceAnswer:
    from botocore.exceptions import BotoCoreError, ClientError

    new_facts, missing = [], []
    try:
        pricing = client("pricing", PRICING_REGION)
        for region, name in ((region, name) for region, names in instances.items() for name in names):
            try:
                usd = on_demand_usd(pricing, name, region)
            except NoAnswer as error:
                missing.append(str(error))
            else:
                new_facts.append(_fact(name, region, "on-demand", usd, "AWS Price List", today))
    except (BotoCoreError, ClientError) as error:
        return PriceAnswer(tuple(new_facts), (*missing, f"the AWS Price List: {_words(error)}"), broken=True)
    return PriceAnswer(tuple(new_facts), tuple(missing))


def _spot(instances: dict[str, list[str]], today: date, client: Client) -> PriceAnswer:
    from botocore.exceptions import BotoCoreError, ClientError

    new_facts: list[Fact] = []
    missing: list[str] = []
    try:
        for region, names in instances.items():
            cheapest, problems = spot_usd(client("ec2", region), names, today)
            missing += [f"{region}: {reason}" for reason in problems]
            for name, (usd, zone) in cheapest.items():
                source = f"EC2 spot history, cheapest zone, {zone}"
                new_facts.append(_fact(name, region, "spot", usd, source, today))
    except (BotoCoreError, ClientError) as error:
        return PriceAnswer(tuple(new_facts), (*missing, f"EC2's spot prices: {_words(error)}"), broken=True)
    return PriceAnswer(tuple(new_facts), tuple(missing))


def on_demand_usd(pricing: Any, instance: str, region: str) -> float:
    """Return the on-demand price of an instance, in USD an hour.

    Raises:
        NoAnswer: the Price List has no price for it, or several that differ.
    """
    fields = FILTERS | {"instanceType": instance, "regionCode": region}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in fields.items()]
    pages = pricing.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
    where = f"aws {instance} in {region}"
    try:
        products = [json.loads(product) for page in pages for product in page["PriceList"]]
        prices = {usd for product in products for usd in _hourly(product)}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NoAnswer(f"{where}: the Price List's answer is not as documented") from None
    if reasons := [reason for usd in prices if (reason := no_price(usd))]:
        raise NoAnswer(f"{where}: {reasons[0]}")
    prices.discard(0.0)  # rows of capacity that is already paid
    if len(prices) != 1:
        several = f"several prices, {', '.join(f'{usd:g}' for usd in sorted(prices))}"
        raise NoAnswer(f"{where}: the Price List has {several if prices else 'no price'}")
    return prices.pop()


def _hourly(product: dict[str, Any]) -> list[float]:
    """Return the hourly on-demand rates of a product of the Price List."""
    terms = product.get("terms", {}).get("OnDemand", {}).values()
    rates = [rate for term in terms for rate in term.get("priceDimensions", {}).values()]
    return [
        float(rate["pricePerUnit"]["USD"])
        for rate in rates
        if rate.get("unit") == "Hrs" and "USD" in rate.get("pricePerUnit", {})
    ]


def spot_usd(
    ec2: Any, instances: Sequence[str], today: date
) -> tuple[dict[str, tuple[float, str]], list[str]]:
    """Return the lowest spot price of each instance over its zones (USD an hour) with its zone, and the invalid prices.

    EC2 answers with the prices at the start time and since; the newest price of each zone counts.
    """
    pages = ec2.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=list(instances),
        ProductDescriptions=[LINUX],
        StartTime=datetime.combine(today, time(), UTC),
    )
    newest: dict[tuple[str, str], tuple[datetime, float]] = {}
    for row in (row for page in pages for row in page["SpotPriceHistory"]):
        key = (row["InstanceType"], row["AvailabilityZone"])
        price = (row["Timestamp"], _number(row["SpotPrice"]))
        newest[key] = max(newest.get(key, price), price, key=lambda dated: dated[0])
    cheapest: dict[str, tuple[float, str]] = {}
    problems = []
    for (name, zone), (_, usd) in newest.items():
        if reason := no_price(usd):
            problems.append(f"aws {name} in {zone}: {reason}")
        else:
            cheapest[name] = min(cheapest.get(name, (usd, zone)), (usd, zone))
    return cheapest, problems


def _number(text: str) -> float:
    """Parse a price of EC2; NaN if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return nan


def _fact(instance: str, region: str, purchase: str, usd: float, source: str, today: date) -> Fact:
    return Fact(
        provider="aws",
        instance=instance,
        region=region,
        purchase=purchase,  # type: ignore[arg-type]  # pydantic checks it
        usd_per_hour=usd,
        source=source,
        date=today,
    )


def _words(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
