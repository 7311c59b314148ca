"""gridbench alert: send a message when a night fails."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gridbench.terminal import say
from tasks.errors import GridbenchError, one_line
from tasks.planning.hardware import DEPLOYMENTS
from tasks.schema import read_mapping

Block = Annotated[str, typer.Argument(help="A notification block of the server: slack-webhook/team …")]
Off = Annotated[bool, typer.Option("--off", help="Remove the alert")]
HOW_TO_CREATE = "create one in the UI under Blocks, and name it TYPE/NAME"


def alert(block: Block, off: Off = False) -> None:
    """Create the Prefect automation that sends a message when a night fails."""
    from prefect.settings import PREFECT_API_URL  # imports Prefect, which is slow

    if not PREFECT_API_URL.value():
        raise GridbenchError("PREFECT_API_URL is not set: it names the server that sends the message")
    path = DEPLOYMENTS / "automations" / "nightly.yaml"
    _replace(read_mapping(path), path, None if off else _block_id(block), block)
    say(f"{block} gets no alerts any more" if off else f"{block} gets a message when a night fails")


def _replace(fields: dict[str, Any], path: Path, block_id: str | None, block: str) -> None:
    """Delete the automation for this block, and create it again where `block_id` is given.

    Raises:
        GridbenchError: the file has a mistake, or the server refuses.
    """
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.events import AutomationCore
    from prefect.exceptions import PrefectException

    name = f"{fields.pop('name', path.stem)}: {block}"
    action = {name: fields.pop(name, "") for name in ("subject", "body")}
    send = {"type": "send-notification", "block_document_id": block_id, **action}
    try:
        made = AutomationCore.model_validate(fields | {"name": name, "actions": [send] if block_id else []})
    except (TypeError, ValueError) as error:
        raise GridbenchError(f"{path.name} can't be read: {one_line(error)}") from None
    try:
        with get_client(sync_client=True) as client:
            for automation in client.read_automations_by_name(name):
                client.delete_automation(automation.id)
            if block_id:
                client.create_automation(made)
    except (httpx.HTTPError, PrefectException) as error:
        raise GridbenchError(f"the automation could not be created: {one_line(error)}") from None


def _block_id(block: str) -> str:
    """Return the id of a notification block of the server.

    Raises:
        GridbenchError: it has no block of that name, or the block can't send messages.
    """
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
