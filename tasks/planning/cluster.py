"""Several boxes of one kind: those that a cluster file names, or copies of a machine that is rented."""

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from tasks.errors import GridbenchError
from tasks.planning.hardware import RENTED_POOL, Hardware, load_hardware
from tasks.schema import Strict, hint, read_mapping, validated

SSH_PORT = 22
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
Word = Annotated[str, Field(min_length=1, pattern=r"^[^\x00\n]+$")]


class ClusterBox(Strict):
    """One box of a cluster; what is None is left to the `ssh` work pool.

    Attributes:
        name: lower-case letters, digits and dashes; it becomes part of the machine's name.
        address: name or IP address.
        key: path of a private key on the worker's machine, or `block:NAME`, a Secret block; the cluster's
            own by default.
        host_key: the box's public host key; as in the worker's known_hosts by default.
    """

    name: str
    address: str
    user: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")] | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    key: Word | None = None
    host_key: Annotated[str, Field(pattern=r"^(ssh|ecdsa)-[a-z0-9-]+ [A-Za-z0-9+/=]+( [^\n]*)?$")] | None = (
        None
    )

    @model_validator(mode="after")
    def _can_be_named_and_reached(self) -> Self:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"name is {self.name!r}: it has lower-case letters, digits and dashes between")
        if not HOST.fullmatch(self.address) and not _is_ip(self.address):
            raise ValueError(
                f"address is {self.address!r}: it is a name or an IP address; user and port have keys of "
                "their own"
            )
        return self

    @property
    def place(self) -> tuple[str, int]:
        """What no two boxes share: address and port."""
        return self.address.lower(), self.port or SSH_PORT


class Cluster(Strict):
    """Boxes of one kind that are measured side by side: one YAML file.

    Attributes:
        hardware: what each of them is, by the name of its hardware file.
        key: the private key of every box that has none of its own.
        baseline: name of the box that speedups are taken against; the first by default.
    """

    hardware: str
    boxes: tuple[ClusterBox, ...]
    key: Word | None = None
    baseline: str | None = None

    @model_validator(mode="after")
    def _has_boxes_that_differ(self) -> Self:
        names = [box.name for box in self.boxes]
        if len(names) < 2:
            raise ValueError(f"boxes has {len(names)}: it takes 2 or more to compare them")
        for place, box in enumerate(self.boxes):
            for other in self.boxes[:place]:
                if box.name == other.name:
                    raise ValueError(f"boxes has {box.name!r} twice: each box has a name of its own")
                if box.place == other.place:
                    where = "{}, port {}".format(*box.place)
                    raise ValueError(f"boxes {other.name} and {box.name} are one: both are at {where}")
        if self.baseline is not None and self.baseline not in names:
            raise ValueError(f"baseline {self.baseline!r} is none of its boxes; {hint(self.baseline, names)}")
        return self


def load_cluster(path: Path) -> Cluster:
    """Read a cluster file.

    Raises:
        GridbenchError: it can't be read or has a mistake.
    """
    return validated(Cluster, read_mapping(path), f"cluster file {path.name}")


def expand(cluster: Cluster) -> list[Hardware]:
    """A piece of hardware for each box, at the price of what they are.

    Raises:
        GridbenchError: its hardware is unknown or is not reached over SSH.
    """
    try:
        shape = load_hardware(cluster.hardware)
    except GridbenchError as error:
        raise GridbenchError(f"cluster: {error}") from None
    if shape.pool != RENTED_POOL:
        raise GridbenchError(
            f"cluster: hardware {shape.name} is measured by pool {shape.pool!r}; boxes with addresses are "
            f"measured by pool {RENTED_POOL!r}"
        )
    return [_box(shape, box.name, [_host(box, cluster.key)]) for box in cluster.boxes]


def copies(hardware: Hardware, boxes: int) -> list[Hardware]:
    """A rented machine as so many boxes, each of which is rented for itself; one is the machine as it is."""
    if boxes == 1:
        return [hardware]
    return [_box(hardware, str(number)) for number in range(1, boxes + 1)]


def multiplied(machines: Sequence[Hardware], boxes: int) -> list[Hardware]:
    """Machines of which each that is rented stands for so many boxes; the others are there once.

    Raises:
        GridbenchError: there is no such number, or none of the machines is rented.
    """
    if boxes < 1:
        raise GridbenchError(f"boxes={boxes} must be 1 or more")
    if boxes > 1 and not any(machine.rent for machine in machines):
        names = ", ".join(machine.name for machine in machines)
        raise GridbenchError(
            f"boxes={boxes} is how many to rent of each machine, and none of {names} is rented; boxes of "
            "your own are named in a cluster file"
        )
    return [box for machine in machines for box in copies(machine, boxes if machine.rent else 1)]


def _box(shape: Hardware, name: str, hosts: list[dict[str, Any]] | None = None) -> Hardware:
    """One box of a shape: rented, or there, at its hosts. Boxes share no computer, so no `box`."""
    told = {"name": f"{shape.name}.{name}", "title": f"{shape.title}, box {name}", "shape": shape.name}
    there = {"rent": None, "job_variables": {**shape.job_variables, "hosts": hosts}} if hosts else {}
    return shape.model_copy(update={**told, "box": None, **there})


def _host(box: ClusterBox, key: str | None) -> dict[str, Any]:
    """A box as an entry of `hosts`, a job variable of `ssh` work pools."""
    found = box.model_dump(exclude={"name"}) | {"key": box.key or key}
    return {name: value for name, value in found.items() if value is not None}


def _is_ip(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True
