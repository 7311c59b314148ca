"""Requests as the API document demands them; a stricter emulator finds more errors."""

import base64
import binascii
import re
from typing import Any

import yaml

from . import reasons
from .account import Refused
from .control import REGIONS, TYPES

LAUNCH = {
    "region_name": str,
    "instance_type_name": str,
    "ssh_key_names": list,
    "file_system_names": list,
    "file_system_mounts": list,
    "hostname": str,
    "name": str,
    "image": dict,
    "user_data": str,
    "tags": list,
    "firewall_rulesets": list,
}
NEEDED = ("region_name", "instance_type_name", "ssh_key_names")
TAG_KEY = re.compile(r"[a-z][a-z0-9-:]+")
HOSTNAME = re.compile(r"[a-z0-9][0-9a-z-]{0,62}")
KEY_TYPES = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256")


def demand(right: bool, message: str) -> None:
    if not right:
        raise Refused(reasons.INVALID, message=message)


def fields(body: Any, known: dict[str, type], needed: tuple[str, ...]) -> dict[str, Any]:
    demand(isinstance(body, dict), "The body is no JSON object.")
    for name in needed:
        demand(name in body, f"{name} is missing.")
    for name, value in body.items():
        demand(name in known, f"{name} is unknown.")
        demand(isinstance(value, known[name]), f"{name} is of the wrong type.")
    return body


def launch(body: Any, key_names: list[str]) -> dict[str, Any]:
    fields(body, LAUNCH, NEEDED)
    demand(len(body["ssh_key_names"]) == 1, "Exactly one SSH key must be specified.")
    demand(len(body.get("name", "")) <= 64, "name is too long.")
    demand(HOSTNAME.fullmatch(body.get("hostname", "a")) is not None, "hostname does not match its pattern.")
    tags(body.get("tags", []))
    user_data(body.get("user_data", ""))
    for what, name, known in (
        ("Region", body["region_name"], REGIONS),
        ("Instance type", body["instance_type_name"], TYPES),
        ("SSH key", body["ssh_key_names"][0], key_names),
    ):
        if name not in known:
            raise Refused(reasons.NO_RESOURCE, what=what, name=name)
    return body


def tags(rows: list[Any]) -> None:
    for row in rows:
        fields(row, {"key": str, "value": str}, ("key", "value"))
        good = len(row["key"]) <= 55 and TAG_KEY.fullmatch(row["key"])
        demand(bool(good), f"tag key {row['key']} is not allowed.")
        demand(len(row["value"]) <= 128, f"the value of tag {row['key']} is too long.")
    demand(len({row["key"] for row in rows}) == len(rows), "a tag key is there twice.")


def user_data(text: str) -> None:
    demand(len(text.encode()) <= 1_000_000, "user_data is too large.")
    if text.startswith("#cloud-config"):
        try:
            demand(isinstance(yaml.safe_load(text), dict), "user_data is no mapping.")
        except yaml.YAMLError:
            demand(False, f"user_data is no YAML: {text}")  # repeats its input, as some servers do


def ssh_key(body: Any) -> dict[str, Any]:
    """Return a public key to add; this emulator generates none."""
    fields(body, {"name": str, "public_key": str}, ("name", "public_key"))
    demand(1 <= len(body["name"]) <= 64, "name is empty or too long.")
    demand(1 <= len(body["public_key"]) <= 4096, "public_key is empty or too long.")
    kind, _, rest = body["public_key"].partition(" ")
    try:
        blob = base64.b64decode(rest.split(" ")[0], validate=True)
    except binascii.Error:
        blob = b""
    demand(kind in KEY_TYPES and blob[4:].startswith(kind.encode()), "public_key is no SSH public key.")
    return body


def instance_ids(body: Any) -> list[str]:
    fields(body, {"instance_ids": list}, ("instance_ids",))
    ids = body["instance_ids"]
    demand(bool(ids) and all(isinstance(name, str) for name in ids), "instance_ids has no ids.")
    return ids
