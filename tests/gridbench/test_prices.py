import http.server
import io
import shutil
import sys
import threading
import zipfile
from datetime import date

import pytest

from gridbench import main, prices
from gridbench.run import outcome
from tasks.planning.hardware import DEPLOYMENTS, load_hardware
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.pricing.facts import load_facts, write_facts
from tasks.pricing.offers import load_offers
from tasks.report.files.comparison_table import comparison_table
from tasks.report.grid import grid_of
from tasks.report.html.tables import machine_rows
from tasks.report.text.boxes import text_tables
from tasks.store.store import Store
from workloads.harness.records.record import Verdict

TODAY = date(2026, 11, 21)
VERSION = "20261120-4711"
HEAD = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,"
    "cpu_arch,provider_data"
)
LAMBDA = """gpu_1x_a10,us-east-1,1.29,30,200,1,A10,24.0,False,1400,nvidia,,x86,{}
gpu_1x_a10,us-west-1,1.29,30,200,1,A10,24.0,False,1400,nvidia,,x86,{}
gpu_1x_h100_sxm5,us-east-1,9.99,26,225,1,H100,80.0,False,2800,nvidia,,x86,{}
gpu_1x_new,us-east-1,1.5,26,225,1,L40S,48.0,False,2800,nvidia,,x86,{}
cpu_4x_general,us-east-1,0.2,4,16,0,,,False,100,,,x86,{}
"""
AWS = """g5.8xlarge,us-east-1,2.5,32,128,1,A10G,24.0,False,,nvidia,,x86,{}
g5.8xlarge,us-west-2,2.4,32,128,1,A10G,24.0,False,,nvidia,,x86,{}
g5.8xlarge,us-east-1,3.0,32,128,1,A10G,24.0,True,,nvidia,,x86,{}
c5.2xlarge,us-east-1,0.35,8,16,0,,,False,,,,x86,{}
p9.tpu,us-east-1,1.0,8,16,1,v5e,16.0,False,,google,,x86,{}
g9.free,us-east-1,0.0,8,16,1,L4,24.0,False,,nvidia,,x86,{}
"""


@pytest.fixture(autouse=True)
def deployments(tmp_path, monkeypatch):
    folder = shutil.copytree(DEPLOYMENTS, tmp_path / "deployments")
    monkeypatch.setattr("tasks.planning.hardware.DEPLOYMENTS", folder)
    monkeypatch.setattr(prices, "utc_today", lambda: TODAY)
    return folder


class Catalogue(http.server.BaseHTTPRequestHandler):
    """A bucket in gpuhunt's layout: PROVIDER/version, PROVIDER/VERSION/catalog.zip with PROVIDER.csv."""

    def do_GET(self):
        provider, _, rest = self.path.strip("/").partition("/")
        rows, body = self.server.rows.get(provider), None
        if isinstance(rows, bytes):
            body = rows
        elif rows is not None and rest == "version":
            body = f"{VERSION}\n".encode()
        elif rows is not None and rest == f"{VERSION}/catalog.zip":
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as archive:
                archive.writestr(f"{provider}.csv", f"{HEAD}\n{rows}")
            body = packed.getvalue()
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format, *args):
        pass


@pytest.fixture
def catalogue(monkeypatch):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Catalogue) as server:
        server.rows = {"lambdalabs": LAMBDA, "aws": AWS}
        monkeypatch.setenv("GPUHUNT_CATALOG_URL", f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server.rows
        server.shutdown()
        thread.join()


def run(capsys, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["gridbench", *words])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return ended.value.code or 0, " ".join("".join(capsys.readouterr()).split())


def refresh(capsys, monkeypatch, *providers):
    return run(capsys, monkeypatch, "prices", "refresh", *(w for p in providers for w in ("--provider", p)))


def usd(deployments, name):
    return {f.instance: f for f in load_facts(deployments) if f.purchase == "on-demand"}[name]


def test_the_list_tells_ages_sources_and_doubts_once(capsys, monkeypatch):
    code, output = run(capsys, monkeypatch, "prices", "list")
    assert code == 0 and "aws g5.8xlarge on-demand us-east-1 2.448 124 1 2" in output
    assert "gcp host a2-highgpu-1g" in output and "lambda gpu_1x_a10 on-demand every 1.29 62" in output
    assert output.count("2 to check: the price of 2026-07-20 is 124 days old, more than 90") == 1
    assert "1 from AWS Price List via karpenter" in output


def test_the_list_can_be_of_one_provider(capsys, monkeypatch):
    assert "aws" not in run(capsys, monkeypatch, "prices", "list", "--provider", "lambda")[1]
    code, output = run(capsys, monkeypatch, "prices", "list", "--provider", "gpc")
    assert code == 2 and "'gpc'" in output and "did you mean gcp?" in output


def test_prices_list_without_prices_names_the_file(capsys, monkeypatch, deployments):
    (deployments / "prices.yaml").unlink()
    code, output = run(capsys, monkeypatch, "prices", "list")
    assert code == 0 and output.startswith("no prices in")


def test_a_provider_has_its_offers_renewed_and_its_prices(capsys, monkeypatch, deployments, catalogue):
    code, output = refresh(capsys, monkeypatch, "lambda")
    assert code == 0
    new = usd(deployments, "gpu_1x_a10")
    assert (new.date, new.source) == (date(2026, 11, 20), f"gpuhunt 0.1.34, catalogue {VERSION}")
    assert usd(deployments, "gpu_1x_gh200").date == date(2026, 9, 20)
    assert usd(deployments, "g5.8xlarge").date == date(2026, 7, 20)
    assert "lambda: 3 offers, 2 prices of 2026-11-20, 15 unchanged" in output
    assert "unchanged: lambda gpu_1x_gh200, on-demand, 2.29 USD/h of 2026-09-20" in output
    assert (
        "jumped: lambda gpu_1x_h100_sxm5, on-demand went from 4.29 to 9.99 USD/h, 2.3x since 2026-09-20"
        in output
    )
    offers = {(o.instance, o.region) for o in load_offers(deployments) if o.provider == "lambda"}
    assert offers == {
        ("gpu_1x_a10", "us-east-1"),
        ("gpu_1x_h100_sxm5", "us-east-1"),
        ("gpu_1x_new", "us-east-1"),
    }
    assert len(load_offers(deployments)) == len(load_offers(DEPLOYMENTS)) + 3


def test_prices_are_by_region_and_offers_of_the_cheapest(capsys, monkeypatch, deployments, catalogue):
    code, output = refresh(capsys, monkeypatch, "aws")
    assert code == 0 and usd(deployments, "g5.8xlarge").usd_per_hour == 2.5
    assert usd(deployments, "c5.2xlarge").usd_per_hour == 0.35
    offers = [(o.region, o.purchase) for o in load_offers(deployments) if o.provider == "aws"]
    assert offers == [("us-west-2", "on-demand"), ("us-east-1", "spot")]
    assert "1 rows of the answer are left out: their price is 0" in output
    assert "to check: aws g5.8xlarge, on-demand, us-east-1" not in output
    _, output = run(capsys, monkeypatch, "offers", "--provider", "aws", "--gpu", "a10g")
    assert "ssh://…?usd=3 1 " in output and "the spot price, 3 USD/h, is above the on-demand" not in output


def test_a_newer_price_stays(capsys, monkeypatch, deployments, catalogue):
    facts = [f.model_copy(update={"date": TODAY}) for f in load_facts(deployments) if f.provider == "lambda"]
    write_facts(deployments, facts)
    code, output = refresh(capsys, monkeypatch, "lambda")
    assert code == 0 and "0 prices of 2026-11-20, 17 unchanged" in output


def test_a_doubtful_new_price_is_kept_and_flagged(capsys, monkeypatch, deployments, catalogue):
    catalogue["lambdalabs"] = LAMBDA.replace(",1.29,", ",700,")
    code, output = refresh(capsys, monkeypatch, "lambda")
    assert code == 0 and usd(deployments, "gpu_1x_a10").usd_per_hour == 700.0
    assert "to check: lambda gpu_1x_a10, on-demand: 700 USD/h is a value that price catalogues hold" in output


@pytest.mark.parametrize("price", ["0", "-5", "1e999", "nan"])
def test_an_invalid_price_does_not_replace_a_valid_one(capsys, monkeypatch, deployments, catalogue, price):
    catalogue["lambdalabs"] = LAMBDA.replace(",1.29,", f",{price},")
    _, output = refresh(capsys, monkeypatch, "lambda")
    assert "no answer: lambda gpu_1x_a10, on-demand: " in output
    assert usd(deployments, "gpu_1x_a10").usd_per_hour == 1.29
    assert "gpu_1x_a10" not in {o.instance for o in load_offers(deployments)}


def test_regions_that_differ_do_not_renew_a_price_of_every_region(
    capsys, monkeypatch, deployments, catalogue
):
    catalogue["lambdalabs"] = LAMBDA.replace("us-west-1,1.29", "us-west-1,1.39")
    _, output = refresh(capsys, monkeypatch, "lambda")
    assert "no answer: lambda gpu_1x_a10, on-demand: it has 2 prices, by region" in output


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (b"<html>", "no new prices: "),
        (None, "no new prices: HTTPError: HTTP Error 404"),
        ("\x1b[31mg,u,1.0,1,1,1,L4,24.0,False,,nvidia,,x86,{}\n", "0 offers, 0 prices"),
        ("g,u,cheap,1,1,1,L4,24.0,False,,nvidia,,x86,{}\n", "0 offers, 0 prices"),
    ],
)
def test_an_odd_answer_is_a_sentence_and_loses_nothing(
    capsys, monkeypatch, deployments, catalogue, rows, words
):
    catalogue["lambdalabs"] = rows
    before = load_facts(deployments), load_offers(deployments)
    _, output = refresh(capsys, monkeypatch, "lambda")
    assert words in output and "2026-09-20" in output and "Traceback" not in output
    assert (load_facts(deployments), load_offers(deployments)) == before


def test_without_a_network_the_snapshot_serves(capsys, monkeypatch, deployments):
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", "http://127.0.0.1:9")
    before = [(deployments / name).read_bytes() for name in ("prices.yaml", "offers.csv")]
    code, output = refresh(capsys, monkeypatch, "lambda", "nebius")
    assert code == 1 and "lambda: no new prices: URLError: " in output and "refused" in output
    assert "those of 2026-09-20 stay" in output and "those of 2025-08-14 stay" in output
    assert [(deployments / name).read_bytes() for name in ("prices.yaml", "offers.csv")] == before
    code, output = run(capsys, monkeypatch, "offers", "--provider", "nebius", "--gpu", "h200")
    assert code == 0 and "1.45 spot 1 x H200, 141 GiB 16" in output and " 464 " in output


def test_one_provider_that_fails_does_not_stop_the_other_but_is_told_by_the_code(
    capsys, monkeypatch, deployments, catalogue
):
    catalogue["aws"] = b"no catalogue"
    code, output = refresh(capsys, monkeypatch, "aws", "lambda")
    assert (
        code == 1 and "aws: no new prices: " in output and "those of 2026-07-20 to 2026-09-06 stay" in output
    )
    assert usd(deployments, "gpu_1x_a10").date == date(2026, 11, 20)


def test_a_key_that_is_missing_is_named(capsys, monkeypatch, catalogue):
    monkeypatch.delenv("DIGITAL_OCEAN_API_KEY", raising=False)
    code, output = refresh(capsys, monkeypatch, "digitalocean", "lambda")
    assert code == 1 and "digitalocean: no new prices: Set the DIGITAL_OCEAN_API_KEY" in output
    assert "none is on file" in output


def test_a_provider_without_an_api_is_a_mistake(capsys, monkeypatch):
    code, output = refresh(capsys, monkeypatch, "gpc")
    assert code == 2 and "'gpc'" in output and "did you mean gcp?" in output


def test_a_snapshot_that_cannot_be_written_is_one_sentence(capsys, monkeypatch, catalogue):
    monkeypatch.setattr("workloads.harness.records.files.os.replace", fail)
    code, output = refresh(capsys, monkeypatch, "lambda")
    assert code == 2 and "prices.yaml can't be written (Read-only" in output


def fail(*_):
    raise OSError(30, "Read-only file system")


def test_a_new_price_snapshot_sets_the_cost_of_machines(capsys, monkeypatch, deployments, catalogue):
    price = "price: {provider: lambda, instance: gpu_1x_h100_sxm5}"
    (deployments / "hardware" / "h100.yaml").write_text(
        f"title: t\npool: local\ndevice: cuda\ngpus: 1\n{price}\n"
    )
    assert load_hardware("h100", deployments, TODAY).price.usd_per_hour == 4.29
    refresh(capsys, monkeypatch, "lambda")
    assert load_hardware("h100", deployments, TODAY).price.usd_per_hour == 9.99


class TestReportAtNewPrices:
    @pytest.fixture
    def store(self, tmp_path, deployments, monkeypatch):
        for module in ("tasks.planning.machines", "tasks.planning.reprice"):
            monkeypatch.setattr(
                f"{module}.load_hardware", lambda name: load_hardware(name, deployments, TODAY)
            )
        store = Store.create(
            tmp_path / "results", make_plan(RunRequest(suite="quick", hardware=["local-cpu"], repeats=1))
        )
        for repeat in store.plan.repeats_on(store.plan.hardware[0]):
            store.add(repeat.failed(Verdict.NOISY, "for a test"))
        path = deployments / "hardware" / "local-cpu.yaml"
        path.write_text(path.read_text().replace("0.10", "0.25"))
        return store

    def test_a_report_at_new_prices_names_them_in_a_caveat(self, store):
        (machine,) = outcome.comparison_of(store, "now").machines
        assert machine.usd_per_hour == 0.25
        caveats = outcome.comparison_of(store, "now").caveats
        assert any("local-cpu is counted at 0.25 USD/h" in caveat.reason for caveat in caveats)
        assert outcome.comparison_of(store).machines[0].usd_per_hour == 0.10
        assert "counted at" not in " ".join(outcome.comparison_of(store).sentences)

    def test_tells_doubts_wherever_the_price_is_reported(self, store, deployments):
        path = deployments / "hardware" / "local-cpu.yaml"
        path.write_text(path.read_text().replace("0.25", "700"))
        comparison, flag = (
            outcome.comparison_of(store, "now"),
            "700 USD/h is a value that price catalogues hold",
        )
        doubts = [c.reason for c in comparison.caveats if c.kind == "doubtful prices"]
        assert any("local-cpu" in reason and flag in reason for reason in doubts)
        (row,) = machine_rows(grid_of((), comparison))
        assert f"(doubtful: {flag}" in row["source"] and f"(doubtful: {flag}" in text_tables(
            grid_of((), comparison)
        )
        assert flag in comparison_table(grid_of((), comparison))["price_note"][0]
        sound = outcome.comparison_of(store)
        assert (
            "doubtful" not in text_tables(grid_of((), sound))
            and "doubtful" not in machine_rows(grid_of((), sound))[0]["source"]
        )

    def test_takes_no_other_word(self, store, capsys, monkeypatch):
        words = ("report", store.plan.run, "--results", str(store.folder.parent), "--prices", "old")
        code, output = run(capsys, monkeypatch, *words)
        assert code == 2 and "'old'" in output and "plan or now" in output


class TestOffers:
    def test_are_150_of_ten_providers_each_with_source_and_day(self):
        offers = load_offers(DEPLOYMENTS)
        assert len(offers) >= 150 and len({offer.provider for offer in offers}) >= 10
        assert all("commit" in offer.source and offer.date < TODAY for offer in offers)

    def test_are_cheapest_first_and_tell_how_to_reach_each(self, capsys, monkeypatch):
        code, output = run(
            capsys, monkeypatch, "offers", "--gpu-memory", "24", "--max-usd", "3", "--most", "99"
        )
        assert code == 0 and "USD/h purchase GPUs CPUs machine region --on days notes" in output
        assert "0.8048 on-demand 1 x l4, 24 GiB 4 aws g6.xlarge us-east-1 aws-g6.xlarge 124" in output
        assert "1.29 on-demand 1 x A100, 80 GiB 22 verda 1A100.22V FIN-01 ssh://…?usd=1.29 354" in output
        assert output.index(" 0.8048 ") < output.index(" 1.29 ") and "V100" not in output
        assert "from SkyPilot catalogue v8, commit 000c1d0b" in output and "--most 12" in output

    def test_offers_that_match_nothing_suggest_a_refresh(self, capsys, monkeypatch):
        code, output = run(capsys, monkeypatch, "offers", "--gpu", "h100", "--max-usd", "0.5")
        assert code == 0 and output.startswith("none of ") and "prices refresh" in output

    def test_a_mistake_names_its_line(self, capsys, monkeypatch, deployments):
        path = deployments / "offers.csv"
        path.write_text(path.read_text() + "nebius,x,,on-demand,much,1,L4,24,4,16,a test,2026-01-01\n")
        code, output = run(capsys, monkeypatch, "offers")
        assert code == 2 and "offers.csv, offer 245: " in output and "usd_per_hour" in output
