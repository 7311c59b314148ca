"""The event sockets."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.events.clients import get_events_client, get_events_subscriber
from prefect.events.filters import EventFilter, EventNameFilter, EventResourceFilter
from prefect.events.schemas.events import Event
from prefect.exceptions import ObjectNotFound
from pydantic import ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect

from ...brand import BRAND
from .limits import BUSY, ROW_BYTES, Allowances, Refusal, spend

NOTHING = f"{BRAND.name}.nothing"  # no event has this name
PROTOCOL = "prefect"  # the WebSocket protocol whose first message carries the token
HANDSHAKE_S = 10
MOST_OWN = 50_000  # task runs and artifacts of one flow run
NOT_ALLOWED, BROKEN = 1008, 1011  # codes of a socket's end
RUN, TASK, ARTIFACT = "prefect.flow-run.", "prefect.task-run.", "prefect.artifact."
# the server itself makes the events of its states
OF_A_RUN = ("prefect.flow-run.heartbeat", "prefect.flow-run.pull-step.")
CREATED = "prefect.artifact.created"
HEARD = {"prefect.flow-run.Suspended", "prefect.flow-run.Cancelling"}  # all that an engine listens for
SET_BY_SERVER = {"id", "flow_run_id"}  # the event's resources name these fields of a task run


def subject_of(run_id: UUID, event: Event) -> str | None:
    """Return None for the flow run itself, `Refusal` for others."""
    for each in event.related:
        is_run = each.id.startswith(RUN) or each.get("prefect.resource.role") == "flow-run"
        if is_run and each.id != f"{RUN}{run_id}":
            raise Refusal(f"an event relates to {each.id[:100]}: a box can report only its own flow run")
    about = event.resource.id
    if event.event.startswith(OF_A_RUN) and about == f"{RUN}{run_id}":
        return None
    if event.event == CREATED and about.startswith(ARTIFACT):
        return about
    if not (event.event.startswith(TASK) and about.startswith(TASK)):
        raise Refusal(f"an event {event.event[:100]!r} of {about[:100]} is not one of this flow run's")
    if not any(each.id == f"{RUN}{run_id}" and each.role == "flow-run" for each in event.related):
        raise Refusal("an event of a task does not name its flow run")
    task_run = event.payload.get("task_run") or {}
    if not isinstance(task_run, dict):
        raise Refusal("an event of a task has a payload whose task_run is not an object")
    if SET_BY_SERVER & task_run.keys():
        raise Refusal("an event of a task names ids in its payload")
    return about


class OwnThings:
    """The task runs and artifacts of a flow run, as the server has them, and new ones."""

    def __init__(self, client: PrefectClient, run_id: UUID) -> None:
        self._client, self._run_id = client, run_id
        self._own: set[str] = set()

    def add(self, resource_id: str) -> None:
        if len(self._own) >= MOST_OWN:
            raise Refusal(f"this flow run has more than {MOST_OWN} task runs and artifacts", BUSY)
        self._own.add(resource_id)

    def has(self, task_id: UUID) -> bool:
        return f"{TASK}{task_id}" in self._own

    async def check_task(self, task_id: UUID) -> None:
        """Accept this flow run's or a new task run; raise `Refusal` for another's."""
        if self.has(task_id):
            return
        try:
            if (await self._client.read_task_run(task_id)).flow_run_id != self._run_id:
                raise Refusal(f"the task run {task_id} belongs to another flow run")
        except ObjectNotFound:
            pass  # a new one
        self.add(f"{TASK}{task_id}")

    async def check(self, event: Event) -> None:
        """Raise `Refusal` unless the event is about the run, its artifacts and task runs, or a new task run."""
        about = subject_of(self._run_id, event)
        if about is None or about in self._own:
            return
        if not about.startswith(TASK):
            raise Refusal(f"{about[:100]} was not created by this flow run")
        try:
            task_id = UUID(about.removeprefix(TASK))
        except ValueError:
            raise Refusal(f"{about[:100]} is not a task run") from None
        await self.check_task(task_id)


async def take_events(
    socket: WebSocket, own: OwnThings, limits: Allowances, refuse: Callable[[Refusal], Awaitable[object]]
) -> None:
    """Forward a run's own events, refuse others one by one; `Refusal` if too much comes."""
    async with get_events_client() as server:
        async for text in _texts(socket):
            spend(limits.sent_bytes, len(text) + ROW_BYTES, "bytes")
            spend(limits.events, 1, "events")
            try:
                event = Event.model_validate_json(text)
                await own.check(event)
            except ValidationError:
                await refuse(Refusal("a message on the event socket is not an event"))
            except Refusal as refusal:
                await refuse(refusal)
            else:
                await server.emit(event)


async def give_events(socket: WebSocket, run_id: UUID) -> None:
    """Forward the run's suspension and cancellation, if the box subscribes to them."""
    texts = _texts(socket)
    if (asked := await anext(texts, None)) is None:
        return
    of_this_run = EventFilter(
        event=EventNameFilter(name=sorted(HEARD & _asked_names(asked)) or [NOTHING]),
        resource=EventResourceFilter(id=[f"{RUN}{run_id}"]),
    )
    async with get_events_subscriber(filter=of_this_run, reconnect_on_clean_close=True) as events:
        forwarding = asyncio.create_task(_forward(socket, events, f"{RUN}{run_id}"))
        try:
            async for _ in texts:
                pass  # only the end of the socket matters
        finally:
            forwarding.cancel()
            await asyncio.gather(forwarding, return_exceptions=True)


async def _texts(socket: WebSocket) -> AsyncIterator[str]:
    while (message := await socket.receive())["type"] != "websocket.disconnect":
        if not isinstance(text := message.get("text"), str):
            raise Refusal("a message on the event socket is binary, and its protocol has only text")
        yield text


def _asked_names(message: str) -> set[str]:
    """Return a filter's names of events; without any, all that an engine can hear."""
    try:
        names = json.loads(message)["filter"]["event"]["name"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return HEARD
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else HEARD


async def _forward(socket: WebSocket, events: Any, resource_id: str) -> None:
    async for event in events:
        if event.resource.id == resource_id:
            await socket.send_json({"type": "event", "event": event.model_dump(mode="json")})


async def shake_hands(socket: WebSocket, knows: Callable[[str], bool]) -> None:
    """Accept a socket that has the box's token; `Refusal` without it."""
    if PROTOCOL not in socket.scope.get("subprotocols", ()):
        raise Refusal(f"the socket does not speak the protocol {PROTOCOL}")
    await socket.accept(subprotocol=PROTOCOL)
    try:
        message = json.loads(await asyncio.wait_for(socket.receive_text(), HANDSHAKE_S))
        token = str(message["token"]) if message["type"] == "auth" else ""
    except (TimeoutError, ValueError, KeyError, TypeError, RecursionError):
        token = ""
    if not knows(token):
        raise Refusal("the socket does not have the token of this flow run")
    await socket.send_json({"type": "auth_success"})


async def until_closed(serve: Awaitable[None], socket: WebSocket) -> None:
    """Serve until either side ends; the box's client reconnects if the server was away."""
    code = 1000
    try:
        await serve
    except WebSocketDisconnect:
        return
    except Refusal:
        code = NOT_ALLOWED
        raise
    except (httpx.HTTPError, OSError, TimeoutError):
        code = BROKEN
    except Exception:
        code = BROKEN
        raise
    finally:
        with contextlib.suppress(RuntimeError):
            await socket.close(code)
