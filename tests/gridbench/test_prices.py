"""gridbench prices: lists what is known, takes what providers answer, and leaves the rest alone."""

import http.server
import shutil
import sys
import threading
from datetime import date
from pathlib import Path

import pytest

from gridbench import main, prices
from gridbench.run import outcome
from tasks.planning.hardware import DEPLOYMENTS, load_hardware
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.pricing import lambda_cloud
from tasks.pricing.facts import Fact, PriceAnswer, load_facts
from tasks.report.files.comparison_table import comparison_table
from tasks.report.grid import grid_of
from tasks.report.html.tables import machine_rows
from tasks.report.text.boxes import text_tables
from tasks.store.store import Store
from workloads.harness.records.record import Verdict

ANSWERS = Path(__file__).parents[1] / "tasks" / "pricing" / "answers"
TODAY = date(2026, 11, 21)
SECRET = "secret_of_a_test.0123456789"


@pytest.fixture(autouse=True)
def deployments(tmp_path, monkeypatch):
    folder = shutil.copytree(DEPLOYMENTS, tmp_path / "deployments")
    monkeypatch.setattr("tasks.planning.hardware.DEPLOYMENTS", folder)
    monkeypatch.setattr(prices, "utc_today", lambda: TODAY)
    monkeypatch.delenv("LAMBDA_API_KEY", raising=False)
    return folder


class Api(http.server.BaseHTTPRequestHandler):
    """Lambda's API as far as prices go: one path, one key."""

    def do_GET(self):
        request = (self.path, self.headers["Authorization"])
        self.server.asked.append(request)
        allowed = request == ("/api/v1/instance-types", f"Bearer {SECRET}")
        code, body = (
            self.server.answer if allowed else (401, b'{"error": {"code": "global/invalid-api-key"}}')
        )
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def api(monkeypatch):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        server.asked, server.answer = [], (200, (ANSWERS / "instance_types.json").read_bytes())
        monkeypatch.setattr(
            lambda_cloud, "URL", f"http://127.0.0.1:{server.server_port}/api/v1/instance-types"
        )
        monkeypatch.setenv("LAMBDA_API_KEY", SECRET)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(capsys, monkeypatch, *words):
    """The exit code and all that was printed, on one line."""
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


def test_the_list_may_be_of_one_provider(capsys, monkeypatch):
    assert "aws" not in run(capsys, monkeypatch, "prices", "list", "--provider", "lambda")[1]
    code, output = run(capsys, monkeypatch, "prices", "list", "--provider", "gpc")
    assert code == 2 and "'gpc'" in output and "did you mean gcp?" in output


def test_an_empty_list_says_so(capsys, monkeypatch, deployments):
    (deployments / "prices.yaml").unlink()
    code, output = run(capsys, monkeypatch, "prices", "list")
    assert code == 0 and output.startswith("no prices in")


def test_lambdas_answer_is_taken_kept_and_told(capsys, monkeypatch, deployments, api):
    code, output = refresh(capsys, monkeypatch, "lambda")
    assert code == 0 and api.asked == [("/api/v1/instance-types", f"Bearer {SECRET}")]
    assert SECRET not in output and SECRET not in (deployments / "prices.yaml").read_text()
    assert usd(deployments, "gpu_1x_a10").date == usd(deployments, "gpu_1x_new").date == TODAY
    assert usd(deployments, "gpu_1x_new").usd_per_hour == 1.5
    assert usd(deployments, "gpu_1x_gh200").date == date(2026, 9, 20)
    assert usd(deployments, "g5.8xlarge").date == date(2026, 7, 20)
    assert "lambda: 3 new prices, 15 unchanged" in output
    assert "unchanged: lambda gpu_1x_gh200, on-demand, 2.29 USD/h of 2026-09-20" in output
    assert (
        "jumped: lambda gpu_1x_h100_sxm5, on-demand went from 4.29 to 9.99 USD/h, 2.3x since 2026-09-20"
        in output
    )


def test_a_doubtful_new_price_is_kept_and_flagged(capsys, monkeypatch, deployments, api):
    api.answer = (
        200,
        api.answer[1].replace(b'"price_cents_per_hour": 129', b'"price_cents_per_hour": 70000'),
    )
    code, output = refresh(capsys, monkeypatch, "lambda")
    assert code == 0 and usd(deployments, "gpu_1x_a10").usd_per_hour == 700.0
    assert "to check: lambda gpu_1x_a10, on-demand: 700 USD/h is a value that price catalogues hold" in output


@pytest.mark.parametrize("cents", ["0", "-5", "1e999"])
def test_what_is_no_price_does_not_replace_one(capsys, monkeypatch, deployments, api, cents):
    answer = api.answer[1].replace(
        b'"price_cents_per_hour": 129', f'"price_cents_per_hour": {cents}'.encode()
    )
    api.answer = (200, answer)
    _, output = refresh(capsys, monkeypatch, "lambda")
    assert "no answer: lambda gpu_1x_a10: " in output and usd(deployments, "gpu_1x_a10").usd_per_hour == 1.29


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [
        (401, b"", "refuses the key in LAMBDA_API_KEY (HTTP 401)"),
        (500, b"oops", "did not answer as documented (HTTP 500)"),
        (200, b"<html>", "did not answer as documented: "),
        (200, b'{"data": []}', "did not answer as documented: data is []"),
        (200, b'{"data": {"a": {"instance_type": {"name": "a"}}}}', "price_cents_per_hour' is missing"),
        (302, b"", "did not answer as documented (HTTP 302)"),
    ],
)
def test_an_odd_answer_is_a_sentence_and_changes_nothing(
    capsys, monkeypatch, deployments, api, code, body, words
):
    before, api.answer = (deployments / "prices.yaml").read_bytes(), (code, body)
    ended, output = refresh(capsys, monkeypatch, "lambda")
    assert ended == 1 and words in output and "2026-09-20" in output
    assert (deployments / "prices.yaml").read_bytes() == before and SECRET not in output


def test_without_key_and_network_the_snapshot_serves(capsys, monkeypatch, deployments):
    before = (deployments / "prices.yaml").read_bytes()
    code, output = refresh(capsys, monkeypatch, "lambda")
    assert code == 1 and "LAMBDA_API_KEY" in output and "2026-09-20" in output
    monkeypatch.setenv("LAMBDA_API_KEY", SECRET)
    monkeypatch.setattr(lambda_cloud, "URL", "http://127.0.0.1:9/api/v1/instance-types")
    code, output = refresh(capsys, monkeypatch, "lambda")
    assert code == 1 and "Lambda's API can't be reached (ConnectError)" in output and SECRET not in output
    assert (deployments / "prices.yaml").read_bytes() == before


def test_without_credentials_aws_is_one_sentence(capsys, monkeypatch, tmp_path, deployments):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    before = (deployments / "prices.yaml").read_bytes()
    code, output = refresh(capsys, monkeypatch, "aws")
    assert code == 1 and output.startswith("aws: no new prices")
    assert "Unable to locate credentials" in output and "2026-07-20 to 2026-09-06" in output
    assert (deployments / "prices.yaml").read_bytes() == before


def test_one_provider_that_fails_does_not_stop_the_other_but_is_told_by_the_code(
    capsys, monkeypatch, deployments, api
):
    new = Fact(
        provider="aws",
        instance="g5.8xlarge",
        region="us-east-1",
        purchase="spot",
        usd_per_hour=3.0,
        source="a test",
        date=TODAY,
    )
    monkeypatch.setitem(
        prices.SOURCES, "aws", lambda facts, today: PriceAnswer((new,), ("on demand is away",), True)
    )
    code, output = refresh(capsys, monkeypatch)
    assert (
        code == 1 and "aws: 1 new prices, 30 unchanged" in output and "no answer: on demand is away" in output
    )
    assert "to check: aws g5.8xlarge, spot, us-east-1: the spot price, 3 USD/h, is above" in output
    assert new in load_facts(deployments) and usd(deployments, "gpu_1x_a10").date == TODAY


def test_a_provider_without_an_api_is_a_mistake(capsys, monkeypatch):
    code, output = refresh(capsys, monkeypatch, "gcp")
    assert code == 2 and "'gcp'" in output and "aws, lambda" in output


def test_a_snapshot_that_cannot_be_written_is_one_sentence(capsys, monkeypatch, api):
    monkeypatch.setattr("workloads.harness.records.files.os.replace", fail)
    code, output = refresh(capsys, monkeypatch, "lambda")
    assert code == 2 and output.startswith("error: ") and "prices.yaml can't be written (Read-only" in output


def fail(*_):
    raise OSError(30, "Read-only file system")


def test_a_new_snapshot_is_what_machines_cost_next(capsys, monkeypatch, deployments, api):
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

    def test_says_so(self, store):
        (machine,) = outcome.comparison_of(store, "now").machines
        assert machine.usd_per_hour == 0.25
        caveats = outcome.comparison_of(store, "now").caveats
        assert any("local-cpu is counted at 0.25 USD/h" in caveat.reason for caveat in caveats)
        assert outcome.comparison_of(store).machines[0].usd_per_hour == 0.10
        assert "counted at" not in " ".join(outcome.comparison_of(store).sentences)

    def test_tells_doubts_wherever_the_price_is_told(self, store, deployments):
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
