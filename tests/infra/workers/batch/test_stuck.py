import pytest

from infra.workers.base.job_configuration import JobRefused
from infra.workers.base.outcome import PULL_LABEL, QUEUE_LABEL
from infra.workers.batch.follow import STAGE_LABELS, start_times
from infra.workers.batch.stuck import diagnose, given_up, look

TOO_LARGE = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job resource requirement is higher than …"
MAX_VCPUS = "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - CE(s) cannot meet the CPU requirement"
FULL = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Service cannot fulfill the capacity requested"
TYPES = {"g5.xlarge": (4, 16384, 1), "g5.8xlarge": (32, 131072, 1)}


class FakeRegion:
    name = "us-east-1"

    def __init__(self, *types, bought="EC2", queue=None, environment=None, denied=(), **resources):
        self.types, self.denied = types or ("g5.xlarge",), denied
        self.queue = {"jobQueueName": "q", "state": "ENABLED", "status": "VALID"} | (queue or {})
        self.resources = {"type": bought, "instanceTypes": list(self.types), "maxvCpus": 64} | resources
        self.environment = {"state": "ENABLED", "status": "VALID"} | (environment or {})

    async def retry(self, service, operation, patience_s, **request):
        if operation in self.denied:
            raise JobRefused("denied")
        if operation == "describe_job_queues":
            order = [{"order": 1, "computeEnvironment": "ce"}]
            return {"jobQueues": [self.queue | {"computeEnvironmentOrder": order}]}
        if operation == "describe_compute_environments":
            told = {"computeEnvironmentName": "ce", "computeResources": self.resources} | self.environment
            return {"computeEnvironments": [told]}
        return {
            "InstanceTypes": [
                {
                    "InstanceType": name,
                    "VCpuInfo": {"DefaultVCpus": TYPES[name][0]},
                    "MemoryInfo": {"SizeInMiB": TYPES[name][1]},
                    "GpuInfo": {"Gpus": [{"Count": TYPES[name][2]}]},
                }
                for name in self.types
            ]
        }


def job(said=None, vcpus=1, memory_mib=1024, gpus=0):
    asked = [("VCPU", vcpus), ("MEMORY", memory_mib), ("GPU", gpus)]
    needs = [{"type": kind, "value": str(amount)} for kind, amount in asked if amount]
    told = {"jobId": "j", "jobQueue": "q", "status": "RUNNABLE", "container": {"resourceRequirements": needs}}
    return told | ({"statusReason": said} if said else {})


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"memory_mib": 20000}, "memory_mib 20000 is more than g5.xlarge in queue q offers (16384)."),
        ({"gpus": 8}, "gpus 8 is more than g5.xlarge in queue q offers (1)."),
        ({"vcpus": 96}, "vcpus 96 is more than g5.xlarge in queue q offers (4)."),
        (
            {"memory_mib": 16384},
            "memory_mib 16384 leaves no memory for the host: it is all that g5.xlarge in queue q offers (16384).",
        ),
        (
            {"memory_mib": 20000, "gpus": 2},
            "memory_mib 20000 is more than g5.xlarge in queue q offers (16384); "
            "gpus 2 is more than g5.xlarge in queue q offers (1).",
        ),
    ],
)
async def test_the_number_that_is_too_big_is_named(asked, said):
    found = await diagnose(FakeRegion(), job(TOO_LARGE, **asked))
    assert (found.kind, found.message) == ("misconfigured", said)


async def test_the_largest_type_of_the_queue_counts():
    found = await diagnose(FakeRegion("g5.xlarge", "g5.8xlarge"), job(TOO_LARGE, memory_mib=200000))
    assert found.message == "memory_mib 200000 is more than g5.8xlarge in queue q offers (131072)."


async def test_the_spend_cap_is_named():
    found = await diagnose(FakeRegion("g5.8xlarge", maxvCpus=16), job(MAX_VCPUS))
    assert found.kind == "misconfigured"
    assert "is more than maxvCpus 16 of compute environment ce" in found.message


async def test_a_misfit_that_no_number_shows_is_doubted():
    found = await diagnose(FakeRegion(), job(TOO_LARGE, vcpus=4, memory_mib=15000, gpus=1))
    assert found.kind == "doubtful" and "JOB_RESOURCE_REQUIREMENT" in found.message


QUEUED = {"aws-batch.runnable_s": 60.0, QUEUE_LABEL: 60.0}


@pytest.mark.parametrize(
    ("created", "placed", "started", "labels"),
    [
        (1000, 61_000, 81_000, QUEUED | {"aws-batch.starting_s": 20.0, PULL_LABEL: 20.0}),
        (1000, None, 81_000, {"aws-batch.runnable_s": 80.0, QUEUE_LABEL: 80.0}),
        (
            1000,
            90_000,
            81_000,
            {"aws-batch.runnable_s": 80.0, QUEUE_LABEL: 80.0},
        ),  # a late clock here
        (1000, 61_000, None, {}),
    ],
)
def test_the_stages_of_a_start(created, placed, started, labels):
    times = start_times({"createdAt": created, "startedAt": started}, placed)
    assert (times.labels(*STAGE_LABELS) if times else {}) == labels


@pytest.mark.parametrize("denied", [("describe_instance_types",), ("describe_job_queues",)])
async def test_without_permission_to_look_awss_own_words_do(denied):
    found = await diagnose(FakeRegion(denied=denied), job(TOO_LARGE, memory_mib=20000))
    assert found.kind == "misconfigured" and "JOB_RESOURCE_REQUIREMENT" in found.message


@pytest.mark.parametrize(
    ("region", "kind", "words"),
    [
        (FakeRegion(queue={"state": "DISABLED"}), "broken", "Queue q is DISABLED"),
        (
            FakeRegion(environment={"status": "INVALID", "statusReason": "CLIENT_ERROR - no such role"}),
            "broken",
            "Compute environment ce is ENABLED and INVALID: CLIENT_ERROR - no such role.",
        ),
        (FakeRegion(desiredvCpus=64), "unknown", "ce has 64 of 64 vCPUs, its maximum."),
        (FakeRegion(desiredvCpus=0), "unknown", "EC2 quota for the instance family"),
        (FakeRegion(denied=("describe_job_queues",)), "unknown", "Usual causes"),
    ],
)
async def test_without_a_reason_the_queue_is_looked_at(region, kind, words):
    found = await diagnose(region, job())
    assert found.kind == kind and words in found.message


async def test_a_job_that_waits_for_capacity_is_diagnosed_as_such():
    found = await diagnose(FakeRegion(), job(FULL))
    assert (found.kind, found.message) == ("capacity", FULL)


@pytest.mark.parametrize(
    ("bought", "tried"),
    [("SPOT", "a queue of another type, another region, or on-demand"), ("EC2", "another type or region")],
)
async def test_a_job_given_up_for_capacity_names_alternatives(bought, tried):
    region = FakeRegion(bought=bought)
    said = given_up(await diagnose(region, job(FULL)), await look(region, "q"), region, 600)
    assert f"try {tried}, or a longer deadline" in said
    assert "of g5.xlarge in us-east-1 within capacity_deadline_s 600" in said
