"""The emulated Lambda account: instances that live by the clock, and SSH keys."""

import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from . import reasons
from .control import REGIONS, TYPES, Control, Fate
from .machines import Machines

ENDED = ("terminating", "terminated")


class Refused(Exception):
    def __init__(self, answer: reasons.Answer, **gaps: str) -> None:
        super().__init__(answer.code)
        self.status = answer.status
        self.error = error_of(answer, **gaps)


def error_of(answer: reasons.Answer, **gaps: str) -> dict[str, str]:
    texts = {"code": answer.code, "message": answer.message, "suggestion": answer.suggestion}
    return {name: text.format(**gaps) for name, text in texts.items() if text is not None}


def instance_type(name: str, control: Control) -> dict[str, Any]:
    gpu, gpus, _ = TYPES[name]
    return {
        "name": name,
        "description": f"{gpus}x {gpu}",
        "gpu_description": gpu,
        "price_cents_per_hour": control.prices[name],
        "specs": {"vcpus": 30 * gpus, "memory_gib": 200 * gpus, "storage_gib": 1400 * gpus, "gpus": gpus},
    }


@dataclass(eq=False)
class Instance:
    """One instance; its thread leads it from launch to end."""

    request: dict[str, Any]
    public_key: str
    control: Control
    machines: Machines
    fate: Fate | None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    status: str = "booting"
    ip: str | None = None
    born: float = field(default_factory=time.monotonic)
    ending: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    stopped: bool = False
    closing: threading.Event = field(default_factory=threading.Event)  # nothing takes its time any more

    @property
    def place(self) -> tuple[str, str]:
        return self.request["instance_type_name"], self.request["region_name"]

    @property
    def listed(self) -> bool:
        return time.monotonic() - self.born >= self.control.listed_after_s

    def live(self, gone: Any) -> None:
        kind = self.fate.kind if self.fate else ""
        boot_s = self.control.boot_s
        events = [(boot_s / 2, self._get_ip), (boot_s, self._activate)]
        if kind in ("unhealthy", "preempted"):
            events.append((self.fate.after_s, self._strike))
        for after_s, event in sorted(events, key=lambda pair: pair[0]):
            if self.ending.wait(max(self.born + after_s - time.monotonic(), 0)):
                break
            event()
            if self.status in ("unhealthy", "preempted"):
                break
        self.ending.wait()
        self._stop()
        self.closing.wait(self.control.terminating_s)
        self.status = "terminated"
        self.closing.wait(self.control.terminated_s)
        gone(self)

    def _get_ip(self) -> None:
        kind = self.fate.kind if self.fate else ""
        if kind == "mute":
            self.ip = "127.255.255.254"
        elif kind != "no_ip":
            try:
                self.ip = self.machines.start(self.id, self.request, self.public_key)
            except Exception as error:
                print(f"the machine of {self.id} did not start: {error}", file=sys.stderr)
                self._become("unhealthy")

    def _activate(self) -> None:
        if not (self.fate and self.fate.kind == "never_active"):
            self._become("active")

    def _strike(self) -> None:
        if self._become(self.fate.kind) and self.status == "preempted":
            self._stop()

    def _stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.machines.stop(self.id)

    def _become(self, status: str) -> bool:
        with self.control.lock:
            if self.status not in ENDED:
                self.status = status
                return True
            return False

    def shown(self) -> dict[str, Any]:
        kind, region = self.place
        blocked = {"available": False, "reason_code": "vm-is-terminating"}
        action = blocked if self.status in ENDED else {"available": True}
        row = {
            "id": self.id,
            "name": self.request.get("name"),
            "ip": self.ip,
            "private_ip": self.ip and "10.0.2.100",
            "status": self.status,
            "ssh_key_names": self.request["ssh_key_names"],
            "file_system_names": [],
            "region": {"name": region, "description": REGIONS[region]},
            "instance_type": instance_type(kind, self.control),
            "hostname": self.request.get("hostname") or self.ip,
            "jupyter_token": "secret_jupyter_token",
            "actions": dict.fromkeys(("migrate", "rebuild", "restart", "cold_reboot", "terminate"), action),
            "tags": self.request.get("tags", []),
        }
        return {name: value for name, value in row.items() if value is not None}


class Account:
    def __init__(self, control: Control, machines: Machines) -> None:
        self.control, self.machines = control, machines
        self.instances: dict[str, Instance] = {}
        self.launched: list[Instance] = []  # also those that are gone
        self.keys: dict[str, dict[str, str]] = {}

    def running(self) -> list[Instance]:
        with self.control.lock:
            return [i for i in self.instances.values() if i.status not in ENDED]

    def key_names(self) -> list[str]:
        with self.control.lock:
            return [key["name"] for key in self.keys.values()]

    def offers(self) -> dict[str, Any]:
        capacity, refusing = self.control.capacity, self.control.refusing
        return {
            name: {
                "instance_type": instance_type(name, self.control),
                "regions_with_capacity_available": [
                    {"name": region, "description": REGIONS[region]}
                    for region in REGIONS
                    if capacity.get((name, region), 0) > 0 or (name, region) in refusing
                ],
            }
            for name in self.control.prices
        }

    def launch(self, request: dict[str, Any], public_key: str) -> dict[str, Any]:
        place = (request["instance_type_name"], request["region_name"])
        if len(self.running()) >= self.control.quota:
            raise Refused(reasons.QUOTA)
        if self.control.capacity.get(place, 0) < 1 or place in self.control.refusing:
            raise Refused(reasons.NO_CAPACITY)
        self.control.capacity[place] -= 1
        fate = self.control.fates.popleft() if self.control.fates else None
        instance = Instance(request, public_key, self.control, self.machines, fate)
        self.instances[instance.id] = instance
        self.launched.append(instance)
        instance.thread = threading.Thread(target=instance.live, args=(self._gone,), daemon=True)
        instance.thread.start()
        return {"instance_ids": [instance.id]}

    def _gone(self, instance: Instance) -> None:
        with self.control.lock:
            self.instances.pop(instance.id, None)
            self.control.capacity[instance.place] = self.control.capacity.get(instance.place, 0) + 1

    def find(self, instance_id: str) -> Instance:
        found = self.instances.get(instance_id)
        if found is None or not found.listed:
            raise Refused(reasons.NO_INSTANCE)
        return found

    def terminate(self, instance_ids: list[str]) -> dict[str, Any]:
        found = [self.find(instance_id) for instance_id in instance_ids]
        if self.control.deaf > 0:
            self.control.deaf -= 1
            return {"terminated_instances": []}
        for instance in found:
            self.end(instance)
        return {"terminated_instances": [instance.shown() for instance in found]}

    def preempt(self, instance: Instance) -> None:
        instance.fate = Fate("preempted")
        instance._strike()

    def end(self, instance: Instance) -> None:
        with self.control.lock:
            if instance.status not in ENDED:
                instance.status = "terminating"
            instance.ending.set()

    def add_key(self, name: str, public_key: str) -> dict[str, str]:
        if name in self.key_names():
            raise Refused(reasons.DUPLICATE, name=name)
        key = {"id": uuid.uuid4().hex, "name": name, "public_key": public_key}
        self.keys[key["id"]] = key
        return key

    def remove_key(self, key_id: str) -> dict[str, str]:
        if self.keys.pop(key_id, None) is None:
            raise Refused(reasons.INVALID, message="Specified SSH key does not exist.")
        return {}

    def close(self) -> None:
        for instance in list(self.instances.values()):
            instance.closing.set()
            self.end(instance)
        for instance in list(self.instances.values()):
            if instance.thread:
                instance.thread.join(60)
