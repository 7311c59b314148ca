import shutil

import pytest
from prefect.filesystems import LocalFileSystem
from prefect_aws import AwsCredentials, S3Bucket

from tasks.errors import GridbenchError
from tasks.regressions.series_reader import read_nights, series_of
from tasks.store import address
from tasks.store.address import ResultsAddress
from tasks.store.bucket import Bucket
from tasks.store.sync import bring, fetch_history
from tests.tasks.examples.nights import NOW, a_night, run_name


def s3_bucket(aws, folder="kept/in"):
    aws.client("s3").create_bucket(Bucket="results")
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
    credentials = AwsCredentials(**keys, aws_client_parameters={"endpoint_url": aws.url})
    block = S3Bucket(bucket_name="results", bucket_folder=folder, credentials=credentials)
    return Bucket("s3-bucket/results", block)


def local_bucket(folder):
    folder.mkdir()
    return Bucket("local-file-system/results", LocalFileSystem(basepath=str(folder)))


@pytest.fixture(params=["s3", "folder"])
def bucket(request, tmp_path):
    if request.param == "folder":
        return local_bucket(tmp_path / "there")
    return s3_bucket(request.getfixturevalue("aws"))


def fill(bucket, folder):
    """Write two nights with reports, an interrupted third, and a folder without a run."""
    for number in range(3):
        store = a_night(folder, number, table=number < 2)
        (store.folder / "report.html").write_text("large")
        bucket.send(store.folder)
    (folder / "site").mkdir()
    (folder / "site" / "index.html").write_text("<p>pages</p>")
    bucket.send(folder / "site")


def files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_history_fetches_plans_and_tables_and_the_records_of_a_night_that_was_cut_short(bucket, tmp_path):
    fill(bucket, tmp_path / "made")
    fetch_history(bucket, tmp_path / "here")
    records = {
        f"{run_name(2)}/{name}" for name in files(tmp_path / "made" / run_name(2)) if "records/" in name
    }
    small = {f"{run_name(number)}/{name}" for number in (0, 1) for name in ("plan.json", "results.parquet")}
    assert files(tmp_path / "here") == small | records | {f"{run_name(2)}/plan.json"} and len(records) == 4
    shutil.rmtree(tmp_path / "made" / "site")
    made, odd = read_nights(tmp_path / "made", now=NOW)
    here, same = read_nights(tmp_path / "here", now=NOW)
    assert series_of(here) == series_of(made) and same == odd and len(odd) == 1


def test_present_files_are_not_fetched_again_and_new_files_are(bucket, tmp_path):
    fill(bucket, tmp_path / "made")
    fetch_history(bucket, tmp_path / "here")
    before = {name: (tmp_path / "here" / name).stat().st_mtime_ns for name in files(tmp_path / "here")}
    bucket.send(a_night(tmp_path / "made", 2).folder)  # its table came: it has been resumed elsewhere
    bucket.send(a_night(tmp_path / "made", 3).folder)
    fetch_history(bucket, tmp_path / "here", ("results.parquet", "report.html"))
    after = {name: (tmp_path / "here" / name).stat().st_mtime_ns for name in files(tmp_path / "here")}
    new = {f"{run_name(number)}/report.html" for number in range(3)} | {f"{run_name(2)}/results.parquet"}
    assert before.items() <= after.items()
    assert {*after} - {*before} == new | {
        f"{run_name(3)}/{name}" for name in ("plan.json", "results.parquet")
    }


def test_a_bucket_that_is_not_there_is_one_sentence(aws, tmp_path):
    bucket = s3_bucket(aws)
    bucket.storage.bucket_name = "nowhere"
    with pytest.raises(
        GridbenchError, match=r"^results: s3-bucket/results can't be read: .*NoSuchBucket[^\n]*$"
    ):
        fetch_history(bucket, tmp_path)


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    bucket = local_bucket(tmp_path / "there")
    fill(bucket, tmp_path / "made")
    (tmp_path / "file").write_text("")
    with pytest.raises(GridbenchError, match=r"^results: .* can't be written[^\n]*$"):
        fetch_history(bucket, tmp_path / "file")


def test_a_key_that_leads_elsewhere_is_left_alone(aws, tmp_path):
    bucket, s3 = s3_bucket(aws, folder=""), aws.client("s3")
    for key in ("../plan.json", "run/plan.json", "run/records/../../../out.json", "run/records/in.json"):
        s3.put_object(Bucket="results", Key=key, Body=b"{}")
    fetch_history(bucket, tmp_path / "here")
    assert files(tmp_path) == {"here/run/plan.json", "here/run/records/in.json"}


def test_a_folder_needs_no_bucket_and_a_block_has_a_working_copy(tmp_path, monkeypatch):
    assert bring(ResultsAddress(tmp_path)) == tmp_path and files(tmp_path) == set()
    bucket = local_bucket(tmp_path / "there")
    bucket.send(a_night(tmp_path / "made", 0).folder)
    monkeypatch.setattr(address, "DEFAULT_FOLDER", tmp_path / "here")
    monkeypatch.setattr(Bucket, "load", lambda name: bucket)
    assert bring(ResultsAddress.parse("local-file-system/results")) == tmp_path / "here"
    assert files(tmp_path / "here") == {f"{run_name(0)}/{name}" for name in ("plan.json", "results.parquet")}
