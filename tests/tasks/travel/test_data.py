import shutil
from collections import namedtuple

import boto3
import pytest
from moto import mock_aws

from tasks.errors import GridbenchError
from tasks.travel import data as of_data
from tasks.travel.data import data_for

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    monkeypatch.setenv("GRIDBENCH_KEPT", str(tmp_path / "kept"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="sets")
        for key in ("mnist/train/a.bin", "mnist/b.bin", "mnist2/c.bin", "one.bin", "mnist/folder/"):
            client.put_object(Bucket="sets", Key=key, Body=key.encode())
        yield client


def files(folder):
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_a_folder_of_the_machine_is_looked_for(tmp_path):
    (tmp_path / "data").mkdir()
    assert data_for("data", tmp_path) == data_for(str(tmp_path / "data"), tmp_path) == str(tmp_path / "data")
    with pytest.raises(
        GridbenchError,
        match=r"data='/no/such' is not on this machine \(No such file or directory\); put it there, or name",
    ):
        data_for("/no/such", tmp_path)


def test_data_of_a_bucket_are_copied_once(bucket, tmp_path, monkeypatch):
    first = data_for("s3://sets/mnist", tmp_path)
    assert files(tmp_path / first) == {"train/a.bin": "mnist/train/a.bin", "b.bin": "mnist/b.bin"}
    with monkeypatch.context() as patched:
        patched.setattr(of_data, "_copy", None)
        assert data_for("s3://sets/mnist/", tmp_path) == first
    bucket.put_object(Bucket="sets", Key="mnist/b.bin", Body=b"newer")
    second = data_for("s3://sets/mnist", tmp_path)
    assert second != first and files(tmp_path / second)["b.bin"] == "newer"


def test_data_that_a_script_has_changed_are_copied_again(bucket, tmp_path):
    path = data_for("s3://sets/mnist", tmp_path)
    for spoil in (lambda file: file.write_text("cut"), lambda file: file.unlink()):
        spoil(tmp_path / path / "b.bin")
        assert data_for("s3://sets/mnist", tmp_path) == path
        assert files(tmp_path / path)["b.bin"] == "mnist/b.bin"


def test_a_single_file_and_a_whole_bucket(bucket, tmp_path):
    path = data_for("s3://sets/one.bin", tmp_path)
    assert path.endswith("/one.bin") and (tmp_path / path).read_text() == "one.bin"
    assert data_for("s3://sets/one.bin", tmp_path) == path
    assert set(files(tmp_path / data_for("s3://sets", tmp_path))) >= {"one.bin", "mnist2/c.bin"}


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("s3://sets/nothing", "holds no files; name a bucket"),
        ("s3://absent/x", "can't be read by this machine: .*NoSuchBucket"),
        ("s3:///x", "names no bucket"),
    ],
)
def test_data_that_can_not_be_copied_are_reported(bucket, tmp_path, address, words):
    with pytest.raises(GridbenchError, match=words):
        data_for(address, tmp_path)


def test_a_machine_without_a_cache_folder_is_reported(bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDBENCH_KEPT", str(tmp_path / ("k" * 300)))  # no such name can be
    with pytest.raises(GridbenchError, match=r"data='s3://sets/mnist'.*cached"):
        data_for("s3://sets/mnist", tmp_path)
    with pytest.raises(GridbenchError, match=r"is not on this machine \(File name too long\)"):
        data_for("d" * 300, tmp_path)


def test_a_hostile_key_and_a_full_disk_leave_nothing(bucket, tmp_path, monkeypatch):
    bucket.put_object(Bucket="sets", Key="bad/../../../out", Body=b"x")
    with pytest.raises(GridbenchError, match="is not a valid name of a folder or file"):
        data_for("s3://sets/bad", tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 10**9, 10**9))
    with pytest.raises(GridbenchError, match=r"does not fit on this machine, which has 1\.0 GB free"):
        data_for("s3://sets/mnist", tmp_path)
    assert not list(tmp_path.rglob("out"))
    assert [p.name for p in (tmp_path / "kept" / "data").iterdir() if not p.name.endswith(".lock")] == []
