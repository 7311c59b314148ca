"""The environment of a job's container, without secrets."""

import ipaddress
import re
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic_settings import BaseSettings, SettingsConfigDict

from ..brand import BRAND

Env = Mapping[str, str | None]

# These reach a container only as references to a store of secrets.
SECRETS = ("PREFECT_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT_CLIENT_CUSTOM_HEADERS")
EMPTY = ("", "{}")
# The worker's settings that mean the same on another machine. All others stay with it: paths, passwords of
# its server, and settings of later versions of Prefect.
OF_THE_API = ("URL", "REQUEST_TIMEOUT", "ENABLE_HTTP2", "TLS_INSECURE_SKIP_VERIFY")
OF_THE_CLIENT = ("MAX_RETRIES", "RETRY_EXTRA_CODES", "RETRY_JITTER_FACTOR", "CSRF_SUPPORT_ENABLED")
OF_THE_CLOUD = ("API_URL", "ENABLE_ORCHESTRATION_TELEMETRY", "MAX_LOG_SIZE", "UI_URL")
OF_LOGS = ("COLORS", "EXTRA_LOGGERS", "LEVEL", "LOG_PRINTS", "MARKUP")
OF_LOGS_TO_THE_API = ("BATCH_INTERVAL", "BATCH_SIZE", "ENABLED", "MAX_LOG_SIZE", "WHEN_MISSING_FLOW")
OF_FLOWS = ("DEFAULT_RETRIES", "DEFAULT_RETRY_DELAY_SECONDS", "HEARTBEAT_FREQUENCY")
OF_TASKS = (
    *("DEFAULT_NO_CACHE", "DEFAULT_PERSIST_RESULT", "DEFAULT_RETRIES", "DEFAULT_RETRY_DELAY_SECONDS"),
    *("DISABLE_CACHING", "REFRESH_CACHE", "RUNNER_PROCESS_POOL_MAX_WORKERS"),
    *("RUNNER_THREAD_POOL_MAX_WORKERS", "SCHEDULING_DEFAULT_STORAGE_BLOCK"),
)
OF_RESULTS = ("DEFAULT_SERIALIZER", "DEFAULT_STORAGE_BLOCK", "PERSIST_BY_DEFAULT")
OF_THE_RUN = (
    "FLOW_RUN_ID",
    "FLOW_ID",
    "FLOW_NAME",
    "DEPLOYMENT_ID",
    "DEPLOYMENT_NAME",
    "WORKER_ID",
    "WORKER_NAME",
)
FAMILIES = {
    "PREFECT_API_": OF_THE_API,
    "PREFECT_CLIENT_": (*OF_THE_CLIENT, "SERVER_VERSION_CHECK_ENABLED"),
    "PREFECT_CLOUD_": OF_THE_CLOUD,
    "PREFECT_LOGGING_": OF_LOGS,
    "PREFECT_LOGGING_TO_API_": OF_LOGS_TO_THE_API,
    "PREFECT_FLOWS_": OF_FLOWS,
    "PREFECT_TASKS_": OF_TASKS,
    "PREFECT_RESULTS_": OF_RESULTS,
    "PREFECT__": OF_THE_RUN,
    "PREFECT_": ("DEBUG_MODE", "INTERNAL_LOGGING_LEVEL", "UI_URL", "FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"),
}
PASSED_ON = frozenset(prefix + name for prefix, names in FAMILIES.items() for name in names)
# Anyone who can describe a job can read its environment, so these are never put there.
CREDENTIALS = (
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET", "LAMBDA_API_KEY"),
    *("PREFECT_SERVER_API_AUTH_STRING", "PREFECT_SERVER_DATABASE_CONNECTION_URL"),
    *("PREFECT_SERVER_DATABASE_PASSWORD", "PREFECT_API_DATABASE_CONNECTION_URL"),
    "PREFECT_API_DATABASE_PASSWORD",
)
# Names whose values are usually credentials, such as HF_TOKEN, DB_PASSWORD, WANDB_API_KEY and PGPASSWORD.
CREDENTIAL_NAME = re.compile(
    r"((^|_)(TOKEN|SECRET|PASSPHRASE|(API|ACCESS|SECRET|PRIVATE|AUTH)_?KEY|AUTH_STRING)|PASSWORD|PASSWD)$",
    re.IGNORECASE,
)


class ReachSettings(BaseSettings):
    """The destination of a job's loopback, from the variable `…LOOPBACK_API`."""

    model_config = SettingsConfigDict(env_prefix=BRAND.env_prefix)

    loopback_api: bool = False  # jobs share this machine's network, or have a proxy to the API


def passed_on(env: Env, chosen: set[str]) -> dict[str, str | None]:
    """Return the user's variables, those always passed on, and the secrets."""
    names = chosen | PASSED_ON | {*SECRETS}
    return {name: value for name, value in env.items() if name in names}


def plain(env: Env) -> dict[str, str]:
    return {name: value for name, value in env.items() if value is not None and name not in SECRETS}


def secrets(env: Env) -> dict[str, str]:
    return {name: value for name in SECRETS if (value := env.get(name)) and value not in EMPTY}


def credential_fault(env: Env) -> str | None:
    name = next((name for name, value in env.items() if value and _is_credential(name)), None)
    return name and (
        f"env sets {name}: anyone who can describe the job can read it. Give the job a role, or "
        "let its code read a secret of the cloud."
    )


def _is_credential(name: str) -> bool:
    return name not in SECRETS and (name in CREDENTIALS or bool(CREDENTIAL_NAME.search(name)))


def password_fault(url: str | None) -> str | None:
    """Return an error, which does not quote a password."""
    try:
        parts = urlsplit(url or "")
        if url and (parts.scheme not in ("http", "https") or not parts.hostname):
            return "PREFECT_API_URL is not the address of an API: write https://HOST/api."
    except ValueError as error:
        return f"PREFECT_API_URL is not the address of an API ({error}): write https://HOST/api."
    if "@" not in parts.netloc:
        return None
    return "PREFECT_API_URL contains a user or a password: set PREFECT_API_AUTH_STRING instead."


def reach_fault(url: str | None) -> str | None:
    if fault := password_fault(url):
        return fault
    if not is_loopback(urlsplit(url or "").hostname or "") or ReachSettings().loopback_api:
        return None
    return (
        f"PREFECT_API_URL is {url}: jobs on other machines cannot reach this address. Set one "
        "that they can reach, such as Prefect Cloud's."
    )


def is_loopback(host: str) -> bool:
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _address(name)
    if address is None:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))  # 127.1, as resolvers read it
    except (OSError, ValueError):
        return None
