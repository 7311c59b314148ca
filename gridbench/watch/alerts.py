"""gridbench alert: send a message when something got worse."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gridbench.terminal import say
from tasks.errors import GridbenchError, one_line
from tasks.planning.hardware import DEPLOYMENTS
from tasks.schema import read_mapping

FOLDER = DEPLOYMENTS / "automations"


class About(StrEnum):
    """The files of the folder, each an automation."""

    NIGHTLY = "nightly"
    SLOWER = "slower"
    LOST_LANE = "lost-lane"
    SPENT_BUDGET = "spent-budget"


EVENT_TEXT = {
    About.NIGHTLY: "a night fails",
    About.SLOWER: "a case got slower",
    About.LOST_LANE: "a run loses a lane",
    About.SPENT_BUDGET: "a run stops because its budget is spent",
}
Block = Annotated[str, typer.Argument(help="A notification block of the server: slack-webhook/team …")]
What = Annotated[About, typer.Option("--about", help="A file of deployments/automations")]
On = Annotated[
    str, typer.Option("--on", help="Only for this hardware; gke-* for every name that begins with gke-")
]
Off = Annotated[bool, typer.Option("--off", help="Remove the alert")]
HOW_TO_CREATE = "create one in the UI under Blocks, and name it TYPE/NAME"


def alert(block: Block, about: What = About.NIGHTLY, on: On = "", off: Off = False) -> None:
    """Send a message when a night fails or a case gets slower."""
    from prefect.settings import PREFECT_API_URL  # imports Prefect, which is slow

    if not PREFECT_API_URL.value():
        raise GridbenchError("PREFECT_API_URL is not set; set it to the server that is to send the message")
    if on and about is About.NIGHTLY:
        raise GridbenchError(f"--on {on}: a night covers all machines; use --about slower")
    path = FOLDER / f"{about}.yaml"
    fields = read_mapping(path)
    fields["name"] = f"{fields.get('name', path.stem)}{f' on {on}' if on else ''}: {block}"
    if on:
        fields.setdefault("trigger", {})["match_related"] = {
            "prefect.resource.id": f"gridbench.hardware.{on}"
        }
    _replace(fields, path, None if off else _block_id(block))
    what = f"{EVENT_TEXT[about]}{f' on {on}' if on else ''}"
    say(f"{block} no longer gets a message when {what}" if off else f"{block} gets a message when {what}")


def _replace(fields: dict[str, Any], path: Path, block_id: str | None) -> None:
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.events import AutomationCore
    from prefect.exceptions import PrefectException

    action = {name: fields.pop(name, "") for name in ("subject", "body")}
    send = {"type": "send-notification", "block_document_id": block_id, **action}
    try:
        made = AutomationCore.model_validate(fields | {"actions": [send] if block_id else []})
    except (TypeError, ValueError) as error:
        raise GridbenchError(f"{path.name} can't be read: {one_line(error)}") from None
    try:
        with get_client(sync_client=True) as client:
            for automation in client.read_automations_by_name(fields["name"]):
                client.delete_automation(automation.id)
            if block_id:
                client.create_automation(made)
    except (httpx.HTTPError, PrefectException) as error:
        raise GridbenchError(f"the automation could not be created: {one_line(error)}") from None


def _block_id(block: str) -> str:
    from prefect.blocks.abstract import NotificationBlock
    from prefect.blocks.core import Block as PrefectBlock

    try:
        load: Any = PrefectBlock.load  # its `_sync` is missing from its signature
        loaded = load(block, _sync=True)
    except Exception as error:  # blocks raise whatever their libraries do
        raise GridbenchError(
            f"block {block!r} is unknown to this server; {HOW_TO_CREATE} ({one_line(error, 160)})"
        ) from None
    if not isinstance(loaded, NotificationBlock):
        raise GridbenchError(f"block {block!r} can't send messages: {HOW_TO_CREATE}")
    return str(loaded._block_document_id)
