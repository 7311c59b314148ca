"""AWS's prices: what its two services answer becomes facts, and what is no price is said and not taken."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError
from botocore.stub import Stubber

from tasks.errors import GridbenchError
from tasks.pricing import aws
from tasks.pricing.facts import Fact

ANSWERS = Path(__file__).parent / "answers"
TODAY = date(2026, 11, 21)


def instance(name):
    facts = {"provider": "aws", "region": "us-east-1", "purchase": "on-demand", "source": "a test"}
    return Fact(instance=name, usd_per_hour=1.0, date=date(2026, 7, 20), **facts)


def client(service):
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    once = Config(retries={"total_max_attempts": 1})
    return boto3.client(service, region_name="us-east-1", config=once, **keys)


def product(usd="2.4480000000", unit="Hrs"):
    text = (ANSWERS / "price_list.json").read_text().replace("2.4480000000", usd)
    return json.dumps(json.loads(text.replace('"unit": "Hrs"', f'"unit": "{unit}"')))


def filters(name):
    wanted = aws.FILTERS | {"instanceType": name, "regionCode": "us-east-1"}
    terms = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    return {"ServiceCode": "AmazonEC2", "Filters": terms}


def history():
    return json.loads((ANSWERS / "spot_history.json").read_text())


class TestAws:
    @pytest.fixture
    def pricing(self):
        with Stubber(client("pricing")) as stub:
            yield stub

    @pytest.fixture
    def ec2(self):
        with Stubber(client("ec2")) as stub:
            yield stub

    def ask(self, pricing, ec2, *facts):
        clients = {"pricing": pricing.client, "ec2": ec2.client}
        return aws.ask(facts or (instance("g5.8xlarge"),), TODAY, lambda service, region: clients[service])

    def on_demand(self, pricing, *products):
        answer = {"FormatVersion": "aws_v1", "PriceList": [*products]}
        pricing.add_response("get_products", answer, filters("g5.8xlarge"))

    def spot(self, ec2, answer, *names):
        wanted = {
            "InstanceTypes": list(names or ("g5.8xlarge",)),
            "ProductDescriptions": ["Linux/UNIX"],
            "StartTime": datetime(2026, 11, 21, tzinfo=UTC),
        }
        ec2.add_response("describe_spot_price_history", answer, wanted)

    def test_tells_both_prices_dated_today(self, pricing, ec2):
        self.on_demand(pricing, product())
        self.spot(ec2, history())
        found = self.ask(pricing, ec2)
        assert [(f.words, f.usd_per_hour, f.date) for f in found.facts] == [
            ("aws g5.8xlarge, on-demand, us-east-1", 2.448, TODAY),
            # the cheapest zone by the newest price of each zone
            ("aws g5.8xlarge, spot, us-east-1", 0.9876, TODAY),
        ]
        assert found.facts[1].source == "EC2 spot history, cheapest zone, us-east-1c"
        assert found.missing == () and not found.broken

    def test_reads_every_page(self, pricing, ec2):
        first = {"FormatVersion": "aws_v1", "PriceList": [], "NextToken": "more"}
        pricing.add_response("get_products", first, filters("g5.8xlarge"))
        last = {"FormatVersion": "aws_v1", "PriceList": [product()]}
        pricing.add_response("get_products", last, filters("g5.8xlarge") | {"NextToken": "more"})
        self.spot(ec2, {"SpotPriceHistory": []})
        assert [f.usd_per_hour for f in self.ask(pricing, ec2).facts] == [2.448]

    @pytest.mark.parametrize(
        ("products", "reason"),
        [
            ((), "the Price List has no price"),
            ((product(), product("9.9900000000")), "the Price List has several prices, 2.448, 9.99"),
            ((product("0.0000000000"),), "the Price List has no price"),
            ((product("-1.0"),), "-1 USD/h is not a price"),
            ((product("NaN"),), "nan USD/h is not a price"),
            ((product("free"),), "is not as documented"),
            ((product(unit="Quantity"),), "the Price List has no price"),
            (("{",), "is not as documented"),
            (("[]",), "is not as documented"),
        ],
    )
    def test_what_is_no_single_price_is_said_and_not_taken(self, pricing, ec2, products, reason):
        self.on_demand(pricing, *products)
        self.spot(ec2, history())
        found = self.ask(pricing, ec2)
        assert [f.purchase for f in found.facts] == ["spot"]
        assert reason in found.missing[0] and "g5.8xlarge" in found.missing[0] and not found.broken

    def test_rows_at_zero_do_not_hide_the_price(self, pricing, ec2):
        self.on_demand(pricing, product("0.0000000000"), product(), product())
        self.spot(ec2, {"SpotPriceHistory": []})
        assert [f.usd_per_hour for f in self.ask(pricing, ec2).facts] == [2.448]

    def test_a_spot_price_that_is_none_is_said(self, pricing, ec2):
        self.on_demand(pricing, product())
        answer = history()
        answer["SpotPriceHistory"][2]["SpotPrice"] = "-1"
        self.spot(ec2, answer)
        found = self.ask(pricing, ec2)
        assert found.missing == (
            "us-east-1: aws g5.8xlarge in us-east-1c: -1 USD/h is not a price: it must be finite and not negative",
        )
        assert found.facts[1].usd_per_hour == 1.1324

    def test_what_one_service_refuses_the_other_still_tells(self, pricing, ec2):
        self.on_demand(pricing, product())
        ec2.add_client_error("describe_spot_price_history", "UnauthorizedOperation", "You are not authorized")
        found = self.ask(pricing, ec2)
        assert [f.purchase for f in found.facts] == ["on-demand"] and found.broken
        assert "EC2's spot prices: An error occurred (UnauthorizedOperation)" in found.missing[0]

    def test_a_break_in_the_middle_keeps_what_came_before(self, pricing, ec2):
        other = instance("m5.2xlarge")
        self.on_demand(pricing, product())
        pricing.add_client_error("get_products", "ThrottlingException", "Rate exceeded")
        self.spot(ec2, {"SpotPriceHistory": []}, "g5.8xlarge", "m5.2xlarge")
        found = self.ask(pricing, ec2, instance("g5.8xlarge"), other)
        assert [f.instance for f in found.facts] == ["g5.8xlarge"] and found.broken
        assert "ThrottlingException" in found.missing[0]

    def test_nothing_at_all_is_one_sentence(self, pricing, ec2):
        pricing.add_client_error("get_products", "ExpiredTokenException", "The token has\nexpired.")
        ec2.add_client_error("describe_spot_price_history", "ExpiredTokenException", "too")
        with pytest.raises(GridbenchError) as caught:
            self.ask(pricing, ec2)
        assert str(caught.value).startswith("the AWS Price List: ")
        assert str(caught.value).endswith("token has expired")

    def test_no_network_is_asked_once_a_service(self):
        asked = []

        class Away:
            def get_paginator(self, name):
                asked.append(name)
                raise EndpointConnectionError(endpoint_url="https://nowhere")

        facts = (instance("g5.8xlarge"), instance("m5.2xlarge"))
        with pytest.raises(GridbenchError, match="Could not connect"):
            aws.ask(facts, TODAY, lambda service, region: Away())
        assert asked == ["get_products", "describe_spot_price_history"]

    def test_a_client_gives_up_in_bounded_time(self):
        config = aws.boto_client("pricing", "us-east-1").meta.config
        assert (config.connect_timeout, config.read_timeout) == (5, 15)
        assert config.retries["total_max_attempts"] == 3
