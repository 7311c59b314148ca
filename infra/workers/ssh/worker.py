"""A Prefect worker for boxes behind SSH: `prefect work-pool create NAME --type ssh`."""

import time
from functools import partial
from typing import TYPE_CHECKING

from prefect.blocks.system import Secret
from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound, ObjectNotFound

from ..base.job_configuration import JobRefused, TakenOver
from ..base.retry import call_until_answered
from ..base.worker import FollowingWorker
from .box import SshBox
from .configuration import (
    Host,
    SshJobConfiguration,
    SshVariables,
    SshWorkerResult,
    host_and_name,
    identifier,
    job_name,
)
from .connection import BoxUnreachable, connect
from .follow import SshFollow
from .settings import SshSettings
from .slurm.box import box_of
from .start import Launcher
from .tunnel import Tunnel

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.schemas.objects import FlowRun

__all__ = ["SshJobConfiguration", "SshVariables", "SshWorker", "SshWorkerResult"]


class SshWorker(FollowingWorker[SshJobConfiguration, SshVariables, SshWorkerResult]):
    """Runs flow runs on boxes and follows them."""

    type = "ssh"
    thing = "job"
    job_configuration = SshJobConfiguration
    job_configuration_variables = SshVariables
    result_type = SshWorkerResult
    settings_type = SshSettings
    settings: SshSettings
    explained_within_s = 30.0

    _description = (
        "Execute flow runs on machines that SSH reaches, one at a time on each: in containers of Docker or "
        "podman, or as processes with the box's own Python and packages."
    )
    _display_name = "SSH"
    _documentation_url = "https://asyncssh.readthedocs.io"
    _logo_url = (
        "https://raw.githubusercontent.com/PrefectHQ/prefect/420d0d6a78bb6df1fc18bcf188fdad43c1d22ea9/"
        "assets/block-logos/process.png"
    )

    async def setup(self) -> None:
        self._started: dict[UUID, tuple[SshBox, Tunnel, float]] = {}
        await super().setup()

    async def start_job(self, flow_run: "FlowRun", configuration: SshJobConfiguration) -> str:
        number = await self.runs.try_number(flow_run.id)
        name = job_name(flow_run.id, number)

        async def note(host: Host) -> None:
            await given_up()
            flow_run.infrastructure_pid = identifier(host, name)  # a later refusal is about this box
            await call_until_answered(
                self.client.update_flow_run, flow_run.id, infrastructure_pid=flow_run.infrastructure_pid
            )

        async def given_up() -> bool:
            try:
                run = await call_until_answered(self.client.read_flow_run, flow_run.id)
            except ObjectNotFound:
                return True
            if self.runs.is_anothers(run):
                raise TakenOver
            return run.state is not None and (run.state.is_cancelling() or run.state.is_final())

        log = self.get_flow_run_logger(flow_run)
        before = self._noted(flow_run, name, configuration.hosts)
        tunnel = self._tunnel(flow_run)
        starter = Launcher(
            configuration, name, tunnel, self._secret, note, given_up, log, self.settings.poll_s, before
        )
        asked_at = time.monotonic()
        started = await starter.start()
        log.info("Box %s runs job %s.", started.host, name)
        self._started[flow_run.id] = started.box, tunnel, time.monotonic() - asked_at
        return identifier(started.host, name)

    @staticmethod
    def _noted(flow_run: "FlowRun", name: str, hosts: list[Host]) -> Host | None:
        pid = flow_run.infrastructure_pid or ""
        if pid.rpartition("/")[2] != name:
            return None
        if (job := host_and_name(pid, hosts)) is None:
            raise JobRefused(f"hosts no longer names the box of {pid}, which might still run the job.")
        return job[0]

    async def find_job(self, flow_run: "FlowRun", configuration: SshJobConfiguration) -> str | None:
        """Return None: a job's box is noted before the job exists."""
        return None

    async def follow(
        self,
        flow_run: "FlowRun",
        job_id: str,
        configuration: SshJobConfiguration,
        *,
        resumed: bool = False,
    ) -> SshWorkerResult:
        """Start the job first if its worker might have ended before the start."""
        try:
            if resumed and flow_run.state and flow_run.state.is_pending():
                job_id = await self.start_job(flow_run, configuration)
            if host_and_name(job_id, configuration.hosts) is None:
                raise JobRefused(f"hosts no longer names the box of {job_id}.")
        except JobRefused as refusal:
            return await self.refuse(flow_run, refusal)
        except TakenOver:
            return self.result(job_id, 0)
        return await super().follow(flow_run, job_id, configuration, resumed=resumed)

    async def follower(
        self, flow_run: "FlowRun", job_id: str, configuration: SshJobConfiguration, resumed: bool
    ) -> SshFollow:
        job = host_and_name(job_id, configuration.hosts)
        if job is None:
            raise ValueError(f"{job_id} is on none of the hosts")  # `follow` has refused it before
        host, name = job
        log = self.get_flow_run_logger(flow_run)
        box, tunnel, waited_s = self._started.pop(flow_run.id, (None, self._tunnel(flow_run), None))
        return SshFollow(
            run=flow_run,
            job_id=job_id,
            log=log,
            set_labels=partial(self.runs.label, flow_run.id),
            host=host,
            name=name,
            configuration=configuration,
            box=box,
            tunnel=tunnel,
            secret_of=self._secret,
            send=self.client.create_logs,
            settings=self.settings,
            waited_s=waited_s,
        )

    async def kill_infrastructure(
        self, infrastructure_pid: str, configuration: SshJobConfiguration, grace_seconds: int = 30
    ) -> None:
        """Stop a job.

        `InfrastructureNotFound` if it has ended, `InfrastructureNotAvailable` if its box did not stop it.
        """
        job = host_and_name(infrastructure_pid, configuration.hosts)
        if job is None:
            raise InfrastructureNotFound(f"hosts does not name the box of {infrastructure_pid}.")
        host, name = job
        try:
            async with await connect(host, self._secret) as connection:
                box = box_of(connection, configuration)
                if (await box.look(name)).state != "running":
                    raise InfrastructureNotFound(f"Box {host} has no unfinished job {name}.")
                if not await box.stop(name, grace_seconds):
                    raise InfrastructureNotAvailable(f"Box {host} did not stop job {name}.")
        except (JobRefused, BoxUnreachable) as error:
            raise InfrastructureNotAvailable(str(error)) from error

    def _tunnel(self, flow_run: "FlowRun") -> Tunnel:
        """A run from the queue does not name its pool."""
        named = flow_run.model_copy(update={"work_pool_name": self._work_pool_name})
        return Tunnel(named, self.get_flow_run_logger(flow_run))

    async def _secret(self, name: str) -> str:
        try:
            block: Secret[str] = await Secret.aload(name, client=self.client)
        except ValueError as error:
            message = f"key is block:{name}, but this Secret block does not exist ({error})."
            raise JobRefused(message, "KeyRefused") from None
        return str(block.get())
