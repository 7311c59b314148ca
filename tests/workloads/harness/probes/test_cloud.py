import socket

import pytest

from tests.emulators.imds import answers_of, metadata_server
from workloads.harness.probes.cloud import cloud
from workloads.harness.probes.machine import environment_id, fingerprint

NAMES = {"instance_type", "instance_id", "zone", "purchase"}


@pytest.fixture
def service(monkeypatch):
    monkeypatch.setattr("workloads.harness.probes.cloud.TIMEOUT_S", 30.0)  # on however busy a machine
    with metadata_server() as found:
        yield found


def test_an_ec2_machine_reports_its_type_and_zone(service, tmp_path):
    service.answers.update(answers_of("g5.xlarge", "i-0abc", "us-east-1d", "spot"))
    found, missing = cloud(tmp_path, {"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url})
    assert found == {
        "instance_type": "g5.xlarge",
        "instance_id": "i-0abc",
        "zone": "us-east-1d",
        "purchase": "spot",
    }
    assert not missing


def test_the_metadata_service_is_not_asked_outside_ec2(tmp_path):
    found, missing = cloud(tmp_path, {})
    assert set(found.values()) == {None} and missing == dict.fromkeys(NAMES, "not on EC2")


def test_the_metadata_service_can_be_switched_off(service, tmp_path):
    environ = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url, "AWS_EC2_METADATA_DISABLED": "true"}
    found, missing = cloud(tmp_path, environ)
    assert set(found.values()) == {None} and "AWS_EC2_METADATA_DISABLED is set" in missing["zone"]
    assert not service.asked


def test_no_answer_is_a_reason(tmp_path):
    with socket.socket() as held:  # bound and not listening: connections are refused
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        found, missing = cloud(tmp_path, {"AWS_EC2_METADATA_SERVICE_ENDPOINT": url})
    assert set(found.values()) == {None} and "does not answer" in missing["instance_id"]


def test_half_an_answer_is_kept(service, tmp_path):
    del service.answers["instance-life-cycle"]
    found, missing = cloud(tmp_path, {"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url})
    assert found["instance_type"] == "c5.2xlarge" and found["purchase"] is None
    assert set(missing) == {"purchase"} and "404" in missing["purchase"]


@pytest.mark.parametrize("answer", ["", "x" * 5000, "two\nlines", "\x00"])
def test_nonsense_is_a_reason(service, tmp_path, answer):
    service.answers["instance-type"] = answer
    found, missing = cloud(tmp_path, {"AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url})
    assert found["instance_type"] is None and "answers" in missing["instance_type"]


def test_the_instance_type_is_in_the_fingerprint_and_the_instance_id_is_not(service, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url)
    first = fingerprint(tmp_path)
    assert (first["instance_type"], first["zone"], first["purchase"]) == (
        "c5.2xlarge",
        "us-east-1a",
        "on-demand",
    )
    service.answers.update(answers_of("c5.2xlarge", "i-0other", "us-east-1b"))
    assert environment_id(fingerprint(tmp_path)) == environment_id(first)
    service.answers.update(answers_of("c5.4xlarge"))
    assert environment_id(fingerprint(tmp_path)) != environment_id(first)
