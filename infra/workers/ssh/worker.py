"""A Prefect worker for boxes behind SSH: `prefect work-pool create NAME --type ssh`."""

from typing import TYPE_CHECKING

from prefect.blocks.system import Secret
from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound, ObjectNotFound
from prefect.workers.base import BaseWorker

from infra.workers.base.job_configuration import JobRefused, TakenOver
from infra.workers.base.outcome import JobOutcome
from infra.workers.base.retry import call_until_answered
from infra.workers.base.worker import FollowingWorker
from infra.workers.ssh.box import SshBox
from infra.workers.ssh.configuration import (
    Host,
    SshJobConfiguration,
    SshVariables,
    SshWorkerResult,
    identifier,
    job_name,
    place_of,
)
from infra.workers.ssh.connection import BoxUnreachable, connect
from infra.workers.ssh.follow import SshFollow
from infra.workers.ssh.settings import SshSettings
from infra.workers.ssh.start import Launcher

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.schemas.objects import FlowRun

__all__ = ["SshJobConfiguration", "SshVariables", "SshWorker", "SshWorkerResult"]


class SshWorker(FollowingWorker, BaseWorker[SshJobConfiguration, SshVariables, SshWorkerResult]):
    """Runs flow runs on boxes and follows them, those of an earlier worker too."""

    type = "ssh"
    thing = "container"
    job_configuration = SshJobConfiguration
    job_configuration_variables = SshVariables
    result_type = SshWorkerResult
    pace_type = SshSettings
    pace: SshSettings

    _description = (
        "Execute flow runs in containers on machines that SSH reaches, one at a time on each. Requires "
        "Docker or podman there."
    )
    _display_name = "SSH"
    _documentation_url = "https://asyncssh.readthedocs.io"
    _logo_url = (
        "https://raw.githubusercontent.com/PrefectHQ/prefect/420d0d6a78bb6df1fc18bcf188fdad43c1d22ea9/"
        "assets/block-logos/process.png"
    )

    async def setup(self) -> None:
        """Start the worker, and look for jobs that an earlier one left."""
        self._boxes: dict[UUID, SshBox] = {}
        await super().setup()

    async def start_job(self, flow_run: "FlowRun", configuration: SshJobConfiguration) -> str:
        """Have one of the boxes start this try's container, unless one has it."""
        number = await self.runs.try_number(flow_run.id)
        name = job_name(flow_run.id, number)

        async def note(host: Host) -> None:
            await given_up()
            flow_run.infrastructure_pid = identifier(host, name)  # a refusal that follows is about this one
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
        starter = Launcher(configuration, name, self._secret, note, given_up, log, self.pace.poll_s, before)
        started = await starter.start()
        log.info("Box %s runs the container %s.", started.host, name)
        self._boxes[flow_run.id] = started.box
        return identifier(started.host, name)

    @staticmethod
    def _noted(flow_run: "FlowRun", name: str, hosts: list[Host]) -> Host | None:
        """The box that an earlier worker was about to give this try to."""
        pid = flow_run.infrastructure_pid or ""
        if pid.rpartition("/")[2] != name:
            return None
        if (place := place_of(pid, hosts)) is None:
            raise JobRefused(f"hosts no longer names the box of {pid}: it may run the job.")
        return place[0]

    async def find_job(self, run: "FlowRun", configuration: SshJobConfiguration) -> str | None:
        """None: where a job is about to be is noted before it is there."""
        return None

    async def follow(
        self,
        flow_run: "FlowRun",
        job_id: str,
        configuration: SshJobConfiguration,
        *,
        resumed: bool = False,
    ) -> SshWorkerResult:
        """Follow a job, and put its run into the state that the job's end means."""
        log = self.get_flow_run_logger(flow_run)
        if resumed and flow_run.state and flow_run.state.is_pending():
            try:  # its worker may have gone between the note and the start
                job_id = await self.start_job(flow_run, configuration)
            except JobRefused as refusal:
                return await self.refuse(flow_run, refusal)
            except TakenOver:
                return self.result(job_id, 0)
        box = self._boxes.pop(flow_run.id, None)
        place = place_of(job_id, configuration.hosts)
        if place is None:
            gone = JobOutcome("Crashed", f"hosts no longer names the box of {job_id}.")
            await self.runs.settle(flow_run.id, job_id, gone, own_command=False)
            return self.result(job_id, gone.status_code)
        follow = SshFollow(
            flow_run,
            job_id,
            *place,
            configuration,
            self._secret,
            self.client.create_logs,
            self.pace,
            log,
        )
        self.follows[flow_run.id] = follow
        try:
            await self.stop_if_cancelled(follow)
            ending = await follow.to_the_end(box)
            if ending is None:
                return self.result(job_id, 0)  # another worker judges it
            own_command = configuration.own_command
            if await self.runs.settle(flow_run.id, job_id, ending, own_command=own_command):
                log.info("Container %s has ended: %s", place[1], ending.message)
            self.settled.add(flow_run.id)
            return self.result(job_id, ending.status_code)
        finally:
            self.follows.pop(flow_run.id, None)

    async def kill_infrastructure(
        self, infrastructure_pid: str, configuration: SshJobConfiguration, grace_seconds: int = 30
    ) -> None:
        """Stop a container.

        Raises:
            InfrastructureNotFound: there is no such job, or it has ended.
            InfrastructureNotAvailable: its box does not answer, or did not stop it.
        """
        place = place_of(infrastructure_pid, configuration.hosts)
        if place is None:
            raise InfrastructureNotFound(f"hosts does not name the box of {infrastructure_pid}.")
        host, name = place
        try:
            async with await connect(host, self._secret) as connection:
                box = SshBox(connection, configuration.container_command)
                if (await box.look(name)).state != "running":
                    raise InfrastructureNotFound(f"Box {host} has no container {name} that has not ended.")
                if not await box.stop(name, grace_seconds):
                    raise InfrastructureNotAvailable(f"Box {host} has not stopped the container {name}.")
        except (JobRefused, BoxUnreachable) as error:
            raise InfrastructureNotAvailable(str(error)) from error

    async def _secret(self, name: str) -> str:
        """What a Secret block holds."""
        try:
            block = await Secret.aload(name, client=self.client)
        except ValueError as error:
            why = f"key is block:{name}, and there is no such Secret block ({error})."
            raise JobRefused(why, "KeyRefused") from None
        return str(block.get())
