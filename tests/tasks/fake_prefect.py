"""A Prefect API in memory, as far as the dispatcher speaks to it: lane jobs, their states, their records."""

from collections import deque
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

from prefect.exceptions import ObjectNotFound
from prefect.states import Completed, Crashed, Running, Scheduled

from tasks.aftermath import REPEATS
from workloads.harness.record import Verdict


class FakePrefect:
    """Lane jobs do nothing by themselves: a test starts them, has them deliver, and ends them.

    `troubles` are raised by the next requests, one each; None lets a request through.
    """

    def __init__(self):
        self.jobs, self.artifacts, self.by_key = {}, [], {}
        self.troubles = deque()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc_info):
        return None

    def _trouble(self):
        if self.troubles and (error := self.troubles.popleft()):
            raise error

    async def run_deployment(self, name, *, parameters, tags, flow_run_name, idempotency_key, **others):
        self._trouble()
        if idempotency_key not in self.by_key:
            job = SimpleNamespace(
                id=uuid4(),
                name=flow_run_name,
                parameters=parameters,
                tags=tags,
                state=Scheduled(),
                start_time=None,
                created=datetime.now(UTC),
                expected_start_time=datetime.now(UTC) + timedelta(microseconds=len(self.jobs)),
                estimated_run_time=timedelta(0),
            )
            self.jobs[job.id] = self.by_key[idempotency_key] = job
        self._trouble()  # the answer may be lost as well
        return self.by_key[idempotency_key]

    async def read_flow_runs(self, flow_run_filter, limit=200, offset=0):
        self._trouble()
        wanted = flow_run_filter.id.any_ if flow_run_filter.id else None
        tags = set(flow_run_filter.tags.all_) if flow_run_filter.tags else set()
        found = [j for j in self.jobs.values() if (wanted is None or j.id in wanted) and tags <= set(j.tags)]
        return found[offset : offset + limit]

    async def read_flow_run(self, flow_run_id):
        if flow_run_id not in self.jobs:
            raise ObjectNotFound(None)
        return self.jobs[flow_run_id]

    async def set_flow_run_state(self, flow_run_id, state, force=False):
        self.jobs[flow_run_id].state = state

    async def request(self, method, path, json):
        self._trouble()
        wanted = json["artifacts"]["flow_run_id"]["any_"]
        return SimpleNamespace(json=lambda: len([a for a in self.artifacts if str(a.job) in wanted]))

    async def read_artifacts(self, artifact_filter, sort, limit, offset):
        self._trouble()
        wanted = artifact_filter.flow_run_id.any_
        found = [a for a in reversed(self.artifacts) if a.job in wanted]
        return found[offset : offset + limit]

    # what lane jobs do

    @property
    def job(self):
        """The newest job."""
        return list(self.jobs.values())[-1]

    def repeats(self, job):
        return REPEATS.validate_python(job.parameters["repeats"])

    def start(self, job):
        job.state, job.start_time = Running(), datetime.now(UTC)

    def deliver(self, job, repeats, verdict=Verdict.TIMEOUT):
        for repeat in repeats:
            record = repeat.failed(verdict, "of a fake")
            self.artifacts.append(
                SimpleNamespace(id=uuid4(), key=repeat.id, data=record.to_json(), job=job.id)
            )

    def complete(self, job):
        """A job that measures all that it was asked for."""
        self.start(job)
        self.deliver(job, self.repeats(job))
        job.state = Completed()

    def crash(self, job):
        job.state = Crashed(message="killed")

    def stopped(self, job):
        return job.state.is_cancelled() or job.state.is_cancelling()
