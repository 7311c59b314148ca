import ssl
from pathlib import Path

import pytest

from infra.local.settings import client_environment, service_environment
from infra.local.stack import ensure_certificate

API = "http://127.0.0.1:4300/api"


def test_nothing_that_the_users_prefect_was_told_reaches_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PREFECT_API_KEY", "secret")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "secret")
    monkeypatch.setenv("PREFECT_API_URL", "https://api.prefect.cloud/api")
    theirs = {"SOMETHING": "else", "HOME": "/home/somebody", "SSH_AUTH_SOCK": "/run/agent"}
    for name, value in theirs.items():
        monkeypatch.setenv(name, value)
    for role in ("server", "worker-ssh"):
        environment = service_environment(tmp_path, API, role)
        assert "secret" not in environment.values()
        assert environment["PREFECT_API_URL"] == API
        assert environment.items() >= theirs.items()
        assert environment["PREFECT_HOME"] == f"{tmp_path}/prefect"
    database = service_environment(tmp_path, API, "server")["PREFECT_SERVER_DATABASE_CONNECTION_URL"]
    assert database.endswith(f":///{tmp_path}/prefect.db")
    assert not [name for name in client_environment(tmp_path, API) if name.startswith("GRIDBENCH")]


def test_clients_read_a_certificate_of_the_state_folder_that_openssl_takes(tmp_path: Path):
    file = Path(client_environment(tmp_path, API)["PREFECT_API_SSL_CERT_FILE"])
    assert file.is_relative_to(tmp_path)
    ensure_certificate(file)
    authorities = ssl.create_default_context(cafile=file).get_ca_certs()
    assert [dict(*each["subject"]) for each in authorities] == [{"commonName": "nobody"}]
    assert "PRIVATE KEY" not in file.read_text()
    assert list(file.parent.glob("nobody*")) == [file]


def test_each_state_folder_has_an_authority_of_its_own_and_keeps_it(tmp_path: Path):
    one, other = tmp_path / "one.pem", tmp_path / "other.pem"
    ensure_certificate(one)
    ensure_certificate(other)
    before = one.read_bytes()
    ensure_certificate(one)
    assert one.read_bytes() == before != other.read_bytes()


def test_every_setting_is_one_that_prefect_knows(tmp_path: Path):
    from prefect.settings import Settings
    from prefect.settings.legacy import _get_settings_fields

    known = set(_get_settings_fields(Settings))
    ours = service_environment(tmp_path, API, "server") | service_environment(tmp_path, API, "worker")
    assert {name for name in ours if name.startswith("PREFECT_")} <= known
