"""Instances with a real SSH server: boxes that take the launch's keys like cloud-init."""

import contextlib
from typing import Any

import yaml

from tests.emulators import boxes


class SshBoxes:
    """A box behind every instance, on port 22 of a separate address; `ubuntu` can log in with the key."""

    def __init__(self) -> None:
        self.boxes: dict[str, boxes.Box] = {}

    def start(self, instance_id: str, request: dict[str, Any], public_key: str) -> str:
        box = self.boxes[instance_id] = boxes.make()
        keys = yaml.safe_load(request["user_data"])["ssh_keys"]
        etc = box.folder / "etc"
        (etc / "host").write_text(keys["ed25519_private"])
        (etc / "host.pub").write_text(keys["ed25519_public"] + "\n")
        (etc / "authorized").write_text(public_key + "\n")
        box.host_key = keys["ed25519_public"]
        box.start()
        return box.address

    def stop(self, instance_id: str) -> None:
        with contextlib.suppress(KeyError):
            self.boxes.pop(instance_id).remove()
