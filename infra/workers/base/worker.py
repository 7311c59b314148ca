"""The life of a job that outlives its worker."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from uuid import UUID

import anyio.abc
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_WORKER_QUERY_SECONDS, temporary_settings
from prefect.utilities.dispatch import get_registry_for_type
from prefect.workers.base import BaseVariables, BaseWorker, BaseWorkerResult

from .ad_hoc import AdHocStatus, portable, refusal_of, unbundled_settings
from .follow import JobFollow
from .job_configuration import ContainerJobConfiguration, JobRefused, TakenOver
from .outcome import EXPLAINED_LABEL, Cause, JobOutcome
from .pool_runs import ACTIVE, OWNER, PoolRuns
from .retry import call_until_answered
from .run_log import REFUSED, RepeatLimit, RunLog
from .settings import PollSettings, query_s

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun
    from prefect.flows import Flow

GOODBYE_S = 10

C = TypeVar("C", bound=ContainerJobConfiguration)
V = TypeVar("V", bound=BaseVariables)
R = TypeVar("R", bound=BaseWorkerResult)


class RegisteredOnce:
    """Register only one of several copies of a worker, the same in every process."""

    def __init_subclass__(cls, **options: Any) -> None:
        registry = get_registry_for_type(BaseWorker) or {}
        key = getattr(cls, "type", "")
        other = registry.get(key)
        if other and other.__name__ == cls.__name__ and other.__module__ != cls.__module__:
            if other.__module__ < cls.__module__:
                return
            del registry[key]
        super().__init_subclass__(**options)


class FollowingWorker(RegisteredOnce, BaseWorker[C, V, R], ABC, Generic[C, V, R]):
    """A Prefect worker that starts flow runs as jobs and follows them, also those of an earlier worker.

    `ABC` among the bases keeps Prefect from registering this class as a worker.

    Attributes:
        thing: the name of a job in sentences.
        explained_within_s: longest time from a crash until the backend knows its reason.
        follows: the followed jobs by their run; None while a job is being started.
    """

    thing: ClassVar[str]
    result_type: type[R]
    settings_type: type[PollSettings]
    explained_within_s: ClassVar[float]

    settings: PollSettings
    runs: PoolRuns
    follows: dict[UUID, JobFollow | None]
    settled: set[UUID]
    _adopted: set[UUID]
    _ad_hoc: int
    _loops: list[anyio.CancelScope]

    @abstractmethod
    async def start_job(self, flow_run: "FlowRun", configuration: C) -> str:
        """Find or start a try's job, and store its id in the run before any other step can fail.

        `JobRefused` with the reason, or `TakenOver` if another worker has the run now.
        """

    @abstractmethod
    async def find_job(self, flow_run: "FlowRun", configuration: C) -> str | None:
        """Return a job without a stored id, started just before its worker's end."""

    @abstractmethod
    async def follower(self, flow_run: "FlowRun", job_id: str, configuration: C, resumed: bool) -> JobFollow:
        """Return a job's follower; `resumed` if an earlier worker followed it."""

    async def start(self, *args: Any, **options: Any) -> None:
        with temporary_settings({PREFECT_WORKER_QUERY_SECONDS: query_s()}):
            await super().start(*args, **options)

    async def setup(self) -> None:
        self.settings = self.settings_type()
        self.follows, self.settled = {}, set()
        self._adopted, self._ad_hoc, self._loops = set(), 0, []
        await super().setup()
        self.runs = PoolRuns(self.client, self._work_pool_name, self.name)
        failover = Failover(self)
        self.start_loop(failover.cancel, self.settings.poll_s)
        self.start_loop(failover.look_round, self.settings.takeover_s)

    async def teardown(self, *exc_info: Any) -> None:
        """Stop; the jobs continue, and the pool's next worker finds them."""
        if not exc_info or exc_info[0] is None:
            while self.follows or self._ad_hoc:  # a run-once worker waits for its runs
                await anyio.sleep(0.1)
        with anyio.CancelScope(shield=True), anyio.move_on_after(GOODBYE_S):
            await self._say_goodbye()
        for scope in self._loops:
            scope.cancel()
        await super().teardown(*exc_info)

    async def _say_goodbye(self) -> None:
        followed = {run_id: follow for run_id, follow in self.follows.items() if run_id not in self.settled}
        left = {run_id: follow.job_id for run_id, follow in followed.items() if follow}
        if left:
            self._logger.info(
                "The worker stops. These %ss continue, and the next worker of pool %s will follow them: %s.",
                self.thing,
                self._work_pool_name,
                ", ".join(left.values()),
            )
            await self.runs.release(left)

    async def run(
        self,
        flow_run: "FlowRun",
        configuration: C,
        task_status: anyio.abc.TaskStatus[Any] | None = None,
    ) -> R:
        status = task_status or anyio.TASK_STATUS_IGNORED
        self.follows.setdefault(flow_run.id, None)
        try:
            if flow_run.deployment_id is None:  # an ad-hoc run, which the base class does not label
                await self._give_worker_labels_to_flow_run(flow_run.id)
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

    async def follow(self, flow_run: "FlowRun", job_id: str, configuration: C, *, resumed: bool = False) -> R:
        follow = await self.follower(flow_run, job_id, configuration, resumed)
        self.follows[flow_run.id] = follow
        try:
            await self.stop_if_cancelled(follow)
            outcome = await follow.to_the_end()
            if outcome is None:
                return self.result(job_id, 0)  # another worker judges it
            if times := follow.machine_time.labels:
                await self.runs.label(flow_run.id, times)
            state = await self.runs.settle(
                flow_run.id, job_id, outcome, own_command=configuration.own_command
            )
            if state:
                follow.log.info("The %s %s has ended: %s", self.thing, job_id, outcome.message)
            self.settled.add(flow_run.id)
            await follow.show_last_lines()
            return self.result(job_id, outcome.status_code)
        finally:
            follow.close()
            self.follows.pop(flow_run.id, None)

    async def refuse(self, flow_run: "FlowRun", refusal: JobRefused) -> R:
        self.get_flow_run_logger(flow_run).error("%s", refusal)
        outcome = JobOutcome(refusal.state, str(refusal))
        await self.runs.settle(flow_run.id, flow_run.infrastructure_pid or "", outcome, own_command=False)
        self.settled.add(flow_run.id)
        return self.result(str(flow_run.id), outcome.status_code)

    def result(self, identifier: str, status_code: int) -> R:
        return self.result_type(identifier=identifier, status_code=status_code)

    async def stop_if_cancelled(self, follow: JobFollow) -> None:
        """End the job of a cancelled run: Prefect cancels one without a job at once."""
        try:
            state = (await call_until_answered(self.client.read_flow_run, follow.run.id)).state
        except ObjectNotFound:
            return follow.cancel()
        if state and (state.is_cancelling() or state.is_cancelled()):
            follow.cancel()
        return None

    async def _submit_adhoc_run(
        self,
        flow: "Flow[..., Any]",
        parameters: dict[str, Any] | None = None,
        job_variables: dict[str, Any] | None = None,
        task_status: "anyio.abc.TaskStatus[FlowRun] | None" = None,
        flow_run: "FlowRun | None" = None,
    ) -> None:
        """Submit a flow; a failure ends its run, not the worker."""
        status = AdHocStatus(task_status)
        self._ad_hoc += 1
        try:
            with unbundled_settings():
                await super()._submit_adhoc_run(portable(flow), parameters, job_variables, status, flow_run)
        except Exception as error:
            if status.flow_run is None:  # the caller of `submit` gets the error
                raise
            await self.refuse(status.flow_run, refusal_of(error))
        finally:
            self._ad_hoc -= 1

    async def _give_worker_labels_to_flow_run(self, flow_run_id: UUID) -> None:
        """Label a run with its worker; in the base class a busy server would crash the run."""
        async with self.runs.labelling:
            await call_until_answered(super()._give_worker_labels_to_flow_run, flow_run_id)
            explained = {EXPLAINED_LABEL: self.explained_within_s}
            await call_until_answered(self.client.update_flow_run_labels, flow_run_id, explained)

    async def _propose_crashed_state(
        self, flow_run: "FlowRun", message: str, client: "PrefectClient | None" = None
    ) -> None:
        """Keep a run's state and reason; the base class knows only an exit code."""
        if flow_run.id in self.settled:
            self.settled.discard(flow_run.id)
            return
        await super()._propose_crashed_state(flow_run, message.removeprefix(REFUSED), client)
        await self.runs.label_cause(flow_run.id, Cause.CRASHED)

    async def _propose_pending_state(self, flow_run: "FlowRun") -> bool:
        """Return True if a run is PENDING, also if another worker left it so, without a job."""
        if flow_run.id in self._adopted:
            self._adopted.discard(flow_run.id)
            return True
        return await super()._propose_pending_state(flow_run)

    def is_busy_with(self, run: "FlowRun") -> bool:
        return run.id in self.follows or run.id in self._submitting_flow_run_ids

    def submit_again(self, run: "FlowRun") -> None:
        try:
            if self._limiter:
                self._limiter.acquire_on_behalf_of_nowait(run.id)
        except anyio.WouldBlock:
            return  # until a later round
        self._adopted.add(run.id)
        self._submitting_flow_run_ids.add(run.id)
        self._start_soon(partial(self._submit_run, run))

    def resume(self, run: "FlowRun", job_id: str, configuration: C) -> None:
        self.follows[run.id] = None
        self._start_soon(partial(self._resume, run, job_id, configuration))

    async def _resume(self, run: "FlowRun", job_id: str, configuration: C) -> None:
        log = self.get_flow_run_logger(run)
        log.info("Worker '%s' follows %s %s from now on.", self.name, self.thing, job_id)
        try:
            await self.follow(run, job_id, configuration, resumed=True)
        except JobRefused as refusal:
            self.warn(f"{refusal} The worker will try again to follow {self.thing} {job_id}.")
        except Exception:
            self._logger.exception("Following %s %s failed; the worker will try again.", self.thing, job_id)
        finally:
            self.settled.discard(run.id)
            self.follows.pop(run.id, None)

    def get_flow_run_logger(self, flow_run: "FlowRun") -> RunLog:
        log = super().get_flow_run_logger(flow_run)
        return RunLog(log.logger, log.extra)

    def warn(self, text: str) -> None:
        self._logger.warning("%s", text)

    def start_loop(
        self, work: Callable[[], Coroutine[Any, Any, object]], every_s: float | None = None
    ) -> anyio.CancelScope:
        """Run a coroutine until the worker stops or the returned scope is cancelled.

        With `every_s`, repeat it, also after failures.
        """
        scope, repeats = anyio.CancelScope(), RepeatLimit()
        self._loops.append(scope)

        async def loop() -> None:
            with scope:
                while every_s:
                    try:
                        await work()
                    except Exception as error:
                        text = f"{type(error).__name__}: {error}. The worker will try again."
                        if repeats.is_due(text):
                            self.warn(text)
                    await anyio.sleep(every_s)
                await work()

        self._start_soon(loop)
        return scope

    def _start_soon(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        if self._runs_task_group is None:
            raise RuntimeError("The worker is not set up: use it as a context manager.")
        self._runs_task_group.start_soon(work)


class Failover:
    """Takes over other workers' runs, and hands over those that others took."""

    def __init__(self, worker: "FollowingWorker[Any, Any, Any]") -> None:
        self._worker = worker

    async def cancel(self) -> None:
        for run in await self._worker.runs.in_states([StateType.CANCELLING]):
            if follow := self._worker.follows.get(run.id):
                follow.cancel()

    async def look_round(self) -> None:
        worker, began_at = self._worker, anyio.current_time()
        active = {run.id: run for run in await worker.runs.in_states(ACTIVE)}
        online = await worker.runs.online()
        for follow in [follow for follow in worker.follows.values() if follow and follow.since < began_at]:
            run = active.get(follow.run.id)
            if run is None:
                await worker.stop_if_cancelled(follow)
            elif worker.runs.is_anothers(run):
                follow.hand_over()
        for run in self._orphans(active.values(), online):
            await self._adopt(run)

    def _orphans(self, runs: "Iterable[FlowRun]", online: set[str]) -> "list[FlowRun]":
        """Return runs to take over; before an ad-hoc run has its label, only its own worker can run it."""
        worker = self._worker
        return [
            run
            for run in runs
            if (run.deployment_id or OWNER in run.labels)
            and not worker.is_busy_with(run)
            and worker.runs.is_mine(run, online)
        ]

    async def _adopt(self, listed: "FlowRun") -> None:
        """Continue a run with its job, or at the interrupted step of its submission."""
        worker = self._worker
        run = await worker.client.read_flow_run(listed.id)  # its state might have changed since it was listed
        if run.state is None or run.state.type not in ACTIVE:
            return
        await worker.runs.claim(run.id)
        configuration: ContainerJobConfiguration = await worker.job_configuration.resolve_for_flow_run(
            run,
            client=worker.client,
            work_pool=copy.deepcopy(worker.work_pool),
            worker_name=worker.name,
            worker_id=worker.backend_id,
        )
        job_id = run.infrastructure_pid or await worker.find_job(run, configuration)
        if job_id:
            worker.resume(run, job_id, configuration)
        elif run.state.is_cancelling():
            never = JobOutcome("Cancelled", f"Cancelled from Prefect before there was a {worker.thing}.")
            await worker.runs.settle(run.id, "", never, own_command=False)
        elif run.state.is_pending():
            worker.submit_again(run)
