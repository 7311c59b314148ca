"""The environments of the server and of a worker."""

import os
from collections.abc import Collection
from pathlib import Path

from infra.local.access import auth_string
from infra.local.proxies import direct
from infra.local.supervisor import MARK, ROLE

SLOW_LOOPS = (
    "CLEANUP_RECONCILER_LOOP",
    "FOREMAN_LOOP",
    "LATE_RUNS_LOOP",
    "PAUSE_EXPIRATIONS_LOOP",
    "REPOSSESSOR_LOOP",
)
"""Services that would poll an almost empty database every 5 to 15 s while the CPU is measured."""

SERVER = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    # a run that waits for another run of its deployment retries this soon after its end, not after 30 s
    "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "3",
    # 1000 task runs are in the database 5 s after their flow's end, not 37, for a third of the CPU time
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "100",
    **{f"PREFECT_SERVER_SERVICES_{loop}_SECONDS": "30" for loop in SLOW_LOOPS},
}

WORKER = {
    # CPU of server and worker, in % of a core: 3.8 at 1 s, 2.4 at 3 s and 1.8 at Prefect's default of 10 s
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    "PREFECT_CLIENT_MAX_RETRIES": "8",  # enough for a restart of the server
}


def certificate_file(state: Path) -> Path:
    """Return the file that clients read in place of all certificates.

    Reading those takes 60 ms of CPU each time, 30 times in one `prefect deploy`.
    """
    return state / "prefect" / "nobody.pem"


def client_environment(state: Path, api_url: str) -> dict[str, str]:
    """Return the settings that connect a process to the stack, with its files in `state`, not in ~/.prefect."""
    home = state / "prefect"
    return {
        "PREFECT_HOME": str(home),
        "PREFECT_PROFILES_PATH": str(home / "profiles.toml"),
        "PREFECT_API_URL": api_url,
        "PREFECT_API_AUTH_STRING": auth_string(state),
        "PREFECT_API_SSL_CERT_FILE": str(certificate_file(state)),
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "PREFECT_CLI_PROMPT": "false",
        "DO_NOT_TRACK": "1",
        **direct(os.environ),
    }


def server_environment(state: Path, api_url: str) -> dict[str, str]:
    """Return the settings of the server: it requires the auth string, and has no CSRF tokens.

    Tokens would add nothing, because browsers do not send the string by themselves, and of two simultaneous
    requests for one, both can be refused for good.
    """
    return SERVER | {
        "PREFECT_SERVER_API_AUTH_STRING": auth_string(state),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": api_url.removesuffix("/api"),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{state / 'prefect.db'}",
    }


def service_environment(
    state: Path, api_url: str, role: str, withheld: Collection[str] = ()
) -> dict[str, str]:
    theirs = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith("PREFECT_") and name not in withheld
    }
    ours = client_environment(state, api_url)
    if role == "server":
        ours |= server_environment(state, api_url)
    else:
        ours |= WORKER
    marks = {MARK: str(state), ROLE: role}
    return theirs | ours | marks | {"PREFECT_LOGGING_COLORS": "false", "PYTHONUNBUFFERED": "1"}
