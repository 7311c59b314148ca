"""The dispatcher's part of the Prefect API in memory: lane jobs, states, records."""

from collections import deque
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

import httpx
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.states import Completed, Crashed, Pending, Running, Scheduled

from tasks.delivery.job_orders import KEY, REPEATS
from tasks.dispatch import dispatcher, submit
from tasks.dispatch.rental_labels import RELEASE, RentalStatus
from workloads.harness.records.record import Verdict


def answer(code):
    request = httpx.Request("POST", "http://api")
    response = httpx.Response(code, json={"detail": "no such key"}, request=request)
    return PrefectHTTPStatusError("refused", request=request, response=response)


class FakePrefect:
    """Lane jobs do nothing by themselves: a test starts, delivers and ends them.

    `troubles` are raised by the next requests; None lets one through. `measured` makes a repeat's record; by
    default all time out.
    """

    def __init__(self, measured=None):
        self.measured = measured
        self.jobs, self.artifacts, self.by_key = {}, [], {}
        self.fetched = []  # artifacts, in the order of the answers
        self.rentals, self.inputs, self.orders = {}, {}, {}
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
                run_count=0,
                end_time=None,
                states=[],
                labels={},
                created=datetime.now(UTC),
                expected_start_time=datetime.now(UTC) + timedelta(microseconds=len(self.jobs)),
                estimated_run_time=timedelta(0),
            )
            job.job_variables = others.get("job_variables")
            among = self.rentals if name.startswith("rental/") else self.jobs
            among[job.id] = self.by_key[idempotency_key] = job
        self._trouble()  # the answer can be lost as well
        return self.by_key[idempotency_key]

    async def read_flow_runs(self, flow_run_filter, limit=200, offset=0, flow_filter=None):
        self._trouble()
        wanted = flow_run_filter.id.any_ if flow_run_filter.id else None
        tags = set(flow_run_filter.tags.all_) if flow_run_filter.tags else set()
        every = [*self.jobs.values(), *self.rentals.values()]
        found = [j for j in every if (wanted is None or j.id in wanted) and tags <= set(j.tags)]
        return found[offset : offset + limit]

    async def read_flow_run(self, flow_run_id):
        if flow_run_id not in self.jobs | self.rentals:
            raise ObjectNotFound(None)
        return (self.jobs | self.rentals)[flow_run_id]

    async def read_flow_run_states(self, flow_run_id):
        return self.jobs[flow_run_id].states

    async def set_flow_run_state(self, flow_run_id, state, force=False):
        self._enter((self.jobs | self.rentals)[flow_run_id], state)

    async def create_flow_run_input(self, flow_run_id, key, value):
        self._trouble()
        if (flow_run_id, key) in self.inputs:
            raise answer(409)
        self.inputs[flow_run_id, key] = value
        if key == KEY:
            self.orders[flow_run_id] = REPEATS.validate_json(value)
        self._trouble()

    async def read_flow_run_input(self, flow_run_id, key):
        self._trouble()
        if (flow_run_id, key) not in self.inputs:
            raise answer(404)
        return self.inputs[flow_run_id, key]

    async def delete_flow_run_input(self, flow_run_id, key):
        self._trouble()
        if self.inputs.pop((flow_run_id, key), None) is None:
            raise answer(404)

    async def request(self, method, path, json):
        """Return the number of artifacts, which the client has no function for."""
        self._trouble()
        assert (method, path) == ("POST", "/artifacts/count")
        wanted = json["artifacts"]["flow_run_id"]["any_"]
        count = sum(str(artifact.flow_run_id) in wanted for artifact in self.artifacts)
        return httpx.Response(200, json=count)

    async def read_artifacts(self, artifact_filter, sort, limit, offset):
        self._trouble()
        wanted = artifact_filter.flow_run_id.any_
        found = [a for a in reversed(self.artifacts) if a.flow_run_id in wanted]
        self.fetched += (page := found[offset : offset + limit])
        return page

    async def delete_artifact(self, artifact_id):
        self._trouble()
        self.artifacts = [a for a in self.artifacts if a.id != artifact_id]

    async def update_flow_run_labels(self, flow_run_id, labels):
        self._trouble()
        run = self.rentals[flow_run_id]
        run.labels |= labels
        if labels.get(RELEASE) and run.run_count and not run.state.is_final():
            self.give_back(run)

    # what rentals do

    def rent(self, run, **known):
        now = datetime.now(UTC)
        box = {"name": f"box-{len(self.rentals)}", "address": "10.0.0.1", "user": "ubuntu", "since": now}
        box |= {"answered": now, "until": now + timedelta(hours=1), "usd_per_hour": 1.5, "type": "gpu_1x_a10"}
        run.labels |= RentalStatus(**box | known).labels
        self._enter(run, Running())

    def give_back(self, run, state=None):
        run.labels |= {
            k: v for k, v in RentalStatus(returned=datetime.now(UTC)).labels.items() if k.endswith("returned")
        }
        self._enter(run, state or Completed(message="given back"))

    # what lane jobs do

    @property
    def job(self):
        return list(self.jobs.values())[-1]

    def repeats(self, job):
        return self.orders[job.id]

    def _enter(self, run, state):
        """Set a state like the server: a run that ends before it ran starts at its end."""
        run.state, now = state, datetime.now(UTC)
        if state.is_running():
            run.run_count, run.start_time = run.run_count + 1, run.start_time or now
        if state.is_final():
            run.start_time, run.end_time = run.start_time or now, now

    def take(self, job):
        job.states.append(Pending())
        self._enter(job, job.states[-1])

    def start(self, job):
        self.take(job)
        self._enter(job, Running())

    def deliver(self, job, repeats, verdict=Verdict.TIMEOUT):
        for repeat in repeats:
            record = self.measured(repeat) if self.measured else repeat.failed(verdict, "of a fake")
            self.send(job, record.to_json())

    def send(self, job, data):
        self.artifacts.append(SimpleNamespace(id=uuid4(), data=data, flow_run_id=job.id))

    def complete(self, job):
        self.start(job)
        self.deliver(job, self.repeats(job))
        self._enter(job, Completed())

    def crash(self, job, message="killed"):
        """Crash a job; one that has not started counts as refused."""
        self._enter(job, Crashed(message=message))

    def stopped(self, job):
        return job.state.is_cancelled() or job.state.is_cancelling()


def installed(monkeypatch, measured=None):
    fake = FakePrefect(measured)
    monkeypatch.setattr(dispatcher, "get_client", lambda: fake)
    monkeypatch.setattr(submit, "arun_deployment", fake.run_deployment)
    monkeypatch.setattr(dispatcher, "GATHER_S", 0.01)
    return fake
