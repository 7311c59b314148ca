import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from infra.local.errors import LocalStackError
from infra.local.proxies import direct, missing_certificates, unusable_proxy
from infra.local.settings import client_environment
from infra.local.stack import LocalStack

NOWHERE = "http://127.0.0.1:9"
NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in (*NAMES, *map(str.upper, NAMES)):
        monkeypatch.delenv(name, raising=False)


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words):
        pass


@pytest.fixture
def address():
    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
def test_a_client_reaches_the_stack_behind_a_proxy_that_does_not(monkeypatch, tmp_path, address, name):
    monkeypatch.setenv(name, NOWHERE)
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)
    for variable, value in client_environment(tmp_path, address).items():
        monkeypatch.setenv(variable, value)
    assert httpx.get(address, verify=False).status_code == 200


def test_the_users_own_exceptions_stay_and_without_a_proxy_nothing_is_set():
    environ = {"http_proxy": NOWHERE, "NO_PROXY": "example.com,127.0.0.1"}
    assert direct(environ)["no_proxy"].split(",") == ["example.com", "127.0.0.1", "localhost"]
    assert direct({"NO_PROXY": "example.com", "http_proxy": ""}) == {}


def test_a_socks_proxy_is_named_before_anything_starts(monkeypatch, tmp_path):
    monkeypatch.setenv("ALL_PROXY", "socks5h://user:secret@127.0.0.1:9")
    with pytest.raises(LocalStackError, match="ALL_PROXY names a proxy by socks5h://") as caught:
        LocalStack(tmp_path).__enter__()
    assert "secret" not in str(caught.value)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert unusable_proxy({"ALL_PROXY": "socks5h://127.0.0.1:9"}) == ""


def test_certificates_that_are_gone_are_named_before_anything_starts(monkeypatch, tmp_path):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    with pytest.raises(LocalStackError, match=r"SSL_CERT_FILE names .*gone\.pem"):
        LocalStack(tmp_path / "state").__enter__()
    assert not (tmp_path / "state").exists()
    (tmp_path / "gone.pem").touch()
    assert missing_certificates({"SSL_CERT_FILE": str(tmp_path / "gone.pem")}) == ""
