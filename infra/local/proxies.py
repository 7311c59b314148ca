"""Variables for proxies: requests to a stack's server never use one."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from infra.workers.processes.processes import without_proxy

CERTIFICATES = "SSL_CERT_FILE"  # every client of httpx reads it, needed or not
PROXIES = ("http_proxy", "https_proxy", "all_proxy")  # also in capitals; what clients read for a URL


def proxies(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.lower() in PROXIES and value}


def direct(environ: Mapping[str, str]) -> dict[str, str]:
    return without_proxy(environ) if proxies(environ) else {}


def unusable_proxy(environ: Mapping[str, str]) -> str:
    """Return a sentence about a SOCKS proxy, which Prefect's client can't even ignore."""
    if importlib.util.find_spec("socksio"):
        return ""
    for name, value in proxies(environ).items():
        if value.lower().startswith("socks"):
            scheme = value.partition(":")[0]
            return (
                f"{name} names a proxy by {scheme}://, which Prefect's client can't use here: unset it for gridbench, "
                "or install the package socksio"
            )
    return ""


def missing_certificates(environ: Mapping[str, str]) -> str:
    named = environ.get(CERTIFICATES)
    if not named or Path(named).exists():
        return ""
    return f"{CERTIFICATES} names {named}, which does not exist: correct it, or unset it for gridbench"
