"""The steps of `up` and `down` for every cloud."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gridbench.machines.cloud import Cloud
from gridbench.setup import image, objects
from gridbench.setup.note import CloudNote, read_note
from gridbench.setup.prefect_api import PrefectApi, check_answers, notes_on, reachable_api
from gridbench.terminal import say
from infra.errors import InfraError
from tasks.errors import GridbenchError


def begin(cloud: Cloud, project: str, pool: str, kind: str) -> tuple[PrefectApi, CloudNote]:
    """Return a cloud's API and note; create nothing."""
    api = reachable_api(cloud.service)
    new = CloudNote(cloud=cloud.name, project=project, api_url=api.url, pool=pool, kind=kind)
    note = read_note(cloud.name) or new
    if note.project != project:
        raise GridbenchError(
            f"{cloud.name} was made ready as {note.project}: first {cloud.command('down')}, or --stack-only"
        )
    if note.api_url != api.url:
        raise GridbenchError(
            f"{cloud.name} was made ready for the Prefect API at {note.api_url}, and Prefect's settings name "
            f"{api.url}: choose that profile again (`prefect profile use`), or first {cloud.command('down')}"
        )
    check_answers(api)
    return api, note


def settle(cloud: Cloud, note: CloudNote, place: str) -> None:
    """Note the place of a cloud; refuse another one, in which `down` would find nothing."""
    if note.place not in ("", place):
        raise GridbenchError(
            f"{cloud.name} was made ready in {note.place}, and this is {place}: "
            f"choose that one again, or first {cloud.command('down')} there"
        )
    note.place = place


def show_steps(cloud: Cloud, api: PrefectApi, note: CloudNote, steps: Sequence[str]) -> None:
    say(f"{cloud.command('up')} creates these, unless they exist already:")
    deployments = ", ".join(objects.full_name(entry) for entry in objects.entries_of(note.pool))
    here = f"at {api.url}: work pools {note.pool} and local, variables, deployments {deployments}: 0 USD"
    for number, step in enumerate([*steps, here], 1):
        say(f"  {number}. {step}")
    say(f"{cloud.command('down')} takes it away again. Workers run here, only while `gridbench run` does.")
    for sentence in notes_on(api):
        say(f"Note: {sentence}.")


def image_step(names: Sequence[str], published: Mapping[str, str], note: CloudNote, repository: str) -> str:
    if useless := published.keys() - {*names}:
        raise GridbenchError(
            f"--image {min(useless)}=… is for none of these machines: they need {', '.join(names)}"
        )
    absent = image.to_build(names, published, note)
    if not absent:
        return f"images of flavours {', '.join(names)}: there"
    sizes = {"cpu": "1.5 GB", "cuda12": "7 GB", "cuda13": "7 GB"}
    each = ", ".join(f"{name} (about {sizes[name]})" for name in absent)
    return (
        f"images of flavours {each}: built here, pushed to {repository}: "
        f"{image.STORAGE_USD:.2f} USD a GB and month, 0 USD with --image FLAVOUR=REFERENCE"
    )


@contextmanager
def told_on_stop(cloud: Cloud, left: Callable[[], str]) -> Iterator[None]:
    """Print after Ctrl-C or an error the existing objects, and how to continue or delete them."""
    try:
        yield
    except (KeyboardInterrupt, GridbenchError, InfraError):
        say(f"stopped: {left()}; {cloud.command('up')} goes on from here, {cloud.command('down')} deletes it")
        raise


def finish(api: PrefectApi, note: CloudNote, template: Mapping[str, Any]) -> None:
    objects.ensure_images(api, note, say)
    objects.ensure_pools(api, note, template, say)
    objects.ensure_deployments(api, note, say)


def end(cloud: Cloud, project: str, place: str) -> int:
    """Delete the objects in a cloud's note; return the exit code, 1 if something stays.

    `place` was searched for the deleted stack or cluster, `project`.
    """
    note = read_note(cloud.name)
    if note is None or note.project != project:
        return 0
    if note.place and not note.place.endswith(place):  # a whole project was searched, or one zone
        say(
            f"but {cloud.name} was set up in {note.place}, which was not checked: {cloud.command('down')} "
            "with the credentials and options that it was made with"
        )
        return 1
    if not (note.work_pools or note.deployments or note.variables):
        note.remove()
        return 0
    try:
        api = reachable_api(cloud.service)
        if api.url != note.api_url:
            raise GridbenchError(f"Prefect's settings name {api.url}")
        objects.take_away(api, note, say)
    except GridbenchError as error:
        names = ", ".join([*note.work_pools, *note.deployments, *note.variables])
        say(f"left at {note.api_url}: {names} ({error}); run {cloud.command('down')} again")
        return 1
    return 0
