import shutil
from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.errors import GridbenchError
from tasks.planning.hardware import DEPLOYMENTS, load_gpus, load_hardware
from tasks.planning.plan import plan_rows, read_plan
from tasks.planning.planner import make_plan
from tasks.planning.reprice import at_new_prices
from tasks.planning.request import RunRequest
from tasks.pricing.facts import Fact, jumps, kept, load_facts, renewed, write_facts
from tasks.pricing.price import fact_doubts

TODAY = date(2026, 11, 21)
HEAD = "title: t\npool: local\ndevice: cuda\ngpus: 1\n"
G5 = {"provider": "aws", "instance": "g5.8xlarge", "region": "us-east-1"}


def fact(usd=1.0, purchase="on-demand", day=TODAY, **names):
    names = names or G5
    return Fact(usd_per_hour=usd, purchase=purchase, date=day, source="a test", **names)


@pytest.fixture
def deployments(tmp_path):
    return shutil.copytree(DEPLOYMENTS, tmp_path / "deployments")


def machine(deployments, price, head=HEAD, today=TODAY):
    (deployments / "hardware" / "odd.yaml").write_text(f"{head}price: {price}\n")
    return load_hardware("odd", deployments, today)


class TestSnapshot:
    def test_is_sound_and_nothing_but_age_is_doubtful_in_it(self):
        facts = load_facts(DEPLOYMENTS)
        assert {fact.provider for fact in facts} == {"aws", "gcp", "lambda"}
        found = {doubt for fact in facts for doubt in fact_doubts(fact, facts, TODAY)}
        assert found == {"the price of 2026-07-20 is 124 days old, more than 90"}

    def test_names_gpus_as_the_peaks_do(self):
        assert {f.gpu for f in load_facts(DEPLOYMENTS) if f.gpu} <= {*load_gpus()}

    def test_facts_survive_their_file_and_its_head_stays(self, tmp_path):
        (tmp_path / "prices.yaml").write_text("# why\n# and how\nfacts: []\n")
        facts = (fact(2.448), fact(0.1 + 0.2, "spot"), fact(0.35, provider="gcp", gpu="t4", region="é: [x]"))
        path = write_facts(tmp_path, facts)
        assert {*load_facts(tmp_path)} == {*facts}
        assert path.read_text().startswith("# why\n# and how\nfacts:\n- {provider: aws, instance: g5.8xlarge")
        assert len(path.read_text().splitlines()) == 3 + len(facts)
        before = path.read_text()
        write_facts(tmp_path, load_facts(tmp_path))
        assert path.read_text() == before and [p.name for p in tmp_path.iterdir()] == ["prices.yaml"]

    @given(
        name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        usd=st.floats(0, 1e9),
        day=st.dates(),
    )
    @example(name="on", usd=1e-7, day=TODAY)
    @example(name="\x85", usd=0.0, day=TODAY)
    @example(name="2026-01-01", usd=0.1 + 0.2, day=TODAY)
    def test_holds_any_name_and_amount(self, tmp_path_factory, name, usd, day):
        folder = tmp_path_factory.mktemp("prices")
        one = Fact(provider=name, gpu=name, purchase="spot", usd_per_hour=usd, source=name, date=day)
        write_facts(folder, (one,))
        assert load_facts(folder) == (one,)

    def test_of_this_project_is_written_as_it_is_read(self, deployments):
        before = (deployments / "prices.yaml").read_text()
        write_facts(deployments, load_facts(deployments))
        assert (deployments / "prices.yaml").read_text() == before

    def test_may_be_absent(self, tmp_path):
        assert load_facts(tmp_path) == ()

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("{provider: aws, purchase: spot, usd_per_hour: 1, source: s, date: 2026-01-01}", "of one of"),
            ("{provider: aws, instance: a, gpu: b, purchase: spot, usd_per_hour: 1, source: s, date: 2026-01-01}", "not of ['instance', 'gpu']"),
            ("{provider: aws, instance: a, purchase: spot, usd_per_hour: .nan, source: s, date: 2026-01-01}", "facts.0.usd_per_hour is nan"),
            ("{provider: aws, instance: a, purchase: spot, usd_per_hour: -1, source: s, date: 2026-01-01}", "facts.0.usd_per_hour is -1"),
            ("{provider: aws, instance: a, purchase: stolen, usd_per_hour: 1, source: s, date: 2026-01-01}", "purchase is 'stolen'"),
            ("{provider: aws, instance: a, purchase: spot, usd_per_hour: 1, source: s}", "the key 'facts.0.date' is missing"),
            ("7", "facts.0 is 7"),
        ],
    )  # fmt: skip
    def test_a_mistake_in_it_is_one_sentence(self, tmp_path, line, words):
        (tmp_path / "prices.yaml").write_text(f"facts:\n- {line}\n")
        with pytest.raises(GridbenchError) as caught:
            load_facts(tmp_path)
        assert words in str(caught.value) and str(caught.value).startswith("prices.yaml")
        assert "\n" not in str(caught.value)

    def test_has_each_price_once(self, tmp_path):
        write_facts(tmp_path, (fact(1.0), fact(2.0)))
        with pytest.raises(GridbenchError, match=r"aws g5\.8xlarge, on-demand, us-east-1 has two prices"):
            load_facts(tmp_path)

    def test_is_read_again_after_it_changed(self, tmp_path):
        write_facts(tmp_path, (fact(1.0),))
        assert load_facts(tmp_path)[0].usd_per_hour == 1.0
        write_facts(tmp_path, (fact(2.0),))
        assert load_facts(tmp_path)[0].usd_per_hour == 2.0


class TestMachine:
    def test_a_machine_finds_its_price_and_its_age(self, deployments):
        found = machine(deployments, "{provider: aws, instance: g5.8xlarge, region: us-east-1}")
        assert found.price.usd_per_hour == 2.448 and found.price.spot_usd_per_hour is None
        assert found.price.note.startswith("on-demand, us-east-1, 2026-07-20: aws g5.8xlarge; AWS Price List")
        assert found.machine().price_flags == ("the price of 2026-07-20 is 124 days old, more than 90",)
        young = load_hardware("odd", deployments, date(2026, 8, 1))
        assert young.machine().price_flags == ()

    def test_a_machine_has_a_spot_price_if_there_is_one(self, deployments):
        found = machine(deployments, "{provider: aws, instance: c5.2xlarge, region: us-east-1}").machine()
        assert (found.usd_per_hour, found.spot_usd_per_hour) == (0.34, 0.149)

    def test_of_gcp_costs_host_and_gpus_together(self, deployments):
        price = "{provider: gcp, host: a2-highgpu-1g, gpu: a100-40-sxm, region: us-central1}"
        found = machine(deployments, price)
        assert found.price.usd_per_hour == 3.67339 and found.price.spot_usd_per_hour == 1.80385
        assert "a2-highgpu-1g at 0.73948 and a100-40-sxm at 2.93391" in found.price.note
        assert found.price.flags == ()
        price = "{provider: gcp, host: n1-highmem-8, gpu: t4, count: 4, region: us-central1}"
        four = machine(deployments, price, HEAD.replace("1", "4"))
        assert four.price.usd_per_hour == 1.87321
        assert four.price.spot_usd_per_hour is None  # of the host's spot price nothing is known

    def test_of_lambda_needs_no_region(self, deployments):
        for region in ("", ", region: us-west-1"):
            found = machine(deployments, f"{{provider: lambda, instance: gpu_1x_a10{region}}}")
            assert found.price.usd_per_hour == 1.29

    @pytest.mark.parametrize(
        "price",
        [
            "{provider: gcp, host: a2-highgpu-1g, region: us-central1}",
            "{usd_per_hour: 0.73948, purchase: on-demand, source: a table, date: 2026-11-01}",
        ],
    )
    def test_with_a_gpu_at_its_hosts_price_is_flagged(self, deployments, price):
        flags = machine(deployments, price).price.flags
        assert flags[0] == "0.73948 USD/h is the price of the host a2-highgpu-1g without its GPU"
        assert all("without its GPU" in flag for flag in flags)  # its spot price is the host's as well
        bare = machine(deployments, price, HEAD.replace("gpus: 1", "gpus: 0"))
        assert bare.price.flags == ()

    def test_may_state_a_spot_price_which_is_checked(self, deployments):
        price = "{usd_per_hour: 1.5, spot_usd_per_hour: %s, purchase: on-demand, source: s, date: 2026-11-01}"
        assert machine(deployments, price % 0.5).machine().spot_usd_per_hour == 0.5
        assert machine(deployments, price % 0.5).price.flags == ()
        (flag,) = machine(deployments, price % 2).price.flags
        assert flag == "the spot price, 2 USD/h, is above the on-demand price, 1.5"

    @pytest.mark.parametrize(
        ("price", "words"),
        [
            ("{provider: aws, instance: g5.8xlarg, region: us-east-1}", "did you mean g5.8xlarge?"),
            ("{provider: aws, instance: g5.8xlarge, region: eu-west-1}", "in eu-west-1, only in us-east-1"),
            ("{provider: aws, instance: g5.8xlarge}", "in no region, only in us-east-1"),
            ("{provider: aws, instance: g5.8xlarge, region: us-east-1, purchase: spot}", "no spot price of aws instance 'g5.8xlarge'"),
            ("{provider: azure, instance: x}", "no on-demand price of azure instance 'x'"),
            ("{provider: aws}", "price: name either an instance, or a host"),
            ("{provider: gcp, instance: a, gpu: t4}", "gpu 't4' is part of the instance's price"),
            ("{provider: gcp, host: a, count: 2}", "count is 2 but no gpu is named"),
            ("{provider: gcp, host: a, gpu: t4, count: 0}", "price: count is 0"),
            ("{provider: gcp, host: n1-highmem-8, gpu: t4, count: 2, region: us-central1}", "gpus is 1 but its price is of 2 t4"),
            ("{provider: aws, instance: g5.8xlarge, usd_per_hour: 1}", "the key 'usd_per_hour' is unknown"),
            ("{provider: gcp, host: n1-highmem-8, gpu: t5, region: us-central1}", "gpu 't5' in us-central1; there are a100-40-sxm"),
        ],
    )  # fmt: skip
    def test_a_mistake_in_a_machines_price_is_one_sentence(self, deployments, price, words):
        with pytest.raises(GridbenchError) as caught:
            machine(deployments, price)
        assert words in str(caught.value) and str(caught.value).startswith("hardware file odd.yaml")
        assert "\n" not in str(caught.value)

    def test_keeps_the_price_that_it_was_planned_with(self, deployments, monkeypatch):
        machine(deployments, "{provider: aws, instance: g5.8xlarge, region: us-east-1}")
        for user in ("machines", "reprice"):
            here = f"tasks.planning.{user}.load_hardware"
            monkeypatch.setattr(here, lambda name: load_hardware(name, deployments, TODAY))
        request = RunRequest(suite="quick", hardware=["odd", "local-cpu"], repeats=1)
        plan = read_plan(make_plan(request).model_dump_json(), "plan.json")
        write_facts(deployments, (fact(9.0),))
        (old, local), (row, _) = plan.machines, plan_rows(plan)
        assert old.usd_per_hour == 2.448 and old.price_flags
        assert "(doubtful: the price of 2026-07-20" in row["price"]
        machines, told = at_new_prices(plan)
        assert [m.usd_per_hour for m in machines] == [9.0, local.usd_per_hour]
        assert machines[0].price_flags == ()
        assert told[0] == "odd is counted at 9 USD/h of 2026-11-21, not at the plan's 2.448 of 2026-07-20."
        (deployments / "hardware" / "odd.yaml").unlink()
        machines, told = at_new_prices(plan)
        assert machines[0] == old and told[0].startswith(
            "odd stays at 2.448 USD/h of the plan: hardware 'odd' is unknown"
        )


class TestFactDoubts:
    def test_a_fact_is_compared_with_its_own_kind_alone(self):
        here, there = fact(1.0), fact(2.0, provider="aws", instance="g5.8xlarge", region="eu-west-1")
        other = fact(2.0, provider="gcp", instance="g5.8xlarge", region="eu-west-1")
        spot, dear = fact(0.5, "spot"), fact(1.5, "spot")
        assert fact_doubts(here, (here, there), TODAY) == (
            "1 USD/h in us-east-1 is exactly half of the price in eu-west-1",
        )
        assert fact_doubts(there, (here, there), TODAY) == fact_doubts(here, (here, other, spot), TODAY) == ()
        assert fact_doubts(spot, (here, spot), TODAY) == ()
        assert "is above the on-demand price, 1" in fact_doubts(dear, (here, dear), TODAY)[0]

    @pytest.mark.parametrize(
        ("provider", "small", "large"),
        [
            ("aws", "p3.2xlarge", "p3.16xlarge"),
            ("aws", "m5.large", "m5.xlarge"),
            ("aws", "p6-b200.24xlarge", "p6-b200.48xlarge"),
            ("gcp", "a2-highgpu-1g", "a2-highgpu-8g"),
            ("lambda", "gpu_1x_h100_sxm5", "gpu_8x_h100_sxm5"),
        ],
    )
    def test_an_instance_of_eight_gpus_costs_no_less_than_a_smaller_instance(self, provider, small, large):
        one = fact(3.06, provider=provider, instance=small, region="r")
        eight = fact(2.9, provider=provider, instance=large, region="r")
        assert fact_doubts(eight, (one, eight), TODAY) == (
            f"2.9 USD/h is less than the 3.06 of {small}, which is smaller",
        )
        assert fact_doubts(one, (one, eight), TODAY) == ()
        dear = eight.model_copy(update={"usd_per_hour": 24.48})
        assert fact_doubts(dear, (one, dear), TODAY) == ()

    @pytest.mark.parametrize(
        "changes",
        [
            {"purchase": "spot"},  # of which a market can sell the larger for less
            {"region": "elsewhere"},
            {"instance": "p4d.24xlarge"},
            {"instance": "p3.metal"},
            {"provider": "gcp"},
        ],
    )
    def test_of_another_family_place_or_market_it_says_nothing(self, changes):
        one = fact(3.06, provider="aws", instance="p3.2xlarge", region="r")
        eight = fact(2.9, provider="aws", instance="p3.16xlarge", region="r").model_copy(update=changes)
        assert fact_doubts(eight, (one, eight), TODAY) == ()

    @pytest.mark.parametrize(
        ("provider", "region", "zone"),
        [("aws", "us-east-1", "us-east-1b"), ("gcp", "us-central1", "us-central1-a")],
    )
    def test_a_zones_spot_price_is_compared_with_its_regions(self, provider, region, zone):
        names = {"provider": provider, "instance": "i"}
        here, other = fact(1.846, **names, region=region), fact(1.1, **names, region=f"{region}1")
        spot = fact(1.964, "spot", **names, region=zone)
        assert fact_doubts(spot, (other, here, spot), TODAY) == (
            "the spot price, 1.964 USD/h, is above the on-demand price, 1.846",
        )
        assert fact_doubts(spot, (other, spot), TODAY) == ()

    def test_an_instance_at_the_price_of_the_host_of_its_name(self):
        names = {"provider": "gcp", "region": "r"}
        host, whole = fact(0.74, **names, host="a2"), fact(0.74, **names, instance="a2")
        assert fact_doubts(whole, (host, whole), TODAY) == (
            "0.74 USD/h is the price of the host a2 without its GPU",
        )
        assert fact_doubts(host, (host, whole), TODAY) == ()


class TestRenewal:
    old = (
        fact(1.0, day=date(2026, 1, 1)),
        fact(0.5, "spot", date(2026, 2, 1)),
        fact(3.0, provider="gcp", gpu="t4"),
    )
    new = (fact(2.5), fact(7.0, provider="aws", instance="new", region="us-east-1"))

    def test_a_renewal_replaces_new_prices_and_keeps_the_rest(self):
        found = renewed(self.old, self.new)
        assert {(f.words, f.usd_per_hour) for f in found} == {
            ("aws g5.8xlarge, on-demand, us-east-1", 2.5),
            ("aws g5.8xlarge, spot, us-east-1", 0.5),
            ("gcp gpu t4, on-demand", 3.0),
            ("aws new, on-demand, us-east-1", 7.0),
        }
        assert kept(self.old, self.new, "aws") == [self.old[1]]

    def test_large_changes_of_a_price_are_reported(self):
        assert jumps(self.old, self.new) == [
            "aws g5.8xlarge, on-demand, us-east-1 went from 1 to 2.5 USD/h, 2.5x since 2026-01-01"
        ]
