"""Which machines a run measures on, and which of them is its baseline."""

from collections.abc import Sequence

from tasks.errors import GridbenchError
from tasks.planning.channel import Version
from tasks.planning.cluster import Cluster, expand, multiplied
from tasks.planning.hardware import Hardware, load_hardware


def machines_of(
    hardware: Sequence[str], cluster: Cluster | None, boxes: int, version: Version | None = None
) -> list[Hardware]:
    """The machines that are asked for, all of them fit to be measured on, each with the version, if any.

    Raises:
        GridbenchError: there is none, or one is unknown, not supported or can't be had as asked.
    """
    if cluster and boxes != 1:
        raise GridbenchError(f"boxes={boxes} is for rented machines; a cluster file names its boxes itself")
    named = [] if cluster else [load_hardware(name) for name in dict.fromkeys(hardware)]
    machines = expand(cluster) if cluster else multiplied(named, boxes)
    if not machines:
        raise GridbenchError("hardware is empty; name at least one machine, such as local-cpu")
    for machine in machines:
        if machine.unsupported:
            raise GridbenchError(f"hardware {machine.name} is not supported: {machine.unsupported}")
    return [with_version(machine, version) for machine in machines] if version else machines


def with_version(machine: Hardware, version: Version) -> Hardware:
    """The machine with that version in place of its own image or command.

    Raises:
        GridbenchError: the version is an image, and the machine measures in none.
    """
    if version.command:
        return machine.model_copy(update={"command": version.command})
    if "image" not in machine.job_variables:
        raise GridbenchError(
            f"hardware {machine.name} measures in no image (job_variables has none): bring its versions with "
            "--command-template"
        )
    variables = {**machine.job_variables, "image": version.image}
    return machine.model_copy(update={"job_variables": variables})


def baseline_of(wanted: str | None, machines: Sequence[Hardware]) -> str:
    """The machine of that name, or the first; of boxes the one of that name, or the first of that hardware.

    Raises:
        GridbenchError: none of the machines is meant.
    """
    names = [machine.name for machine in machines]
    if not wanted or wanted in names:
        return wanted or names[0]
    for machine in machines:
        if machine.shape and wanted in (machine.shape, machine.name.removeprefix(f"{machine.shape}.")):
            return machine.name
    raise GridbenchError(f"baseline {wanted!r} is not among the hardware of this run: {', '.join(names)}")
