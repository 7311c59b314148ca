"""One job on a box, followed over connections that can break."""

import asyncio
import datetime as dt
import time
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from ..base.follow import JobFollow
from ..base.job_configuration import JobRefused
from ..base.log_lines import Lines, Send
from ..base.outcome import JobOutcome, MachineTime, StartTimes
from .box import Look, SshBox
from .configuration import Host, SshJobConfiguration
from .connection import BoxUnreachable, SecretOf, connect
from .outcome import outcome_of
from .proxy.limits import ROW_BYTES
from .settings import SshSettings
from .slurm.box import box_of
from .tunnel import Tunnel

STAGE_LABELS = "ssh.waited_s", "ssh.pulled_s"
NOTED_S = 5  # between two notes on the box of the log's bytes that Prefect has
STOPS = 3  # attempts to stop a container
SPARE_S = 600  # after timeout_s, until the box must have stopped the job and answered
LAST_LINES_S = 10
MUTED = "The job prints too much: the rest of its log stays on the box."
LOGGER = "ssh.job"
LONGEST_AGO_S = 10**9  # before the present, 31 years: with more, a box could name a year before 1


@dataclass(eq=False, kw_only=True)
class SshFollow(JobFollow):
    """One run's job, and its observed state.

    Attributes:
        box: connected, with the tunnel; None for an earlier worker's job.
        waited_s: until a box took the job; None for an earlier worker's job.
    """

    host: Host
    name: str
    configuration: SshJobConfiguration
    box: SshBox | None
    tunnel: Tunnel
    secret_of: SecretOf
    send: Send
    settings: SshSettings
    waited_s: float | None = None
    _labelled: bool = False
    _ran_at: dt.datetime | None = None
    _awake: asyncio.Event = field(default_factory=asyncio.Event)
    _lines: Lines | None = None
    _stops: int = 0
    _waits: str = ""
    _muted: bool = False  # the job has printed more than its allowance

    @property
    def cancelled_message(self) -> str:
        return "Cancelled from Prefect; the job was stopped."

    def wake(self) -> None:
        self._awake.set()

    async def to_the_end(self) -> JobOutcome | None:
        """Follow the job; a box that neither stops it in time nor reports its end is lost."""
        configuration = self.configuration
        limit_s = configuration.timeout_s + SPARE_S + (configuration.wait_s if configuration.scheduler else 0)
        try:
            async with asyncio.timeout(limit_s) as deadline:
                return await self._followed()
        except TimeoutError:
            if not deadline.expired():
                raise
        self.log.warning("Job %s has not ended within %s s: it is stopped.", self.name, limit_s)
        with suppress(JobRefused, BoxUnreachable, TimeoutError):
            async with asyncio.timeout(SPARE_S):
                await self._stop_late()
        allowed = f"{limit_s} s, after timeout_s {configuration.timeout_s}"
        return self.end_of(JobOutcome("Lost", f"Box {self.host} did not end the job within {allowed}."))

    async def _stop_late(self) -> None:
        box = await self._connected()
        try:
            await box.stop(self.name)
        finally:
            box.connection.abort()

    async def _followed(self) -> JobOutcome | None:
        lost_at: float | None = None
        box = self.box
        while not self.handed_over:
            try:
                if box is None:
                    box = await self._connected()
                    if lost_at is not None:
                        self.log.info("Box %s can be reached again.", self.host)
                lost_at = None
                return await self._attend(box)
            except (JobRefused, BoxUnreachable) as error:
                lost_at = lost_at or time.monotonic()
                if outcome := self._gives_up(error, time.monotonic() - lost_at):
                    return outcome
                if box is not None or self._lines is None:
                    lost_s = self.configuration.lost_s
                    self.log.warning("%s The job continues; the worker tries again for %s s.", error, lost_s)
            finally:
                if box is not None:
                    box.connection.abort()
                box = None
            await self._pause()
        return None

    def _gives_up(self, error: JobRefused | BoxUnreachable, lost_for_s: float) -> JobOutcome | None:
        late = lost_for_s > self.configuration.lost_s
        # a full disk can be temporary
        lasts = late or (isinstance(error, JobRefused) and error.state != "Unfit")
        if isinstance(error, JobRefused) and lasts:
            return self._lost(error) if self.stop else JobOutcome(error.state, str(error))
        return self._lost(error) if late else None

    def _lost(self, error: Exception) -> JobOutcome:
        if self.stop:
            rest = f"it stops the job itself after timeout_s {self.configuration.timeout_s}"
            text = f"Cancelled from Prefect while box {self.host} could not be reached; {rest}."
            return JobOutcome("Cancelled", text)
        lost_s = self.configuration.lost_s
        return JobOutcome("Lost", f"Box {self.host} could not be reached for lost_s {lost_s}: {error}")

    async def _pause(self) -> None:
        if self.stop:
            await asyncio.sleep(self.settings.poll_s)
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._awake.wait(), self.settings.poll_s)

    async def _connected(self) -> SshBox:
        box = box_of(await connect(self.host, self.secret_of, in_before=True), self.configuration)
        try:
            await self.tunnel.take_over(box, self.name, await box.look(self.name), self.host)
        except BaseException:
            box.connection.abort()
            raise
        return box

    async def _attend(self, box: SshBox) -> JobOutcome | None:
        if self._lines is None:
            look = await self._look(box)
            self._tell(look)
            self._lines = Lines(self.run.id, self.send, look.seen, LOGGER)
        while True:
            if (done := await self._until_read(box, self._lines)) is not None or self.handed_over:
                return done
            look = await self._look(box)
            if outcome := outcome_of(look, self.host, self.configuration):
                return outcome if outcome.name == "Exited" else self.end_of(outcome)
            self._tell(look)
            # Its watcher is about to write its end, unless its log is not read.
            await asyncio.sleep(self.settings.poll_s / (1 if self._muted else 10))

    async def _look(self, box: SshBox) -> Look:
        """Label the run with its start times once it runs and can cost."""
        look, now = await box.look(self.name), dt.datetime.now(dt.UTC)
        if look.state == "running":
            self._ran_at = now
        if look.begun:
            self.machine_time = self._times(look, now)
        if look.begun and not self._labelled:
            self._labelled = True
            waited_s = self.waited_s if look.queued_s is None else look.queued_s
            began = MachineTime(self.machine_time.began)
            labels = StartTimes(waited_s, look.pulled_s).labels(*STAGE_LABELS) | began.labels
            await self.set_labels(labels)
        return look

    def _times(self, look: Look, now: dt.datetime) -> MachineTime:
        """Return the box's times within the bounds of the worker's clock.

        A job begins after its flow run was created and ends after it was last seen running: a box cannot
        change its bill beyond that.
        """
        began, ended = self.machine_time.began or _ago(look.began_ago_s, now), _ago(look.ended_ago_s, now)
        if began and self.run.created:
            began = max(began, self.run.created)
        if ended and self._ran_at:
            ended = max(ended, self._ran_at)
        return MachineTime(began, ended)

    def _tell(self, look: Look) -> None:
        if look.waits != self._waits:
            self.log.info("%s", look.waits or "The job has started.")
            self._waits = look.waits

    async def _until_read(self, box: SshBox, lines: Lines) -> JobOutcome | None:
        if self._muted and self.stop:
            return await self._stopped(box, asyncio.create_task(asyncio.sleep(0)), self.stop)
        if self._muted:
            return None
        reading = asyncio.create_task(self._read(box, lines))
        waking = asyncio.create_task(self._awake.wait())
        try:
            await asyncio.wait({reading, waking}, return_when=asyncio.FIRST_COMPLETED)
            if self.handed_over:
                return None
            if self.stop and not reading.done():
                return await self._stopped(box, reading, self.stop)
            await reading
        finally:
            for task in (reading, waking):
                task.cancel()
            await asyncio.gather(reading, waking, return_exceptions=True)
        return None

    async def _read(self, box: SshBox, lines: Lines) -> None:
        lines.rewind()
        read = asyncio.Event()
        flushing = asyncio.create_task(self._flush(box, lines, read))
        try:
            async with aclosing(box.lines(self.name, lines.seen)) as chunks:
                async for chunk in chunks:
                    if self.tunnel.limits.logged.take(len(chunk) + ROW_BYTES * chunk.count(b"\n")):
                        self._muted = True
                        self.log.warning("%s", MUTED)
                        break
                    lines.take(chunk)
                    while lines.full and not flushing.done():
                        await asyncio.sleep(self.settings.flush_s / 10)  # the box keeps the rest
        finally:
            read.set()  # not cancelled: lines in transit would come twice
            await asyncio.gather(flushing, return_exceptions=True)
        flushing.result()
        await lines.flush(last=True)

    async def _flush(self, box: SshBox, lines: Lines, read: asyncio.Event) -> None:
        noted_at = time.monotonic()
        while not read.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(read.wait(), self.settings.flush_s)
            if lines.begun and not self._labelled:
                with suppress(BoxUnreachable):
                    await self._look(box)
            await lines.flush()
            if time.monotonic() - noted_at > NOTED_S:
                noted_at = time.monotonic()
                with suppress(BoxUnreachable):
                    await box.note(self.name, "seen", lines.seen)

    async def _stopped(self, box: SshBox, reading: "asyncio.Task[None]", cancelled: JobOutcome) -> JobOutcome:
        while self._stops < STOPS:
            self._stops += 1
            if await box.stop(self.name):
                self.stopped = True
                with suppress(TimeoutError, BoxUnreachable):
                    await asyncio.wait_for(asyncio.shield(reading), LAST_LINES_S)
                with suppress(BoxUnreachable):
                    await self._look(box)
                return cancelled
        rest = f"it did not stop job {self.name}: stop it by hand"
        return JobOutcome("Cancelled", f"Cancelled from Prefect, but box {self.host} is not free: {rest}.")


def _ago(seconds: int | None, now: dt.datetime) -> dt.datetime | None:
    return None if seconds is None else now - dt.timedelta(seconds=min(seconds, LONGEST_AGO_S))
