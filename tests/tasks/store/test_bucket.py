import asyncio
import os
import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import boto3
import pytest
from moto import mock_aws
from prefect.filesystems import LocalFileSystem
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect_aws import AwsCredentials, S3Bucket

from tasks.errors import GridbenchError
from tasks.store import address
from tasks.store import bucket as module
from tasks.store.address import DEFAULT_FOLDER, ResultsAddress
from tasks.store.bucket import Bucket, LinkSettings, Mirror, find, hand_in, send
from tasks.store.store import Store
from tests.emulators.aws.control import control
from tests.emulators.aws.server import aws_server
from tests.emulators.fixtures import REGION, environment
from tests.tasks.dispatch.dispatched import until
from workloads.harness.records.record import Verdict


@pytest.fixture
def there(tmp_path):
    return tmp_path / "bucket"


@pytest.fixture
def store(there, tmp_path, plan):
    there.mkdir()
    bucket = Bucket("local-file-system/results", LocalFileSystem(basepath=str(there)))
    return Store.create(tmp_path / "results", plan, bucket)


class Away:
    def __init__(self, refusals):
        self.refusals, self.taken = refusals, {}

    def write_path(self, path, content, _sync):
        if self.refusals:
            self.refusals -= 1
            raise ConnectionError("Could not connect\nto the endpoint")
        self.taken[path] = content


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("s3-bucket/gridbench", True),
        ("s3-bucket/gridbench/", True),
        ("local-file-system/results-2", True),
        ("results", False),
        ("/s3-bucket/gridbench", False),
        ("s3-bucket/a/b", False),
        ("s3-bucket", False),
        ("", False),
        (None, False),
    ],
)
def test_a_block_is_distinguished_from_a_folder(text, block):
    results = ResultsAddress.parse(text)
    assert results.block == (text.rstrip("/") if block else None)
    assert results.folder == (DEFAULT_FOLDER if block or not text else Path(text))
    assert ResultsAddress.parse(str(results)) == results
    assert results.parameter == (results.block or str(results.folder.absolute()))


def test_everything_of_a_run_goes_there_once_and_comes_back(store, there, tmp_path, plan):
    repeats = plan.repeats_on(plan.hardware[0])
    store.add(repeats[0].failed(Verdict.CRASHED, "an example"))
    asyncio.run(send(store))
    first = {path.relative_to(there): path.stat().st_mtime_ns for path in there.rglob("*") if path.is_file()}
    assert len(first) == 2 and Path(plan.run, "plan.json") in first
    store.add(repeats[1].failed(Verdict.CRASHED, "another"))
    asyncio.run(send(store))
    second = {path.relative_to(there): path.stat().st_mtime_ns for path in there.rglob("*") if path.is_file()}
    assert len(second) == 3 and first.items() <= second.items()
    Bucket("b", LocalFileSystem(basepath=str(there))).fetch(plan.run, tmp_path / "elsewhere")
    again = Store.open(tmp_path / "elsewhere", plan.run)
    assert again.plan == plan and again.records() == store.records()


def s3_bucket(aws):
    aws.client("s3").create_bucket(Bucket="kept")
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
    credentials = AwsCredentials(**keys, aws_client_parameters={"endpoint_url": aws.url})
    return Bucket("s3-bucket/kept", S3Bucket(bucket_name="kept", credentials=credentials))


HOSTILE = ["../outside", "records/../../../outside", "a//outside", "./outside", "records/", ".."]


def test_a_resume_writes_nothing_outside_the_runs_folder(aws, tmp_path, plan):
    bucket, s3 = s3_bucket(aws), aws.client("s3")
    bucket.send(Store.create(tmp_path / "made", plan).folder)
    shutil.rmtree(tmp_path / "made")
    for key in HOSTILE:
        s3.put_object(Bucket="kept", Key=f"{plan.run}/{key}", Body=b"hostile")
    s3.put_object(Bucket="kept", Key=f"{plan.run}-2/plan.json", Body=b"another run's")
    bucket.fetch(plan.run, tmp_path / "home" / "results")
    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert made == {f"home/results/{plan.run}/plan.json"}


@pytest.mark.parametrize("run", ["../outside", "..", ".", "", "/etc", "a/../../b"])
def test_the_name_of_a_run_leads_nowhere_else(there, tmp_path, run):
    there.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "plan.json").write_text("{}")
    bucket = Bucket("b", LocalFileSystem(basepath=str(there)))
    with pytest.raises(GridbenchError):
        bucket.fetch(run, tmp_path / "home" / "results")
    assert not (tmp_path / "home").exists()
    with pytest.raises(GridbenchError, match="is not the name of a run"):
        find(ResultsAddress.parse("s3-bucket/kept"), run)


def test_a_resumed_run_sends_no_record_again(aws, tmp_path, plan):
    bucket, results = s3_bucket(aws), tmp_path / "results"
    store = Store.create(results, plan, bucket)
    repeats = plan.repeats_on(plan.hardware[0])
    for repeat in repeats[:3]:
        store.add(repeat.failed(Verdict.CRASHED, "an example"))
    bucket.send(store.folder)
    again = Counting(Bucket(bucket.name, bucket.storage))
    Store(store.folder, again.bucket).add(repeats[3].failed(Verdict.CRASHED, "new"))
    again.bucket.send(store.folder)
    assert sorted(path.rpartition("/")[2] for path in again.sent) == [
        f"{repeats[3].repeat}.json",
        "plan.json",
    ]


class Counting:
    def __init__(self, bucket):
        self.bucket, self.sent, write = bucket, [], bucket.storage.write_path

        def noted(key, content, _sync):
            self.sent.append(key)
            return write(key, content, _sync=_sync)

        object.__setattr__(bucket.storage, "write_path", noted)


def names_below(folder):
    """Return the names of all files below a folder, without `Path.rglob`."""
    return [name for _, _, names in os.walk(folder) for name in names]


async def test_a_mirror_reads_only_written_files(store, there, monkeypatch, plan):
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    looks = []
    async with Mirror(store, pytest.fail):
        await until(lambda: names_below(there) == ["plan.json"])
        walk = Path.rglob
        monkeypatch.setattr(Path, "rglob", lambda *words: (looks.append(words), walk(*words))[1])
        for count, repeat in enumerate(plan.repeats_on(plan.hardware[0])[:3], 2):
            store.add(repeat.failed(Verdict.CRASHED, "an example"))
            await until(lambda count=count: len(names_below(there)) == count)
            await asyncio.sleep(0.1)
        monkeypatch.setattr(Path, "rglob", walk)
        assert len(list(there.rglob("records/**/*.json"))) == 3 and looks == []
    assert len(list(there.rglob("*.json"))) == 4


def test_an_unknown_run_is_one_sentence(there, tmp_path):
    there.mkdir()
    with pytest.raises(
        GridbenchError, match=r"^(run 'nope' is unknown in b|results: b can't be read)[^\n]*$"
    ):
        Bucket("b", LocalFileSystem(basepath=str(there))).fetch("nope", tmp_path / "elsewhere")


def test_a_run_that_is_here_is_not_fetched(tmp_path, monkeypatch, plan):
    monkeypatch.setattr(address, "DEFAULT_FOLDER", tmp_path)
    monkeypatch.setattr(Bucket, "load", lambda name: pytest.fail("it was asked for"))
    Store.create(tmp_path, plan)
    assert find(ResultsAddress.parse("s3-bucket/gridbench"), plan.run).plan == plan


async def test_a_bucket_that_is_away_is_reported_once_and_gets_everything_later(store, monkeypatch):
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    away = Away(refusals=5)
    store.bucket.storage = away
    said = []
    async with Mirror(store, said.append):
        await until(lambda: away.taken)
    assert len(said) == 1 and "Could not connect to the endpoint; everything is in" in said[0]
    assert [*away.taken] == [f"{store.folder.name}/plan.json"]


async def test_a_run_is_handed_in_after_some_tries_or_ends_with_a_sentence(store, monkeypatch):
    monkeypatch.setattr(module, "wait_exponential", lambda **_: lambda state: 0)
    store.bucket.storage = Away(refusals=3)
    assert await hand_in(store, store.folder / "report.html") is None
    assert store.bucket.storage.taken
    store.bucket._sent.clear()
    store.bucket.storage = Away(refusals=100)
    with pytest.raises(GridbenchError) as caught:
        await hand_in(store, store.folder / "report.html")
    assert "\n" not in str(caught.value) and f"gridbench resume {store.folder.name}" in str(caught.value)


async def test_without_a_bucket_nothing_is_sent(tmp_path, plan):
    store = Store.create(tmp_path / "plain", plan)
    async with Mirror(store, pytest.fail):
        assert await hand_in(store, store.folder / "report.html") is None


def test_a_run_goes_to_s3_and_comes_back(tmp_path, plan):
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    with mock_aws():
        s3 = boto3.client("s3", **keys)
        s3.create_bucket(Bucket="results")
        storage = S3Bucket(bucket_name="results", bucket_folder="in/here", credentials=AwsCredentials(**keys))
        store = Store.create(tmp_path / "results", plan, Bucket("s3-bucket/results", storage))
        store.add(plan.repeats_on(plan.hardware[0])[0].failed(Verdict.CRASHED, "an example"))
        store.bucket.send(store.folder)
        kept = [item["Key"] for item in s3.list_objects_v2(Bucket="results")["Contents"]]
        assert f"in/here/{plan.run}/plan.json" in kept and len(kept) == 2
        Bucket("s3-bucket/results", storage).fetch(plan.run, tmp_path / "elsewhere")
    again = Store.open(tmp_path / "elsewhere", plan.run)
    assert again.plan == plan and again.records() == store.records()


def test_a_role_of_an_hour_is_enough_for_a_run_of_a_night(tmp_path, plan):
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": REGION}
    role = AwsCredentials(assume_role_arn="arn:aws:iam::222222222222:role/results", region_name=REGION)
    with aws_server() as url, environment(AWS_ENDPOINT_URL=url, **keys):
        role.get_client("s3").create_bucket(Bucket="results")
        store = Store.create(
            tmp_path, plan, Bucket("s3-bucket/x", S3Bucket(bucket_name="results", credentials=role))
        )
        control.throttle("PUT", service="s3", answer="expired", limit=1)
        store.bucket.send(store.folder)
        assert role.get_client("s3").list_objects_v2(Bucket="results")["KeyCount"] == 1
        assert control.calls["AssumeRole"] == 2
        control.throttle("PUT", service="s3", answer="expired")
        store.add(plan.repeats_on(plan.hardware[0])[0].failed(Verdict.CRASHED, "an example"))
        with pytest.raises(GridbenchError, match=r"s3-bucket/x does not take .* expired"):
            store.bucket.send(store.folder)


@pytest.mark.parametrize("kind", [S3Bucket, LocalFileSystem])
def test_a_storage_block_is_read_as_its_stated_type(kind, monkeypatch):
    """Also if nothing has imported the class before."""
    monkeypatch.setattr(kind, "load", lambda name, _sync: (kind.get_block_type_slug(), name))
    with temporary_settings({PREFECT_API_URL: "http://there/api"}):
        slug = kind.get_block_type_slug()
        assert Bucket.load(f"{slug}/results").storage == (slug, "results")


def test_a_block_needs_a_server(monkeypatch):
    with (
        temporary_settings({PREFECT_API_URL: None}),
        pytest.raises(GridbenchError, match="set PREFECT_API_URL"),
    ):
        Bucket.load("s3-bucket/none")


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1"])
def test_a_link_is_signed_as_the_region_of_its_bucket_wants_it(region, monkeypatch):
    monkeypatch.setenv("GRIDBENCH_REPORT_LINK_S", "604800")
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    with mock_aws():
        s3 = boto3.client("s3", **keys | {"region_name": region})
        place = {"CreateBucketConfiguration": {"LocationConstraint": region}} if region != "us-east-1" else {}
        s3.create_bucket(Bucket="kept", **place)
        storage = S3Bucket(bucket_name="kept", bucket_folder="in/here", credentials=AwsCredentials(**keys))
        link = urlparse(Bucket("s3-bucket/x", storage).link("run/report.html"))
    asked = parse_qs(link.query)
    assert link.path.endswith("in/here/run/report.html") and "kept" in link.netloc + link.path
    assert asked["response-content-type"] == ["text/html; charset=utf-8"]
    assert asked["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]  # regions since 2014 take no older one
    assert asked["X-Amz-Credential"][0].split("/")[2:] == [region, "s3", "aws4_request"]
    assert asked["X-Amz-Expires"] == [str(7 * 24 * 3600)]


def test_the_link_to_a_report_needs_access_to_the_bucket():
    storage = S3Bucket(bucket_name="kept", bucket_folder="in/here", credentials=AwsCredentials())
    assert Bucket("s3-bucket/x", storage).link("run/report.html") == "s3://kept/in/here/run/report.html"


def test_code_has_a_separate_link_that_expires(tmp_path):
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    with mock_aws():
        boto3.client("s3", **keys).create_bucket(Bucket="kept")
        storage = S3Bucket(bucket_name="kept", bucket_folder="in/here", credentials=AwsCredentials(**keys))
        link = urlparse(Bucket("s3-bucket/x", storage).signed("run/code/ab.pack", 3600))
    asked = parse_qs(link.query)
    assert link.path.endswith("in/here/run/code/ab.pack") and asked["X-Amz-Expires"] == ["3600"]
    assert "response-content-type" not in asked
    assert Bucket("local-file-system/x", LocalFileSystem(basepath=str(tmp_path))).signed("a", 1) is None


@pytest.mark.parametrize("lasts_s", [str(7 * 24 * 3600 + 1), "-1", "a week"])
def test_a_link_that_lasts_too_long_is_refused(monkeypatch, lasts_s):
    monkeypatch.setenv("GRIDBENCH_REPORT_LINK_S", lasts_s)
    with pytest.raises(ValueError, match="report_link_s"):
        LinkSettings()
