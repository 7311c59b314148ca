import pytest

from infra.lambda_cloud import api as apis
from infra.lambda_cloud.errors import LambdaError


@pytest.mark.parametrize("value", [None, "", "  "])
def test_without_a_key_it_is_said_which_variable_is_read(monkeypatch, value):
    monkeypatch.delenv("LAMBDA_API_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("LAMBDA_API_KEY", value)
    with pytest.raises(LambdaError, match="set LAMBDA_API_KEY"):
        apis.api_key()


@pytest.mark.parametrize("value", ["secret key", "sécret", "secret\nkey"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(monkeypatch, value):
    monkeypatch.setenv("LAMBDA_API_KEY", value)
    with pytest.raises(LambdaError, match="copy it again") as caught:
        apis.api_key()
    assert "cret" not in str(caught.value)


def test_the_key_is_read_without_the_space_around_it(monkeypatch):
    monkeypatch.setenv("LAMBDA_API_KEY", " secret_1\n")
    assert apis.api_key() == "secret_1"


@pytest.mark.parametrize(
    "url", ["https://cloud.lambda.ai/api/v1", "http://127.0.0.1:80/x", "http://localhost:1"]
)
def test_the_address_can_be_changed(monkeypatch, url):
    monkeypatch.setenv("LAMBDA_API_URL", f"{url}/")
    assert apis.api_url() == url


@pytest.mark.parametrize(
    "url", ["http://example.com/api/v1", "http://8.8.8.8", "ftp://127.0.0.1", "cloud", "http://"]
)
def test_no_address_that_the_key_should_not_go_to(monkeypatch, url):
    monkeypatch.setenv("LAMBDA_API_URL", url)
    with pytest.raises(LambdaError, match="LAMBDA_API_URL"):
        apis.api_url()


def test_the_address_is_lambdas_by_default(monkeypatch):
    monkeypatch.delenv("LAMBDA_API_URL", raising=False)
    assert apis.api_url() == "https://cloud.lambda.ai/api/v1"
