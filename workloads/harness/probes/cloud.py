"""This machine's place in a cloud and its purchase, by EC2's metadata."""

import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workloads.harness.probes.cpu import read_text

ENDPOINT = "AWS_EC2_METADATA_SERVICE_ENDPOINT"  # the name that AWS's SDKs have for another address
DISABLED = "AWS_EC2_METADATA_DISABLED"
ADDRESS = "http://169.254.169.254"
HEADER = "X-aws-ec2-metadata-token"
TIMEOUT_S = 1.0
TOKEN_TTL_S = 60
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html
PATHS = {
    "instance_type": "instance-type",
    "instance_id": "instance-id",
    "zone": "placement/availability-zone",
    "purchase": "instance-life-cycle",
}
LONGEST = 1024  # bytes; the token is the longest, with some 60
_OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy knows this address


def cloud(root: Path, environ: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Ask EC2 about this machine by IMDSv2; return facts, and why others are missing.

    `instance_type`, `instance_id`, `zone`, and `purchase`: `on-demand`, `spot` or another of EC2's words.
    Asks only if the firmware names EC2 or the environment another address, so that other machines do not
    wait.
    """
    facts: dict[str, Any] = dict.fromkeys(PATHS)
    why = _no_need(root, environ)
    if not why:
        base = f"{environ.get(ENDPOINT) or ADDRESS}".rstrip("/") + "/latest"
        try:
            token = _ask(f"{base}/api/token", {f"{HEADER}-ttl-seconds": str(TOKEN_TTL_S)}, "PUT")
            for name, path in PATHS.items():
                facts[name] = _ask(f"{base}/meta-data/{path}", {HEADER: token})
        except (OSError, ValueError) as error:  # a hop limit of 1 keeps containers from it, for one
            why = f"instance metadata does not answer: {error}"
    return facts, {name: why for name, value in facts.items() if not value}


def _no_need(root: Path, environ: Mapping[str, str]) -> str:
    if environ.get(DISABLED, "").lower() == "true":
        return f"{DISABLED} is set"
    vendor = read_text(root / "sys/class/dmi/id/sys_vendor")[0].strip()
    return "" if environ.get(ENDPOINT) or vendor == "Amazon EC2" else "not on EC2"


def _ask(url: str, headers: Mapping[str, str], method: str = "GET") -> str:
    request = urllib.request.Request(url, headers=dict(headers), method=method)
    with _OPEN.open(request, timeout=TIMEOUT_S) as answer:
        text = bytes(answer.read(LONGEST + 1)).decode("ascii", "replace").strip()
    if not text or len(text) > LONGEST or not text.isprintable():
        raise ValueError(f"{url} answers {text[:60]!r}")
    return text
