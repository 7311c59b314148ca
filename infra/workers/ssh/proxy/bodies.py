"""The bodies that a flow run is allowed to send."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from prefect.client.schemas.objects import StateType
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ...base.printable import printable, printable_lines
from ...brand import BRAND
from .limits import ARTIFACT_BYTES, ROW_BYTES, TOO_LARGE, Allowances, Refusal, spend

WRONG = 422
SENTENCE = 4_000  # characters of a state's message that are forwarded
T = TypeVar("T")
Name = Annotated[str, Field(max_length=300), AfterValidator(printable)]
Text = Annotated[str, Field(max_length=100_000), AfterValidator(printable_lines)]
OWN_STATES = (  # neither scheduled again nor paused; the program that executes a bundle sets PENDING first
    *(StateType.PENDING, StateType.RUNNING, StateType.COMPLETED, StateType.FAILED, StateType.CRASHED),
    *(StateType.CANCELLING, StateType.CANCELLED),
)
FORCED = (StateType.CRASHED, StateType.CANCELLING, StateType.CANCELLED)  # which the engine forces


class Body(BaseModel):
    """A body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


class StateDetails(BaseModel):
    """The id by which the server recognizes a repeated request."""

    transition_id: UUID | None = None


class StateBody(BaseModel):
    """A state without its result, which only the box could read."""

    type: StateType
    name: Name | None = None
    message: Text | None = None
    state_details: StateDetails = StateDetails()


class SetState(Body):
    """The run's next state."""

    state: StateBody
    force: bool = False


class Policy(BaseModel):
    """The retries of the run's flow."""

    retries: Annotated[int, Field(ge=0, le=10)] | None = None
    retry_delay: Annotated[int, Field(ge=0)] | None = None
    retry_type: Literal["in_process"] | None = None


class Update(Body):
    """The engine's first update of its run; name and policy are forwarded only if boxes run any flow.

    The server would schedule a failed run with retries again, and other programs find runs by name.
    """

    name: Name | None = None
    flow_version: Name | None = None
    empirical_policy: Policy | None = None


class Artifact(Body):
    """An artifact, such as a record."""

    flow_run_id: UUID
    task_run_id: UUID | None = None
    key: Name | None = None
    type: Name | None = None
    description: Text | None = None
    data: Any = None
    metadata_: dict[str, str] | None = None


class LogLine(Body):
    """A line of the log."""

    flow_run_id: UUID
    task_run_id: UUID | None = None
    name: Name
    level: int
    message: Annotated[str, AfterValidator(printable_lines)]
    timestamp: Name


class Renewal(Body):
    """Seconds by which to renew the run's slot in a concurrency limit."""

    lease_duration: Annotated[float, Field(gt=0, le=3600)]


_LINES: TypeAdapter[list[LogLine]] = TypeAdapter(list[LogLine])


def state_body(run_id: UUID, body: bytes, limits: Allowances) -> Any:
    asked = _read(TypeAdapter(SetState), body)
    kind = asked.state.type
    if kind not in OWN_STATES:
        raise Refusal(f"a box cannot set its flow run to the state {kind.value}")
    if asked.state.message:
        asked.state.message = asked.state.message[:SENTENCE]  # it becomes a part of other sentences
    state = asked.state.model_dump(mode="json", exclude_none=True)
    return {"state": state, "force": asked.force and kind in FORCED}


def update_body(run_id: UUID, body: bytes, limits: Allowances) -> Any:
    ignored = {"name", "empirical_policy"} if BRAND.artifact_type else set()
    return _read(TypeAdapter(Update), body).model_dump(mode="json", exclude_unset=True, exclude=ignored)


def artifact_body(run_id: UUID, body: bytes, limits: Allowances) -> Any:
    if len(body) > ARTIFACT_BYTES:
        raise Refusal(f"the artifact has more than {ARTIFACT_BYTES} bytes", TOO_LARGE)
    artifact = _read(TypeAdapter(Artifact), body)
    _own(run_id, [artifact.flow_run_id], "artifact")
    listed = [artifact.key, artifact.description, artifact.metadata_]
    if BRAND.artifact_type and (artifact.type != BRAND.artifact_type or listed != [None] * 3):
        kind = f"{BRAND.artifact_type} without key, description and metadata"
        raise Refusal(f"a box can make only artifacts of type {kind}")
    spend(limits.artifacts, 1, "artifacts")
    spend(limits.sent_bytes, ROW_BYTES, "bytes")
    return artifact.model_dump(mode="json", exclude_unset=True)


def lines_body(run_id: UUID, body: bytes, limits: Allowances) -> Any:
    lines = _read(_LINES, body)
    _own(run_id, [line.flow_run_id for line in lines], "log line")
    spend(limits.lines, len(lines), "log lines")
    spend(limits.sent_bytes, ROW_BYTES * len(lines), "bytes")
    return _LINES.dump_python(lines, mode="json", exclude_unset=True)


def lease_body(run_id: UUID, body: bytes, limits: Allowances) -> Any:
    return _read(TypeAdapter(Renewal), body).model_dump()


def tasks_in(body: Any) -> set[UUID]:
    parts = body if isinstance(body, list) else [body]
    return {UUID(part["task_run_id"]) for part in parts if isinstance(part, dict) and part.get("task_run_id")}


def _own(run_id: UUID, named: Sequence[UUID], what: str) -> None:
    if others := [other for other in named if other != run_id]:
        raise Refusal(f"the {what} names the flow run {others[0]}: a box can write only about its own")


def _read(form: TypeAdapter[T], body: bytes) -> T:
    try:
        return form.validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the body"
        raise Refusal(f"{field} is not valid: {first['msg'].lower()}", WRONG) from None
