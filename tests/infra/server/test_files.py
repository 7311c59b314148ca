import re
import subprocess
from pathlib import Path

import prefect
import pytest
import yaml
from prefect.settings import Settings
from prefect.settings.legacy import _get_settings_fields

HERE = Path(__file__).parents[3] / "infra" / "server"
TEXT = (HERE / "compose.yaml").read_text()
COMPOSE = yaml.safe_load(TEXT)
VALUES = yaml.safe_load((HERE / "values.yaml").read_text())
OF_REDIS = "PREFECT_REDIS_MESSAGING_"  # settings of prefect_redis
FROM_THE_CHART = {  # settings that the chart adds for separate services and auth
    "PREFECT_SERVER_DATABASE_CONNECTION_URL",
    "PREFECT_SERVER_DATABASE_MIGRATE_ON_START",
    "PREFECT_SERVER_API_AUTH_STRING",
    "PREFECT_UI_API_URL",
    "PREFECT_SERVER_EVENTS_MESSAGING_BROKER",
    "PREFECT_SERVER_EVENTS_MESSAGING_CACHE",
    "PREFECT_SERVER_EVENTS_CAUSAL_ORDERING",
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE",
    "PREFECT_SERVER_DOCKET_URL",
}


def of_compose():
    return COMPOSE["x-settings"]


def of_chart():
    return {one["name"]: one["value"] for one in VALUES["global"]["prefect"]["env"]}


@pytest.mark.parametrize("settings", [of_compose(), of_chart()], ids=["compose", "chart"])
def test_prefect_knows_every_setting_and_takes_its_value(settings, monkeypatch):
    known = _get_settings_fields(Settings)
    ours = {name: value for name, value in settings.items() if not name.startswith(OF_REDIS)}
    assert not ours.keys() - known.keys()
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    taken = Settings()
    assert taken.server.api.csrf_protection_enabled is False
    assert taken.server.events.retention_period.total_seconds() == 2 * 86400
    assert taken.server.api.cors_allowed_origins.startswith("https://")


def test_compose_and_chart_have_the_same_settings():
    shared = {name for name in of_compose() if not name.startswith(OF_REDIS)}
    assert of_chart().keys() == shared - FROM_THE_CHART
    for name in of_chart().keys() - {"PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS"}:
        assert of_chart()[name] == of_compose()[name]
    assert (
        VALUES["server"]["basicAuth"]["enabled"] and VALUES["backgroundServices"]["runAsSeparateDeployment"]
    )
    assert VALUES["server"]["replicaCount"] == COMPOSE["services"]["api"]["deploy"]["replicas"] == 2


def test_the_server_has_the_version_of_its_clients():
    tag = VALUES["global"]["prefect"]["image"]["prefectTag"]
    assert tag.startswith(f"{prefect.__version__}-")
    assert {COMPOSE["services"][name]["image"] for name in ("migrate", "api", "services")} == {
        f"docker.io/prefecthq/prefect:{tag}"
    }


def test_only_tls_is_open_to_the_outside():
    assert {name for name, service in COMPOSE["services"].items() if service.get("ports")} == {"tls"}
    assert COMPOSE["services"]["tls"]["ports"] == ["80:80", "443:443"]
    assert VALUES["ingress"]["tls"] is True


def test_no_secret_has_a_default():
    """Without settings the file does not start, rather than with a known password."""
    used = set(re.findall(r"\$\{(\w+)", TEXT))
    assert used == set(re.findall(r"\$\{(\w+):\?\}", TEXT))
    example = dict(re.findall(r"^(\w+)=(.*)$", (HERE / "settings.env.example").read_text(), re.MULTILINE))
    assert example.keys() == used
    assert {name for name, value in example.items() if value} == {"SERVER_NAME"}


def test_ones_own_settings_are_not_committed():
    words = ["git", "-C", str(HERE), "check-ignore", "--quiet", "settings.env"]
    assert subprocess.run(words, check=False).returncode == 0
