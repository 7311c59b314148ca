import base64
import http.client
import os

import pytest

from gridbench.run.report_server import reports_served
from tasks.publish import report_url
from tasks.store.report_keys import REPORTS_SECRET
from tasks.store.store import REPORTS_URL

AUTH = "gridbench:a-long-password"
LOGIN = {"Authorization": f"Basic {base64.b64encode(AUTH.encode()).decode()}"}


@pytest.fixture
def results(tmp_path):
    for run in ("mine", "other"):
        (tmp_path / "results" / run).mkdir(parents=True)
        (tmp_path / "results" / run / "report.html").write_text(f"report of {run}")
        (tmp_path / "results" / run / "plan.json").write_text("hosts, users, key paths")
    (tmp_path / "outside").write_text("private")
    (tmp_path / "results" / "mine" / "link").symlink_to(tmp_path / "outside")
    return tmp_path / "results"


@pytest.fixture
def port(results):
    with reports_served(results, AUTH):
        yield int(os.environ[REPORTS_URL].rpartition(":")[2])


def asked(port, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def keyed(results, run="mine"):
    """Return the path of a run in its link."""
    return "/" + report_url(results / run / "report.html").split("/", 3)[3].removesuffix("/report.html")


def test_a_link_has_its_run_and_only_it(results, port):
    mine = keyed(results)
    assert asked(port, f"{mine}/report.html?x=1") == (200, "report of mine")
    assert asked(port, f"{mine}/plan.json")[0] == 200
    for path in (
        *(
            f"{mine}/../other/report.html",
            f"{mine}/%2e%2e/other/report.html",
            f"{mine}/..%2fother/report.html",
        ),
        *(f"{mine}/", mine, f"{mine}/link", f"{mine}/../../outside", f"{mine}/missing"),
        mine.replace("/mine", "/other") + "/report.html",
        mine.replace("/mine", "/.") + "/mine/report.html",
    ):
        status, text = asked(port, path)
        assert status == 401 and "other" not in text and "private" not in text, path


@pytest.mark.parametrize(
    "path", ["/", "/mine/", "/mine/report.html", "/mine/plan.json", "/0/mine/plan.json", "//"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_request_without_link_and_password_gets_nothing(port, path, method):
    assert asked(port, path, method) == (401, "")


@pytest.mark.parametrize("wrong", ["Basic !", "Basic eDp5", "Bearer x", "Basic"])
def test_a_request_with_a_wrong_password_gets_nothing(port, wrong):
    assert asked(port, "/", Authorization=wrong) == (401, "")


def test_the_password_opens_the_whole_folder(port):
    status, listing = asked(port, "/", **LOGIN)
    assert status == 200 and "mine/" in listing and "other/" in listing
    assert asked(port, "/other/report.html", **LOGIN) == (200, "report of other")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:4280", "127.0.0.1", "127.0.0.1.evil.example", ""]
)
def test_a_page_that_has_rebound_its_name_is_refused(results, port, host):
    for path, more in ((f"{keyed(results)}/report.html", {}), ("/", LOGIN)):
        status, text = asked(port, path, Host=host, **more)
        assert status == 421 and "mine" not in text
    assert asked(port, f"{keyed(results)}/report.html", Host=f"localhost:{port}")[0] == 200


def test_links_stay_the_same_and_differ_by_run_and_password(results, port):
    first, secret = keyed(results), os.environ[REPORTS_SECRET]
    assert AUTH.split(":")[1] not in secret and first != keyed(results, "other")
    with reports_served(results, AUTH):
        assert keyed(results) == first
    with reports_served(results, "gridbench:another"):
        assert keyed(results).split("/")[1] != first.split("/")[1]
    assert REPORTS_SECRET not in os.environ
