"""What our workers share: a job outlives its worker, and the next one of the pool follows it to its end."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from uuid import UUID

import anyio
import anyio.abc
from prefect.exceptions import ObjectNotFound
from prefect.workers.base import BaseWorkerResult

from infra.workers.base.failover import Successor
from infra.workers.base.job_configuration import ContainerJobConfiguration, JobRefused, TakenOver
from infra.workers.base.outcome import JobOutcome
from infra.workers.base.pool_runs import PoolRuns
from infra.workers.base.retry import call_until_answered

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun

GOODBYE_S = 10


class Rhythm(Protocol):
    """How often a worker looks, in seconds: at what it follows, and for runs that no worker follows."""

    @property
    def poll_s(self) -> float: ...  # noqa: D102
    @property
    def takeover_s(self) -> float: ...  # noqa: D102


class Followed(Protocol):
    """One run's job, as it is followed."""

    run: "FlowRun"
    job_id: str
    since: float

    def cancel(self) -> None: ...  # noqa: D102
    def hand_over(self) -> None: ...  # noqa: D102


class FollowingWorker(ABC):
    """Submits flow runs as jobs and follows them, those of an earlier worker too.

    Put it before `BaseWorker`: Prefect would take a subclass of that for a worker of its own.

    Attributes:
        thing: what its jobs are called in sentences.
        result_type: what `run` returns.
        pace_type: reads from the environment how often it looks.
        pace: the same, once it is set up.
        follows: the jobs that it follows by their run; None for one that is being submitted.
    """

    thing: ClassVar[str]
    result_type: ClassVar[type[BaseWorkerResult]]
    pace_type: ClassVar[type[Rhythm]]
    pace: Rhythm

    @abstractmethod
    async def start_job(self, flow_run: "FlowRun", configuration: ContainerJobConfiguration) -> str:
        """Find or start the job of a run's try; its id is in the run before anything else can go wrong.

        Raises:
            JobRefused: the job can't be started; says why.
            TakenOver: another worker has the run meanwhile.
        """

    @abstractmethod
    async def find_job(self, run: "FlowRun", configuration: ContainerJobConfiguration) -> str | None:
        """The job that was started just before its worker went, so that its id was not noted."""

    @abstractmethod
    async def follow(
        self,
        flow_run: "FlowRun",
        job_id: str,
        configuration: ContainerJobConfiguration,
        *,
        resumed: bool = False,
    ) -> BaseWorkerResult:
        """Follow a job, and put its run into the state that the job's end means."""

    async def setup(self) -> None:
        """Start the worker, and look for jobs that an earlier one left."""
        self.pace = self.pace_type()
        self.follows: dict[UUID, Followed | None] = {}
        self.settled: set[UUID] = set()
        self._adopted: set[UUID] = set()
        self._loops: list[anyio.CancelScope] = []
        await super().setup()
        self.runs = PoolRuns(self.client, self._work_pool_name, self.name)
        successor = Successor(self)
        self.start_loop(successor.cancel, self.pace.poll_s)
        self.start_loop(successor.look_round, self.pace.takeover_s)

    async def teardown(self, *exc_info: Any) -> None:
        """Stop; the jobs go on, and the next worker of the pool finds them."""
        if not exc_info or exc_info[0] is None:
            while self.follows:  # a run-once worker waits for its runs
                await anyio.sleep(0.1)
        with anyio.CancelScope(shield=True), anyio.move_on_after(GOODBYE_S):
            await self._say_goodbye()
        for scope in self._loops:
            scope.cancel()
        await super().teardown(*exc_info)

    async def _say_goodbye(self) -> None:
        going = {run_id: follow for run_id, follow in self.follows.items() if run_id not in self.settled}
        left = {run_id: follow.job_id for run_id, follow in going.items() if follow}
        if left:
            self._logger.info(
                "The worker stops. These %ss go on, the next worker of pool %s follows them: %s.",
                self.thing,
                self._work_pool_name,
                ", ".join(left.values()),
            )
            await self.runs.release(left)

    async def run(
        self,
        flow_run: "FlowRun",
        configuration: ContainerJobConfiguration,
        task_status: anyio.abc.TaskStatus[Any] | None = None,
    ) -> BaseWorkerResult:
        """Submit a flow run's job, unless it has one, and follow it to its end."""
        status = task_status or anyio.TASK_STATUS_IGNORED
        self.follows.setdefault(flow_run.id, None)
        try:
            job_id = await self.start_job(flow_run, configuration)
        except JobRefused as refusal:
            self.follows.pop(flow_run.id, None)
            status.started(None)
            return await self.refuse(flow_run, refusal)
        except TakenOver:
            self.follows.pop(flow_run.id, None)
            self.settled.add(flow_run.id)
            status.started(None)
            return self.result(str(flow_run.id), 0)
        except BaseException:
            self.follows.pop(flow_run.id, None)
            raise
        status.started(job_id)
        return await self.follow(flow_run, job_id, configuration)

    async def refuse(self, flow_run: "FlowRun", refusal: JobRefused) -> BaseWorkerResult:
        """Say why a run's job can't be started."""
        self.get_flow_run_logger(flow_run).error("%s", refusal)
        state = JobOutcome(refusal.state, str(refusal))
        await self.runs.settle(flow_run.id, flow_run.infrastructure_pid or "", state, own_command=False)
        self.settled.add(flow_run.id)
        return self.result(str(flow_run.id), state.status_code)

    def result(self, identifier: str, status_code: int) -> BaseWorkerResult:
        """What `run` returns."""
        return self.result_type(identifier=identifier, status_code=status_code)

    async def stop_if_cancelled(self, follow: Followed) -> None:
        """End the job of a run that is cancelled already: one without a job is cancelled at once."""
        try:
            state = (await call_until_answered(self.client.read_flow_run, follow.run.id)).state
        except ObjectNotFound:
            return follow.cancel()
        if state and (state.is_cancelling() or state.is_cancelled()):
            follow.cancel()
        return None

    async def _give_worker_labels_to_flow_run(self, flow_run_id: UUID) -> None:
        """Say that the run is this worker's; the base class would let it crash where the server is busy."""
        async with self.runs.labelling:
            await call_until_answered(super()._give_worker_labels_to_flow_run, flow_run_id)

    async def _propose_crashed_state(
        self, flow_run: "FlowRun", message: str, client: "PrefectClient | None" = None
    ) -> None:
        """Leave a run alone whose end was said with its reason; the base class knows only a number."""
        if flow_run.id in self.settled:
            self.settled.discard(flow_run.id)
            return
        await super()._propose_crashed_state(flow_run, message, client)

    async def _propose_pending_state(self, flow_run: "FlowRun") -> bool:
        """A run that another worker left in PENDING without a job is there already."""
        if flow_run.id in self._adopted:
            self._adopted.discard(flow_run.id)
            return True
        return await super()._propose_pending_state(flow_run)

    def is_busy_with(self, run: "FlowRun") -> bool:
        """Whether this worker submits or follows a run."""
        return run.id in self.follows or run.id in self._submitting_flow_run_ids

    def submit_again(self, run: "FlowRun") -> None:
        """Submit a run that is PENDING without a job, as the base class submits what it was given."""
        try:
            if self._limiter:
                self._limiter.acquire_on_behalf_of_nowait(run.id)
        except anyio.WouldBlock:
            return  # until a later round
        self._adopted.add(run.id)
        self._submitting_flow_run_ids.add(run.id)
        self._runs_task_group.start_soon(self._submit_run, run)

    def resume(self, run: "FlowRun", job_id: str, configuration: ContainerJobConfiguration) -> None:
        """Follow the job of a run that an earlier worker had."""
        self.follows[run.id] = None
        self._runs_task_group.start_soon(self._resume, run, job_id, configuration)

    async def _resume(self, run: "FlowRun", job_id: str, configuration: ContainerJobConfiguration) -> None:
        log = self.get_flow_run_logger(run)
        log.info("Worker '%s' follows %s %s from here on.", self.name, self.thing, job_id)
        try:
            await self.follow(run, job_id, configuration, resumed=True)
        except Exception:
            self._logger.exception("Following %s %s failed; the next round takes it up.", self.thing, job_id)
        finally:
            self.settled.discard(run.id)
            self.follows.pop(run.id, None)

    def warn(self, text: str) -> None:
        """Log what concerns the worker and not one run."""
        self._logger.warning("%s", text)

    def start_loop(self, work: Any, every_s: float | None = None) -> None:
        """Do something until the worker stops; with `every_s`, again and again, whatever fails."""
        scope = anyio.CancelScope()
        self._loops.append(scope)

        async def loop() -> None:
            with scope:
                while every_s:
                    try:
                        await work()
                    except Exception as error:
                        self.warn(f"{type(error).__name__}: {error}. The worker goes on and tries again.")
                    await anyio.sleep(every_s)
                await work()

        self._runs_task_group.start_soon(loop)
