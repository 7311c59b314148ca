import urllib.error
import urllib.request

import pytest

from tests.emulators.imds import TOKEN, TTL, metadata_server


def ask(url, method="GET", **headers):
    request = urllib.request.Request(
        url, method=method, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def refused(*arguments, **headers):
    with pytest.raises(urllib.error.HTTPError) as error:
        ask(*arguments, **headers)
    return error.value.code


def test_metadata_is_served_to_clients_with_a_token():
    with metadata_server(instance_type="g5.8xlarge", zone="eu-west-1b", life_cycle="spot") as metadata:
        token = ask(f"{metadata.url}/latest/api/token", "PUT", **{TTL: "60"})
        about = f"{metadata.url}/latest/meta-data/"
        names = ("instance-type", "placement/availability-zone", "placement/region", "instance-life-cycle")
        assert [ask(about + name, **{TOKEN: token}) for name in names] == [
            "g5.8xlarge",
            "eu-west-1b",
            "eu-west-1",
            "spot",
        ]
        metadata.answers["instance-type"] = "g5.xlarge"
        assert ask(about + "instance-type", **{TOKEN: token}) == "g5.xlarge"
        assert refused(about + "spot/instance-action", **{TOKEN: token}) == 404
        assert metadata.asked[0] == "/latest/meta-data/instance-type"


def test_without_a_token_nothing_is_reported():
    with metadata_server() as metadata:
        value = f"{metadata.url}/latest/meta-data/instance-id"
        assert refused(value) == 401
        assert refused(value, **{TOKEN: "made up"}) == 401
        assert refused(f"{metadata.url}/latest/api/token", "PUT") == 400
        assert refused(f"{metadata.url}/latest/api/token", "PUT", **{TTL: "99999"}) == 400
        token = ask(f"{metadata.url}/latest/api/token", "PUT", **{TTL: "60"})
        metadata.tokens[token] = 0.0  # its time is over
        assert refused(value, **{TOKEN: token}) == 401


def test_botocore_understands_the_emulated_metadata_server():
    from botocore.utils import IMDSFetcher

    with metadata_server(instance_id="i-1234") as metadata:
        fetcher = IMDSFetcher(base_url=metadata.url, env={})
        token = fetcher._fetch_metadata_token()
        answer = fetcher._get_request(url_path="latest/meta-data/instance-id", retry_func=None, token=token)
        assert answer.text == "i-1234"
