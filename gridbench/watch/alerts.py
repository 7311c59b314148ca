"""gridbench alert: who is told when a night has found something slower."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gridbench.terminal import say
from tasks.errors import GridbenchError, one_line
from tasks.planning.hardware import DEPLOYMENTS
from tasks.schema import read_mapping

Block = Annotated[str, typer.Argument(help="A notification block of the server: slack-webhook/team …")]
Off = Annotated[bool, typer.Option("--off", help="Take it away again")]
KNOWN = "make one in the UI under Blocks, and name it TYPE/NAME"


def alert(block: Block, off: Off = False) -> None:
    """Have Prefect send a message when a night ends failed: makes the automation of the repository."""
    from prefect.settings import PREFECT_API_URL  # imports Prefect, which is slow

    if not PREFECT_API_URL.value():
        raise GridbenchError("PREFECT_API_URL is not set: name the server that is to send the message")
    path = DEPLOYMENTS / "automations" / "nightly.yaml"
    _replace(read_mapping(path), path, None if off else _block_id(block), block)
    say(f"nobody is told by {block} any more" if off else f"a night that ends failed is told by {block}")


def _replace(asked: dict[str, Any], path: Path, block_id: str | None, block: str) -> None:
    """Delete the automation for this block, and make it anew where there is a block.

    Raises:
        GridbenchError: the file has a mistake, or the server does not do it.
    """
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.events import AutomationCore
    from prefect.exceptions import PrefectException

    name = f"{asked.pop('name', path.stem)}: {block}"
    action = {name: asked.pop(name, "") for name in ("subject", "body")}
    send = {"type": "send-notification", "block_document_id": block_id, **action}
    try:
        made = AutomationCore(name=name, actions=[send] if block_id else [], **asked)
    except (TypeError, ValueError) as error:
        raise GridbenchError(f"{path.name} can't be read: {one_line(error)}") from None
    try:
        with get_client(sync_client=True) as client:
            for found in client.read_automations_by_name(name):
                client.delete_automation(found.id)
            if block_id:
                client.create_automation(made)
    except (httpx.HTTPError, PrefectException) as error:
        raise GridbenchError(f"the automation was not made: {one_line(error)}") from None


def _block_id(block: str) -> str:
    """The id of a notification block that the server has.

    Raises:
        GridbenchError: it has none of that name, or it is of another kind.
    """
    from prefect.blocks.abstract import NotificationBlock
    from prefect.blocks.core import Block as PrefectBlock

    try:
        found = PrefectBlock.load(block, _sync=True)
    except Exception as error:  # blocks raise whatever their libraries do
        raise GridbenchError(
            f"block {block!r} is unknown to this server; {KNOWN} ({one_line(error, 160)})"
        ) from None
    if not isinstance(found, NotificationBlock):
        raise GridbenchError(f"block {block!r} can't send messages: {KNOWN}")
    return str(found._block_document_id)
