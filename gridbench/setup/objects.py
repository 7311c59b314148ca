"""A cloud's work pools, variables and deployments on a Prefect API."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gridbench.run.session import deploy_entries, deployment_entries
from gridbench.setup.note import CloudNote, read_notes
from gridbench.setup.prefect_api import PrefectApi
from infra.local.api import process_template
from tasks.errors import GridbenchError
from tasks.planning.limits import LOCAL_POOL

if TYPE_CHECKING:  # Prefect is slow to import
    from prefect.client.orchestration import SyncPrefectClient

Say = Callable[[str], None]
OF_BENCH = (
    "quick",
    "full",
    "script",
    "command",
    "local",
)  # entries of prefect.yaml that runs on any machine need


def ensure_pools(api: PrefectApi, note: CloudNote, template: Mapping[str, Any], say: Say) -> None:
    with api.client() as client:
        _ensure_pool(client, note, note.pool, note.kind, dict(template), say)
        _ensure_pool(client, note, LOCAL_POOL, "process", process_template(), say)


def _ensure_pool(
    client: "SyncPrefectClient", note: CloudNote, name: str, kind: str, template: dict[str, Any], say: Say
) -> None:
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectNotFound

    try:
        pool = client.read_work_pool(name)
    except ObjectNotFound:
        client.create_work_pool(WorkPoolCreate(name=name, type=kind, base_job_template=template))
        note.work_pools.append(name)
        note.write()
        say(f"work pool {name} of type {kind}: created")
        return
    if pool.type != kind:
        raise GridbenchError(
            f"work pool {name} is of type {pool.type}, {kind} is needed: delete it, or take another API"
        )
    if name == note.pool and pool.base_job_template != template:
        client.update_work_pool(name, WorkPoolUpdate(base_job_template=template))
        say(f"work pool {name}: its form is filled in for this cloud")
    else:
        say(f"work pool {name}: is there")


def ensure_images(api: PrefectApi, note: CloudNote, say: Say) -> None:
    from prefect.client.schemas.actions import VariableCreate, VariableUpdate

    with api.client() as client:
        for flavour, reference in note.images.items():
            name = f"gridbench_image_{flavour}"
            variable = client.read_variable_by_name(name)
            if variable is None:
                client.create_variable(VariableCreate(name=name, value=reference))
                note.variables.append(name)
                note.write()
            elif variable.value != reference:
                client.update_variable(VariableUpdate(name=name, value=reference))
            say(f"variable {name}: {reference}")


def entries_of(pool: str) -> list[dict[str, Any]]:
    return [
        entry
        for entry in deployment_entries()
        if entry["name"] in OF_BENCH or entry["work_pool"]["name"] == pool
    ]


def full_name(entry: Mapping[str, Any]) -> str:
    return f"{entry['entrypoint'].rpartition(':')[2]}/{entry['name']}"


def ensure_deployments(api: PrefectApi, note: CloudNote, say: Say) -> None:
    entries = entries_of(note.pool)
    with api.client() as client:
        absent = [name for name in map(full_name, entries) if not _deployment_id(client, name)]
    note.deployments += [name for name in absent if name not in note.deployments]
    note.write()
    deploy_entries([entry["name"] for entry in entries], os.environ | api.environment)
    say(f"deployments {', '.join(map(full_name, entries))}: as in prefect.yaml")


def _deployment_id(client: "SyncPrefectClient", name: str) -> Any:
    from prefect.exceptions import ObjectNotFound

    try:
        return client.read_deployment_by_name(name).id
    except ObjectNotFound:
        return None


def take_away(api: PrefectApi, note: CloudNote, say: Say) -> None:
    _leave_to_others(note)
    try:
        with api.client() as client:
            _delete_all(client, note, say)
    finally:
        note.write()
    note.remove()


def _leave_to_others(note: CloudNote) -> None:
    """Move shared objects, all but pool and lane, to another cloud's note for the same API."""
    others = [other for other in read_notes() if other.cloud != note.cloud and other.api_url == note.api_url]
    if not others:
        return
    heir = others[0]
    shared = (
        (note.work_pools, heir.work_pools, LOCAL_POOL),
        *((note.deployments, heir.deployments, full_name(entry)) for entry in entries_of("")),
        *((note.variables, heir.variables, name) for name in [*note.variables]),
    )
    for ours, theirs, name in shared:
        if name in ours:
            ours.remove(name)
            theirs.append(name)
    heir.write()
    note.write()


def _delete_all(client: "SyncPrefectClient", note: CloudNote, say: Say) -> None:
    from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
    from prefect.exceptions import ObjectNotFound

    for name in [*note.deployments]:
        if identity := _deployment_id(client, name):
            client.delete_deployment(identity)
        note.deployments.remove(name)
        say(f"deleted deployment {name}")
    local = WorkPoolFilter(name=WorkPoolFilterName(any_=[LOCAL_POOL]))
    if LOCAL_POOL in note.work_pools and (others := client.read_deployments(work_pool_filter=local)):
        note.work_pools.remove(LOCAL_POOL)
        say(f"left work pool {LOCAL_POOL}: {', '.join(sorted(it.name for it in others))} of others run on it")
    for names, kind, delete in (
        (note.work_pools, "work pool", client.delete_work_pool),
        (note.variables, "variable", client.delete_variable_by_name),
    ):
        for name in [*names]:
            with suppress(ObjectNotFound):
                delete(name)
            names.remove(name)
            say(f"deleted {kind} {name}")
